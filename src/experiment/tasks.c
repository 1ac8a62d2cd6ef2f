/* Character-level tasks: their texts. See tasks.h. */
#include "experiment/tasks.h"

#include <math.h>
#include <string.h>

static const char introduction[] =
    "There is an important info hidden inside a lot of irrelevant text. ";
static const char filler[] =
    "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again. ";
static const char key_before[] = "The pass key is ", key_after[] = ". Remember it. ";
static const char question[] = "What is the pass key? The pass key is ";

enum {
    N_KEY = 5,
    FILLER = sizeof filler - 1,
    /* A passkey text without filler: begin-of-text, texts, the key twice, a line feed. */
    PASSKEY_BARE = 1 + (sizeof introduction - 1) + (sizeof key_before - 1) +
                   (sizeof key_after - 1) + (sizeof question - 1) + 2 * N_KEY + 1
};

static const struct {
    const char *name;
    int shortest;
    const char *lengths;
} tasks[LOCUS_N_TASKS] = {
    [LOCUS_TASK_COPY] = {"copy", 1, "5,10,15,20,25,30,40,50,60"},
    [LOCUS_TASK_REVERSE] = {"reverse", 1, "5,10,15,20,25,30,40,50,60"},
    [LOCUS_TASK_ADDITION] = {"addition", 1, "2,4,6,8,10,12,16,20,24"},
    [LOCUS_TASK_PASSKEY] = {"passkey", PASSKEY_BARE, "160,256,384,512,768,1024"},
};

const char *locus_task_name(enum locus_task task)
{
    return tasks[task].name;
}

int locus_task_shortest(enum locus_task task)
{
    return tasks[task].shortest;
}

const char *locus_task_lengths(enum locus_task task)
{
    return tasks[task].lengths;
}

/* A number below n, each as likely as the next (to 2^-32 n). */
static int draw(struct locus_rng *rng, int n)
{
    return (int)((locus_rng_next(rng) >> 32) * (uint64_t)n >> 32);
}

static void add_drawn(struct locus_buffer *out, struct locus_rng *rng, char first, int n_choices,
                      int length)
{
    for (int i = 0; i < length; i++) {
        char c = (char)(first + draw(rng, n_choices));
        locus_buffer_append(out, &c, 1);
    }
}

/* copy:abcab=abcab and reverse:abcab=bacba */
static void make_letters(bool reversed, int length, struct locus_rng *rng,
                         struct locus_buffer *prompt, struct locus_buffer *answer)
{
    locus_buffer_printf(prompt, reversed ? "reverse:" : "copy:");
    const size_t start = prompt->length;
    add_drawn(prompt, rng, 'a', 26, length);
    for (int i = 0; i < length && !prompt->failed; i++)
        locus_buffer_append(answer, prompt->bytes + start + (reversed ? length - 1 - i : i), 1);
    locus_buffer_append(prompt, "=", 1);
}

/* A summand's first digit is 0 only if it is its only one. */
static void add_summand(struct locus_buffer *out, struct locus_rng *rng, int length)
{
    if (length > 1)
        add_drawn(out, rng, '1', 9, 1);
    else
        add_drawn(out, rng, '0', 10, 1);
    add_drawn(out, rng, '0', 10, length - 1);
}

/* add:123+989=2111 */
static void make_addition(int length, struct locus_rng *rng, struct locus_buffer *prompt,
                          struct locus_buffer *answer)
{
    locus_buffer_printf(prompt, "add:");
    const size_t first = prompt->length;
    add_summand(prompt, rng, length);
    locus_buffer_append(prompt, "+", 1);
    const size_t second = prompt->length;
    add_summand(prompt, rng, length);
    int carry = 0;
    for (int i = length - 1; i >= 0 && !prompt->failed; i--) {
        int sum = prompt->bytes[first + (size_t)i] - '0' + prompt->bytes[second + (size_t)i] - '0' +
                  carry;
        char digit = (char)('0' + sum % 10);
        carry = sum / 10;
        locus_buffer_append(answer, &digit, 1);
    }
    if (carry) locus_buffer_append(answer, "1", 1);
    locus_buffer_append(prompt, "=", 1);
}

/* Bytes [first, end) of the filler, repeated for ever. */
static void add_filler(struct locus_buffer *out, int first, int end)
{
    while (first < end) {
        int at = first % FILLER, n = FILLER - at < end - first ? FILLER - at : end - first;
        locus_buffer_append(out, filler + at, (size_t)n);
        first += n;
    }
}

static void make_passkey(int length, double depth, struct locus_rng *rng,
                         struct locus_buffer *prompt, struct locus_buffer *answer)
{
    const int n_filler = length > PASSKEY_BARE ? length - PASSKEY_BARE : 0;
    const int before = (int)floor(depth * n_filler + 0.5);
    add_drawn(answer, rng, '0', 10, N_KEY);
    locus_buffer_printf(prompt, "%s", introduction);
    add_filler(prompt, 0, before);
    locus_buffer_printf(prompt, "%s%.*s%s", key_before, N_KEY, answer->failed ? "" : answer->bytes,
                        key_after);
    add_filler(prompt, before, n_filler);
    locus_buffer_printf(prompt, "%s", question);
}

void locus_task_example(enum locus_task task, int length, double depth, struct locus_rng *rng,
                        struct locus_buffer *prompt, struct locus_buffer *answer)
{
    switch (task) {
    case LOCUS_TASK_COPY:
    case LOCUS_TASK_REVERSE:
        make_letters(task == LOCUS_TASK_REVERSE, length, rng, prompt, answer);
        break;
    case LOCUS_TASK_ADDITION:
        make_addition(length, rng, prompt, answer);
        break;
    case LOCUS_TASK_PASSKEY:
        make_passkey(length, depth, rng, prompt, answer);
        break;
    }
    locus_buffer_append(answer, "\n", 1);
}
