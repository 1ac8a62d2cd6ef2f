/* What the common options say to a session; shared by every command that runs one. */
#ifndef LOCUS_CLI_SESSION_OPTIONS_H
#define LOCUS_CLI_SESSION_OPTIONS_H

#include "cli/kit/options.h"
#include "position/layers.h"

enum { LOCUS_INVENTED_LENGTH = 1024 }; /* trained length of the average model */

/* What a scheme may know of that model. */
struct locus_position_env locus_invented_env(void);

/* Resolves a position SPEC where there is no model, for that average one: only names, keys and
 * ranges matter. False with *error (or NULL) filled if it is wrong. */
bool locus_resolve_without_model(struct locus_layer_specs *specs, const char *text,
                                 locus_error *error);

/* Checks a position SPEC (NULL: none) as far as that can be done without a model: a wrong name, key
 * or number is wrong usage of `command`; what a scheme lacks for the model is said by the session
 * later. Returns -1 to go on, or the exit status. */
int locus_check_position(const char *command, const char *spec);

/* The same for a cache policy. */
int locus_check_attention(const char *command, const char *spec);

/* The session's parameters, n_context as the option has it (0: not given). */
locus_session_params locus_session_options(const struct locus_common *common);

/* The seed that was given, or a drawn one. */
uint64_t locus_seed_option(const struct locus_common *common);

/* What is to be known of the session, on stderr: more threads than cores; with --position, the
 * scheme the model was trained with; how far a cache policy reaches; with --verbose, the settings
 * in use. */
void locus_tell_session(const struct locus_common *common, const char *model_path,
                        const locus_model_info *info, const locus_session *session);

/* Says what failed; returns the exit status: LOCUS_ERROR_ARGUMENT is wrong usage of `command`. */
int locus_log_refusal(const char *command, const locus_error *error);

#endif
