/* Hostile files: a tiny complete checkpoint, and every way to cut it or to set its fields wrong.
 *
 * A test opens each mutated file and asserts what must hold: an error or a valid result, never a
 * signal, a hang or a huge allocation.
 */
#ifndef LOCUS_TESTS_HOSTILE_H
#define LOCUS_TESTS_HOSTILE_H

#include <stdbool.h>
#include <stddef.h>

/* Writes a whole model of architecture "llama", through our own writer: 2 layers, width 32, 4 heads
 * over 2 key-value heads, MLP 64, context 64, F32 weights drawn from a fixed seed, SentencePiece
 * vocabulary with byte tokens. About 150 KB. */
void hostile_write_checkpoint(const char *path);

/* Called with the path of a mutated file and what was done to it, fit for a message. `whole` is
 * true for the few that must still open: the file as it is, or with bytes after its end. */
typedef void hostile_check(const char *path, const char *what, bool whole, void *data);

/* The checkpoint cut at every byte from the first to the end of its tensor table, and at one byte
 * before, at and after both ends of every tensor's data. Returns the number of files tried. */
size_t hostile_cuts(hostile_check *check, void *data);

/* The checkpoint with each count, length, type, dimension, offset and metadata value in turn set to
 * 0, 1, 2^31, 2^32-1, 2^63 and 2^64-1 (as far as its width goes), floats also to -1, NaN and
 * infinity. Returns the number of files tried. */
size_t hostile_fields(hostile_check *check, void *data);

/* From here on this process (a forked test) can map at most n_bytes more than it has; more under a
 * sanitizer, which maps for its own ends. Returns whether it is no more than that. */
bool hostile_limit_memory(size_t n_bytes);

#endif
