/* Options that hands used to other programs type, and what says the same here. */
#ifndef LOCUS_CLI_FOREIGN_H
#define LOCUS_CLI_FOREIGN_H

/* What to do instead of an option, named without its dashes up to a '=', '_' being as good as '-';
 * NULL: it is none of another program's. */
const char *locus_foreign_hint(const char *name);

#endif
