/* The SPECs that tests try: every scheme of the registry by its name, then variants with keys. */
#ifndef LOCUS_TESTS_SPECS_H
#define LOCUS_TESTS_SPECS_H

int spec_count(void);
const char *spec_at(int index);

#endif
