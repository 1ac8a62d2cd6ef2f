/* Convolutions over time and running states, a lane a channel, in plain C: see lanes.h. */
#ifndef LOCUS_KERNELS_SCAN_H
#define LOCUS_KERNELS_SCAN_H

#include <string.h>

#include "base/math.h"
#include "kernels/share.h"

/* A row of a panel, its missing channels 0; and back. Copied whole: else compilers load values one
 * by one. */
INLINE void take_channels(float lanes[LOCUS_CHANNELS], const float *row, int width)
{
    if (width == LOCUS_CHANNELS) {
        memcpy(lanes, row, LOCUS_CHANNELS * sizeof *row);
        return;
    }
    memset(lanes, 0, LOCUS_CHANNELS * sizeof *lanes);
    memcpy(lanes, row, (size_t)width * sizeof *row);
}

INLINE void put_channels(float *row, const float lanes[LOCUS_CHANNELS], int width)
{
    if (width == LOCUS_CHANNELS)
        memcpy(row, lanes, LOCUS_CHANNELS * sizeof *row);
    else
        memcpy(row, lanes, (size_t)width * sizeof *row);
}

static void convolve(const struct locus_convolution *op)
{
    for (int i = 0; i < op->n; i++) {
        float sum[LOCUS_CHANNELS], x[LOCUS_CHANNELS], taps[LOCUS_CHANNELS];
        take_channels(sum, op->bias, LOCUS_CHANNELS);
        for (int k = 0; k < op->n_taps; k++) {
            take_channels(x, op->x + (size_t)(i + k) * op->stride, op->width);
            take_channels(taps, op->taps + (size_t)k * LOCUS_CHANNELS, LOCUS_CHANNELS);
            for (int l = 0; l < LOCUS_CHANNELS; l++)
                sum[l] = fmaf(taps[l], x[l], sum[l]);
        }
        for (int l = 0; l < LOCUS_CHANNELS && !op->bare; l++)
            sum[l] = locus_silu(sum[l]);
        put_channels(op->out + (size_t)i * op->stride, sum, op->width);
    }
}

/* Rows that are summed up side by side, each in its own order: a value of p is read once for all.
 */
enum { LONG_ROWS = 4 };

/* What p[j] adds to sums[first .. n_rows - 1] of rows from `row` on. */
INLINE void add_long(const struct locus_long_convolution *op, int row, int j, int first, int n_rows,
                     float sums[][LOCUS_CHANNELS])
{
    float p[LOCUS_CHANNELS], h[LOCUS_CHANNELS];
    memcpy(p, op->p + (size_t)j * LOCUS_CHANNELS, sizeof p);
    for (int r = first; r < n_rows; r++) {
        memcpy(h, op->h + (size_t)(row + r - j) * LOCUS_CHANNELS, sizeof h);
        for (int l = 0; l < LOCUS_CHANNELS; l++)
            sums[r][l] = fmaf(h[l], p[l], sums[r][l]);
    }
}

/* sums[n_rows] for rows row .. row + n_rows - 1 of all: p from the latest on, which not all see. */
INLINE void sum_long(const struct locus_long_convolution *op, int row, int n_rows,
                     float sums[][LOCUS_CHANNELS])
{
    for (int j = row + n_rows - 1; j > row; j--)
        add_long(op, row, j, j - row, n_rows, sums);
    for (int j = row; j >= 0; j--)
        add_long(op, row, j, 0, n_rows, sums);
}

static void convolve_long(const struct locus_long_convolution *op)
{
    float skip[LOCUS_CHANNELS];
    take_channels(skip, op->skip, LOCUS_CHANNELS);
    for (int i = 0, n_rows; i < op->n; i += n_rows) {
        float sums[LONG_ROWS][LOCUS_CHANNELS] = {{0}};
        const int row = op->first + i;
        n_rows = op->n - i < LONG_ROWS ? 1 : LONG_ROWS;
        if (n_rows == 1)
            sum_long(op, row, 1, sums);
        else
            sum_long(op, row, LONG_ROWS, sums);
        for (int r = 0; r < n_rows; r++) {
            float gate[LOCUS_CHANNELS], p[LOCUS_CHANNELS];
            take_channels(gate, op->gate + (size_t)(i + r) * op->gate_stride, op->width);
            memcpy(p, op->p + (size_t)(row + r) * LOCUS_CHANNELS, sizeof p);
            for (int l = 0; l < LOCUS_CHANNELS; l++)
                sums[r][l] = gate[l] * fmaf(skip[l], p[l], sums[r][l]);
            put_channels(op->out + (size_t)(i + r) * op->out_stride, sums[r], op->width);
        }
    }
}

static void scan(const struct locus_scan *op)
{
    float skip[LOCUS_CHANNELS];
    take_channels(skip, op->skip, LOCUS_CHANNELS);
    for (int i = 0; i < op->n; i++) {
        const size_t at = (size_t)i * op->stride;
        const float *b = op->b + (size_t)i * (size_t)op->n_state;
        const float *c = op->c + (size_t)i * (size_t)op->n_state;
        float step[LOCUS_CHANNELS], u[LOCUS_CHANNELS], z[LOCUS_CHANNELS];
        float input[LOCUS_CHANNELS], sum[LOCUS_CHANNELS] = {0};
        take_channels(step, op->dt + at, op->width);
        take_channels(u, op->u + at, op->width);
        take_channels(z, op->z + at, op->width);
        for (int l = 0; l < LOCUS_CHANNELS; l++) {
            step[l] = locus_softplus(step[l]);
            input[l] = step[l] * u[l];
        }
        for (int s = 0; s < op->n_state; s++) {
            float a[LOCUS_CHANNELS], h[LOCUS_CHANNELS];
            float *state = op->h + (size_t)s * LOCUS_CHANNELS;
            take_channels(a, op->a + (size_t)s * LOCUS_CHANNELS, LOCUS_CHANNELS);
            take_channels(h, state, LOCUS_CHANNELS);
            for (int l = 0; l < LOCUS_CHANNELS; l++) {
                h[l] = fmaf(locus_exp(step[l] * a[l]), h[l], input[l] * b[s]);
                sum[l] = fmaf(c[s], h[l], sum[l]);
            }
            put_channels(state, h, LOCUS_CHANNELS);
        }
        for (int l = 0; l < LOCUS_CHANNELS; l++)
            sum[l] = fmaf(skip[l], u[l], sum[l]) * locus_silu(z[l]);
        put_channels(op->out + at, sum, op->width);
    }
}

static void recur(const struct locus_recurrence *op)
{
    for (int i = 0; i < op->n; i++) {
        const size_t at = (size_t)i * op->stride, of_step = (size_t)i * op->step_stride;
        const float *b = op->b + (size_t)i * op->state_stride;
        const float *c = op->c + (size_t)i * op->state_stride;
        const float decay = op->decay[of_step], step = op->step[of_step];
        float u[LOCUS_CHANNELS], input[LOCUS_CHANNELS], sum[LOCUS_CHANNELS] = {0};
        take_channels(u, op->u + at, op->width);
        for (int l = 0; l < LOCUS_CHANNELS; l++)
            input[l] = step * u[l];
        for (int s = 0; s < op->n_state; s++) {
            float h[LOCUS_CHANNELS];
            float *state = op->h + (size_t)s * LOCUS_CHANNELS;
            take_channels(h, state, LOCUS_CHANNELS);
            for (int l = 0; l < LOCUS_CHANNELS; l++) {
                h[l] = fmaf(decay, h[l], b[s] * input[l]);
                sum[l] = fmaf(c[s], h[l], sum[l]);
            }
            put_channels(state, h, LOCUS_CHANNELS);
        }
        for (int l = 0; l < LOCUS_CHANNELS; l++)
            sum[l] = fmaf(op->skip, u[l], sum[l]);
        put_channels(op->out + at, sum, op->width);
    }
}

static void steps(float *step, float *decay, const float *dt, const float *bias, const float *a,
                  int n)
{
    for (int i = 0; i < n; i++)
        step[i] = locus_softplus(dt[i] + bias[i]);
    for (int i = 0; i < n; i++)
        decay[i] = locus_exp(step[i] * a[i]);
}

#endif
