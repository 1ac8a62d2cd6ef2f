/* Heat maps: see chart.h.
 *
 *        title
 *        +-----------+  +-+ ticks, label
 *     rows           |  | |  of the scale
 *        +-----------+  +-+
 *           columns
 *
 * Cells are drawn whole pixels wide where each can have one; where there are more cells than
 * pixels, a pixel shows the mean of those it covers.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chart/axes.h"
#include "chart/palette.h"

static const struct locus_colour ink = {0x26, 0x26, 0x26}, hole = {0xDD, 0xDD, 0xDD},
                                 white = {0xFF, 0xFF, 0xFF};

enum {
    MARGIN = 16,
    LABEL = 26,
    TICK_ROOM = 12, /* between a frame and the texts of its ticks */
    SCALE_GAP = 20,
    SCALE_WIDTH = 18,
    MARK_ROW = 18,
    NAME_WIDTH = 130 /* pixels that a row's or column's name may have */
};

struct drawing {
    const struct locus_heat_map *map;
    struct locus_canvas canvas;
    struct locus_axis scale; /* vertical, of the scale bar */
    struct locus_box frame;  /* around the cells, itself not drawn on */
    int width, height;
    bool turned; /* column names stand upright */
};

static const char *name_at(const struct locus_heat_axis *axis, int i)
{
    return axis->names[i] ? axis->names[i] : "";
}

static double step_of(const struct locus_heat_axis *axis)
{
    return axis->step != 0 && isfinite(axis->step) ? axis->step : 1;
}

/* ---- ranges and layout -------------------------------------------------------------------- */

static void fit_scale(struct drawing *drawing)
{
    const struct locus_heat_map *map = drawing->map;
    struct locus_extent extent = LOCUS_EXTENT_EMPTY;
    size_t n = (size_t)map->n_rows * (size_t)map->n_columns;
    for (size_t i = 0; i < n; i++)
        locus_extent_add(&extent, map->values[i]);
    struct locus_chart_axis wanted = {
        .scale = LOCUS_SCALE_LINEAR, .min = extent.min, .max = extent.max};
    if (isfinite(map->min) && isfinite(map->max) && map->min < map->max) {
        wanted.min = map->min;
        wanted.max = map->max;
    }
    locus_axis_fit(&drawing->scale, &wanted, &extent, LOCUS_SCALE_LINEAR);
}

/* The widest of the texts that name rows or columns. */
static double axis_text_width(const struct locus_heat_axis *axis, int n)
{
    double widest = 0;
    for (int i = 0; axis->names && i < n; i++) {
        const char *name = name_at(axis, i);
        widest = fmax(widest, locus_text_width(&locus_text_plain, name, strlen(name)));
    }
    char number[32];
    double step = step_of(axis), ends[2] = {axis->first, axis->first + step * (n - 1)};
    for (int i = 0; !axis->names && i < 2; i++) {
        locus_number_print(number, ends[i], step);
        widest = fmax(widest, locus_text_width(&locus_text_plain, number, strlen(number)));
    }
    return fmin(widest, NAME_WIDTH);
}

/* Shrinks [*from, *to) around its middle to whole pixels a cell, where that loses less than a third
 * of it. */
static void fit_cells(int *from, int *to, int n)
{
    int room = *to - *from, cell = n > 0 ? room / n : 0;
    if (cell < 1 || cell * n * 3 < room * 2) return;
    *to = *from + cell * n;
}

static bool has_mark(const struct locus_heat_map *map)
{
    return map->mark_after > 0 && map->mark_after < map->n_columns;
}

static void place_frame(struct drawing *drawing)
{
    const struct locus_heat_map *map = drawing->map;
    struct locus_box *frame = &drawing->frame;
    frame->top = MARGIN + locus_title_height(map->title) + (has_mark(map) ? MARK_ROW : 0);
    frame->left = MARGIN + (map->rows.label ? LABEL : 0) + TICK_ROOM +
                  (int)axis_text_width(&map->rows, map->n_rows);
    /* Ticks of the scale, whose texts may be as wide as these. */
    drawing->scale.from = drawing->height - 60;
    drawing->scale.to = frame->top;
    locus_axis_tick(&drawing->scale, &locus_text_plain, true);
    int right = SCALE_GAP + SCALE_WIDTH + TICK_ROOM + MARGIN + (map->value_label ? LABEL : 0) +
                (int)locus_axis_text_width(&drawing->scale, &locus_text_plain);
    frame->right = drawing->width - right;
    if (frame->right < frame->left + 20) frame->right = frame->left + 20;
    double name_width = axis_text_width(&map->columns, map->n_columns);
    drawing->turned = map->columns.names && map->n_columns > 0 &&
                      (frame->right - frame->left) / map->n_columns < name_width + 8;
    frame->bottom = drawing->height - MARGIN - (map->columns.label ? LABEL : 0) - TICK_ROOM -
                    (drawing->turned ? (int)name_width : 10);
    if (frame->bottom < frame->top + 20) frame->bottom = frame->top + 20;
    int right_before = frame->right, bottom_before = frame->bottom;
    if (map->square) {
        int side = frame->right - frame->left, high = frame->bottom - frame->top;
        if (side > high) side = high;
        frame->right = frame->left + side;
        frame->bottom = frame->top + side;
    }
    fit_cells(&frame->left, &frame->right, map->n_columns);
    fit_cells(&frame->top, &frame->bottom, map->n_rows);
    /* A picture whose size is ours has no blank rim. */
    if (!map->width) drawing->width -= right_before - frame->right;
    if (!map->height) drawing->height -= bottom_before - frame->bottom;
    drawing->scale.from = frame->bottom - 0.5;
    drawing->scale.to = frame->top + 0.5;
    locus_axis_tick(&drawing->scale, &locus_text_plain, true);
}

/* ---- cells -------------------------------------------------------------------------------- */

/* The cells [*from, *to) that pixel i of n_pixels covers; at least one. */
static void covered(int i, int n_pixels, int n_cells, int *from, int *to)
{
    *from = (int)((long long)i * n_cells / n_pixels);
    *to = (int)((long long)(i + 1) * n_cells / n_pixels);
    if (*to <= *from) *to = *from + 1;
}

static double mean_of(const struct locus_heat_map *map, int row, int row_end, int column,
                      int column_end)
{
    double sum = 0;
    int n = 0;
    for (int r = row; r < row_end; r++)
        for (int c = column; c < column_end; c++) {
            float value = map->values[(size_t)r * (size_t)map->n_columns + (size_t)c];
            if (!isfinite(value)) continue;
            sum += value;
            n++;
        }
    return n ? sum / n : NAN;
}

static struct locus_colour colour_of(const struct drawing *drawing, double value)
{
    if (!isfinite(value)) return hole;
    const struct locus_axis *scale = &drawing->scale;
    return locus_palette_at(drawing->map->palette,
                            (value - scale->min) / (scale->max - scale->min));
}

static void draw_cells(struct drawing *drawing)
{
    const struct locus_heat_map *map = drawing->map;
    struct locus_box f = drawing->frame;
    int width = f.right - f.left, height = f.bottom - f.top;
    for (int j = 0; j < height; j++) {
        int row, row_end;
        covered(j, height, map->n_rows, &row, &row_end);
        for (int i = 0; i < width; i++) {
            int column, column_end;
            covered(i, width, map->n_columns, &column, &column_end);
            struct locus_box pixel = {f.left + i, f.top + j, f.left + i + 1, f.top + j + 1};
            double value = mean_of(map, row, row_end, column, column_end);
            locus_canvas_fill(&drawing->canvas, pixel, colour_of(drawing, value));
        }
    }
}

/* Values in the cells, where all of them fit. */
static void draw_values(struct drawing *drawing)
{
    const struct locus_heat_map *map = drawing->map;
    struct locus_box f = drawing->frame;
    double width = (double)(f.right - f.left) / map->n_columns;
    double height = (double)(f.bottom - f.top) / map->n_rows;
    if (height < 18 || width < 34) return;
    for (int r = 0; r < map->n_rows; r++)
        for (int c = 0; c < map->n_columns; c++) {
            float value = map->values[(size_t)r * (size_t)map->n_columns + (size_t)c];
            if (!isfinite(value)) continue;
            char text[32];
            locus_number_print(text, value,
                               fabsf(value) < 10    ? 0.01
                               : fabsf(value) < 100 ? 0.1
                                                    : 1);
            struct locus_text_style style = locus_text_small;
            style.size = 0.9;
            if (locus_text_width(&style, text, strlen(text)) > width - 4) continue;
            style.colour = locus_colour_is_light(colour_of(drawing, value)) ? ink : white;
            locus_text_draw(&drawing->canvas, &style, text, strlen(text),
                            f.left + (c + 0.5) * width, f.top + (r + 0.5) * height + 4,
                            LOCUS_ALIGN_CENTRE, false);
        }
}

/* Dashes of two colours, to be seen on any cell. */
static void draw_mark(struct drawing *drawing)
{
    const struct locus_heat_map *map = drawing->map;
    const struct locus_text_style *style = &locus_text_small;
    struct locus_box f = drawing->frame;
    if (!has_mark(map)) return;
    const int x = f.left + (int)((long long)(f.right - f.left) * map->mark_after / map->n_columns);
    for (int y = f.top; y < f.bottom; y++)
        locus_canvas_fill(&drawing->canvas, (struct locus_box){x - 1, y, x + 1, y + 1},
                          (y - f.top) % 12 < 7 ? ink : white);
    if (!map->mark_label) return;
    const size_t n_bytes = strlen(map->mark_label);
    const double half = locus_text_width(style, map->mark_label, n_bytes) / 2;
    const double centre = fmax(half + 4, fmin(x, drawing->width - half - 4));
    locus_text_draw(&drawing->canvas, style, map->mark_label, n_bytes, centre, f.top - 7,
                    LOCUS_ALIGN_CENTRE, false);
}

/* ---- axes --------------------------------------------------------------------------------- */

/* Every how many-th name is shown, so that they keep their distance. */
static int name_stride(double cell, double needed)
{
    int stride = 1;
    while (stride * cell < needed && stride < 1 << 20)
        stride++;
    return stride;
}

static void draw_row_names(struct drawing *drawing, double cell)
{
    const struct locus_heat_axis *rows = &drawing->map->rows;
    struct locus_box f = drawing->frame;
    int stride = name_stride(cell, 16);
    for (int r = 0; r < drawing->map->n_rows; r += stride) {
        double y = f.top + (r + 0.5) * cell;
        struct locus_box tick = {f.left - 5, (int)y, f.left - 1, (int)y + 1};
        locus_canvas_fill(&drawing->canvas, tick, ink);
        locus_text_draw_cut(&drawing->canvas, &locus_text_plain, name_at(rows, r), NAME_WIDTH,
                            f.left - 10, y + 4, LOCUS_ALIGN_RIGHT, false);
    }
}

static void draw_column_names(struct drawing *drawing, double cell)
{
    const struct locus_heat_axis *columns = &drawing->map->columns;
    struct locus_box f = drawing->frame;
    int stride = drawing->turned ? name_stride(cell, 15) : 1;
    for (int c = 0; c < drawing->map->n_columns; c += stride) {
        double x = f.left + (c + 0.5) * cell;
        struct locus_box tick = {(int)x, f.bottom + 1, (int)x + 1, f.bottom + 5};
        locus_canvas_fill(&drawing->canvas, tick, ink);
        if (drawing->turned)
            locus_text_draw_cut(&drawing->canvas, &locus_text_plain, name_at(columns, c),
                                NAME_WIDTH, x + 4, f.bottom + 10, LOCUS_ALIGN_RIGHT, true);
        else
            locus_text_draw(&drawing->canvas, &locus_text_plain, name_at(columns, c),
                            strlen(name_at(columns, c)), x, f.bottom + 20, LOCUS_ALIGN_CENTRE,
                            false);
    }
}

/* An axis of cell numbers: ticks at round ones, in the middle of their cell. */
static struct locus_axis number_axis(const struct locus_heat_axis *numbers, int n, double from,
                                     double to)
{
    double step = step_of(numbers), half = step / 2;
    struct locus_axis axis = {.scale = LOCUS_SCALE_LINEAR,
                              .min = numbers->first - half,
                              .max = numbers->first + step * (n - 1) + half,
                              .from = from,
                              .to = to};
    if (step < 0) {
        double min = axis.max;
        axis.max = axis.min;
        axis.min = min;
        axis.from = to;
        axis.to = from;
    }
    return axis;
}

/* Ticks between two cells, which a round step below theirs gives, say nothing. */
static void drop_between(struct locus_axis *axis, const struct locus_heat_axis *numbers)
{
    int n = 0;
    for (int i = 0; i < axis->n_ticks; i++) {
        double cell = (axis->ticks[i].value - numbers->first) / step_of(numbers);
        if (fabs(cell - round(cell)) > 1e-6) continue;
        axis->ticks[n] = axis->ticks[i];
        locus_number_print(axis->ticks[n].text, axis->ticks[n].value, step_of(numbers));
        n++;
    }
    axis->n_ticks = n;
}

static void draw_axes(struct drawing *drawing)
{
    const struct locus_heat_map *map = drawing->map;
    struct locus_box f = drawing->frame;
    struct locus_canvas *canvas = &drawing->canvas;
    if (map->rows.names) {
        draw_row_names(drawing, (double)(f.bottom - f.top) / map->n_rows);
    } else {
        struct locus_axis axis = number_axis(&map->rows, map->n_rows, f.top, f.bottom);
        locus_axis_tick(&axis, &locus_text_plain, true);
        drop_between(&axis, &map->rows);
        locus_axis_draw_beside(canvas, &axis, f.left - 1, false);
    }
    if (map->columns.names) {
        draw_column_names(drawing, (double)(f.right - f.left) / map->n_columns);
    } else {
        struct locus_axis axis = number_axis(&map->columns, map->n_columns, f.left, f.right);
        locus_axis_tick(&axis, &locus_text_plain, false);
        drop_between(&axis, &map->columns);
        locus_axis_draw_below(canvas, &axis, f.bottom + 1);
    }
}

static void draw_outline(struct locus_canvas *canvas, struct locus_box f)
{
    locus_canvas_fill(canvas, (struct locus_box){f.left - 1, f.top - 1, f.right + 1, f.top}, ink);
    locus_canvas_fill(canvas, (struct locus_box){f.left - 1, f.bottom, f.right + 1, f.bottom + 1},
                      ink);
    locus_canvas_fill(canvas, (struct locus_box){f.left - 1, f.top, f.left, f.bottom}, ink);
    locus_canvas_fill(canvas, (struct locus_box){f.right, f.top, f.right + 1, f.bottom}, ink);
}

static void draw_scale(struct drawing *drawing)
{
    struct locus_box f = drawing->frame;
    struct locus_box bar = {f.right + SCALE_GAP, f.top, f.right + SCALE_GAP + SCALE_WIDTH,
                            f.bottom};
    int height = f.bottom - f.top;
    for (int j = 0; j < height; j++) {
        struct locus_box line = {bar.left, f.top + j, bar.right, f.top + j + 1};
        locus_canvas_fill(&drawing->canvas, line,
                          locus_palette_at(drawing->map->palette, 1 - (j + 0.5) / height));
    }
    draw_outline(&drawing->canvas, bar);
    locus_axis_draw_beside(&drawing->canvas, &drawing->scale, bar.right + 1, true);
    if (drawing->map->value_label) {
        double x =
            bar.right + TICK_ROOM + 18 + locus_axis_text_width(&drawing->scale, &locus_text_plain);
        locus_text_draw_cut(&drawing->canvas, &locus_text_plain, drawing->map->value_label,
                            drawing->height - 2 * MARGIN, x, (f.top + f.bottom) / 2.0,
                            LOCUS_ALIGN_CENTRE, true);
    }
}

static void draw_labels(struct drawing *drawing)
{
    const struct locus_heat_map *map = drawing->map;
    struct locus_box f = drawing->frame;
    struct locus_canvas *canvas = &drawing->canvas;
    double below = f.bottom + TICK_ROOM + LABEL + 4;
    if (drawing->turned) below += axis_text_width(&map->columns, map->n_columns) - 10;
    locus_title_draw(canvas, map->title);
    if (map->columns.label)
        locus_text_draw_cut(canvas, &locus_text_plain, map->columns.label,
                            drawing->width - 2 * MARGIN, (f.left + f.right) / 2.0, below,
                            LOCUS_ALIGN_CENTRE, false);
    if (map->rows.label)
        locus_text_draw_cut(canvas, &locus_text_plain, map->rows.label,
                            drawing->height - 2 * MARGIN, MARGIN + 9, (f.top + f.bottom) / 2.0,
                            LOCUS_ALIGN_CENTRE, true);
}

static void draw(struct drawing *drawing)
{
    const struct locus_heat_map *map = drawing->map;
    struct locus_box f = drawing->frame;
    if (map->n_rows > 0 && map->n_columns > 0) {
        draw_cells(drawing);
        draw_mark(drawing);
        draw_values(drawing);
        draw_axes(drawing);
    } else
        locus_text_draw(&drawing->canvas, &locus_text_plain, "no values", 9,
                        (f.left + f.right) / 2.0, (f.top + f.bottom) / 2.0, LOCUS_ALIGN_CENTRE,
                        false);
    draw_outline(&drawing->canvas, f);
    draw_scale(drawing);
    draw_labels(drawing);
}

static bool axis_is_ascii(const struct locus_heat_axis *axis, int n)
{
    bool is_ascii = locus_text_is_ascii(axis->label);
    for (int i = 0; axis->names && i < n && is_ascii; i++)
        is_ascii = locus_text_is_ascii(axis->names[i]);
    return is_ascii;
}

bool locus_heat_map_is_ascii(const struct locus_heat_map *map)
{
    return locus_text_is_ascii(map->title) && locus_text_is_ascii(map->value_label) &&
           locus_text_is_ascii(map->mark_label) && axis_is_ascii(&map->rows, map->n_rows) &&
           axis_is_ascii(&map->columns, map->n_columns);
}

enum locus_status locus_heat_map_draw(struct locus_buffer *png, const struct locus_heat_map *map,
                                      locus_error *error)
{
    if (map->n_rows < 0 || map->n_columns < 0)
        return locus_fail(error, LOCUS_ERROR_ARGUMENT, "a heat map of %d x %d cells", map->n_rows,
                          map->n_columns);
    struct drawing drawing = {.map = map,
                              .width = map->width    ? map->width
                                       : map->square ? 720
                                                     : 960,
                              .height = map->height   ? map->height
                                        : map->square ? 640
                                                      : 560};
    enum locus_status status = locus_canvas_check(drawing.width, drawing.height, error);
    if (status) return status;
    fit_scale(&drawing);
    place_frame(&drawing);
    status = locus_canvas_create(&drawing.canvas, drawing.width, drawing.height, error);
    if (status) return status;
    draw(&drawing);
    return locus_png_encode(&drawing.canvas, png, error);
}

enum locus_status locus_heat_map_write(const char *path, const struct locus_heat_map *map,
                                       locus_error *error)
{
    struct locus_buffer png = {0};
    return locus_png_save(path, &png, locus_heat_map_draw(&png, map, error), error);
}
