/* The registry: every position scheme, found by index or by name. */
#include "position/registry.h"

#include <string.h>

#include "base/text.h"
#include "position/position.h"

/* In the order of help and error messages. */
static const struct locus_position_scheme *const schemes[] = {
    &locus_scheme_none,     &locus_scheme_learned,   &locus_scheme_sinusoidal,
    &locus_scheme_rope,     &locus_scheme_xpos,      &locus_scheme_alibi,
    &locus_scheme_relative, &locus_scheme_t5,        &locus_scheme_kerple,
    &locus_scheme_sandwich, &locus_scheme_fire,      &locus_scheme_transformer_xl,
    &locus_scheme_cope,     &locus_scheme_fox,       &locus_scheme_dape,
    &locus_scheme_path,     &locus_scheme_recurrent,
};

const struct locus_position_alias locus_position_aliases[] = {
    {"nope", "none", NULL, NULL, NULL},
    {"linear", "rope", "scaling=linear", "factor=4", "factor"},
    {"ntk", "rope", "scaling=ntk", "factor=4", "factor"},
    {"dynamic-ntk", "rope", "scaling=dynamic", "factor=4", NULL},
    {"yarn", "rope", "scaling=yarn", "factor=4", "factor|attn_factor"},
    {"llama3", "rope", "scaling=llama3", "factor=4", "factor"},
    {"longrope", "rope", "scaling=longrope", "factor=4", NULL},
    {"dynamic", NULL, "'recurrent' (a GRU's state) or 'rope:scaling=dynamic' (dynamic NTK)", NULL,
     NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

const struct locus_foreign_option locus_position_foreign[] = {
    {"rope-scaling", "say -P rope:scaling=TYPE,factor=F"},
    {"rope-scale|rope-scaling-factor", "say -P linear:factor=F"},
    {"rope-freq-base|rope-theta", "say -P rope:base=B"},
    {"rope-freq-scale", "say -P linear:factor=F, F being 1 over the scale"},
    {"yarn-orig-ctx", "say -P yarn:factor=F,trained=N"},
    {"yarn-ext-factor", "say -P yarn:factor=F"},
    {"yarn-attn-factor", "say -P yarn:factor=F,attn_factor=X"},
    {"yarn-beta-slow", "say -P yarn:factor=F,beta_slow=X"},
    {"yarn-beta-fast", "say -P yarn:factor=F,beta_fast=X"},
    {NULL, NULL},
};

size_t locus_position_count(void)
{
    return sizeof schemes / sizeof *schemes;
}

const struct locus_position_scheme *locus_position_at(size_t index)
{
    return schemes[index];
}

const struct locus_position_alias *locus_position_find_alias(const char *name, size_t n_bytes)
{
    for (const struct locus_position_alias *alias = locus_position_aliases; alias->alias; alias++)
        if (locus_text_is(name, n_bytes, alias->alias)) return alias;
    return NULL;
}

const struct locus_position_scheme *locus_position_find(const char *name, size_t n_bytes)
{
    const struct locus_position_alias *alias = locus_position_find_alias(name, n_bytes);
    if (alias) {
        if (!alias->name) return NULL;
        name = alias->name;
        n_bytes = strlen(name);
    }
    for (size_t i = 0; i < locus_position_count(); i++)
        if (locus_text_is(name, n_bytes, schemes[i]->name)) return schemes[i];
    return NULL;
}
