/* attention_kv.c - the front of the kinds that cache keys and values per KV
 * head: GQA (MHA) and CCA (CCGQA).
 *
 *   cached row   [ key of own KV head 0 | its value | key of KV head 1 | .. ]
 *   tail (CCA)   [ conv state: history rows of z ][ W_delayed x of the last token ]
 *
 * CCA, per token: z = packed q and k projection; y = convolutions of z; q and k
 * are y plus the mean of q and k in z (over a KV head's query heads), scaled to
 * length sqrt(width), k times exp(temperature), both rotated; half of the value
 * channels are projected from the previous token's input.
 * A rank that holds only some query heads of a KV head still projects all of
 * them: the key needs their mean.
 */
#include "attention/attention_private.h"
#include "attention/conv.h"

#include <math.h>
#include <string.h>

struct kv_front {
    int group;                      /* query heads of a KV head */
    struct head_range kv;           /* own KV heads */
    int n_front_heads;              /* query heads projected here: (kv.end - kv.begin) * group */
    struct linear packed;           /* GQA: q of own heads, k, v; CCA: q of the front heads, k */
    struct linear value_current, value_delayed;     /* CCA */
    struct conv conv;
    float key_temperature;          /* exp(temperature) */
    struct rope rope;

    float *packed_rows;             /* [n_rows][packed.n_outputs] */
    float *mixed;                   /* [n_rows][channels]: y */
    float *values;                  /* [n_rows][own KV heads * V] */
    float *delayed;                 /* [1 + n_rows][value_delayed.n_outputs]: row 0 is the state */
    float *row;                     /* [row width] */
    float *zeros;                   /* [history][channels] */
};

/* ---- create ---- */

static enum status create_groups(struct attention *a, struct arena *weights, struct error *err)
{
    const struct attention_config *c = &a->config;
    struct kv_front *f = a->kv;
    TRY(ARENA_ARRAY(weights, (size_t)(f->kv.end - f->kv.begin), &a->groups, err));
    for (int h = a->heads.begin; h < a->heads.end; h++) {
        int kv = h / f->group - f->kv.begin;
        int begin = kv * (c->nope_dim + c->value_dim);
        struct attend_group *g = &a->groups[kv];
        if (g->n_queries == 0)
            *g = (struct attend_group){
                .n_key_segments = 1, .key_begin = { begin }, .key_width = { c->nope_dim }, .n_key_parts = 1,
                .value_begin = begin + c->nope_dim, .value_width = c->value_dim,
                .query_width = c->nope_dim,
            };
        g->n_queries++;
        a->n_groups = kv + 1;
    }
    return STATUS_OK;
}

static struct matrix own_rows(const struct matrix *m, int first, int n)
{
    return m->data == NULL ? *m : matrix_rows(*m, first, n);
}

static struct matrix own_bias(const struct matrix *m, int first, int n)
{
    return m->data == NULL ? *m : matrix_columns(*m, first, n);
}

static enum status create_gqa(struct attention *a, const struct attention_weights *w,
                              struct arena *weights, struct error *err)
{
    const struct attention_config *c = &a->config;
    struct kv_front *f = a->kv;
    int n_kv = f->kv.end - f->kv.begin, d = c->nope_dim, v = c->value_dim;
    int q_first = a->heads.begin * d, q_n = (a->heads.end - a->heads.begin) * d;
    struct matrix rows[3] = {
        own_rows(&w->query_nope.weight, q_first, q_n),
        own_rows(&w->key, f->kv.begin * d, n_kv * d),
        own_rows(&w->value, f->kv.begin * v, n_kv * v),
    };
    struct matrix bias[3] = {
        own_bias(&w->query_nope_bias, q_first, q_n),
        own_bias(&w->key_bias, f->kv.begin * d, n_kv * d),
        own_bias(&w->value_bias, f->kv.begin * v, n_kv * v),
    };
    return attention_project_create(&f->packed, a, rows, bias, 3, &w->query_nope.weight, weights, err);
}

/* Value channels [first, end) of the whole layer that lie in [low, high), as
 * rows of a matrix whose row 0 is channel `low`. */
static enum status create_value_part(struct attention *a, struct linear *out, const struct matrix *whole,
                                     int first, int end, int low, int high, struct arena *weights,
                                     struct error *err)
{
    first = first > low ? first : low;
    end = end < high ? end : high;
    if (first >= end)
        return STATUS_OK;
    struct matrix rows = matrix_rows(*whole, first - low, end - first);
    return attention_project_create(out, a, &rows, NULL, 1, whole, weights, err);
}

static enum status create_cca_values(struct attention *a, const struct attention_weights *w,
                                     struct arena *weights, struct error *err)
{
    const struct attention_config *c = &a->config;
    struct kv_front *f = a->kv;
    int first = f->kv.begin * c->value_dim, end = f->kv.end * c->value_dim;
    int all = c->n_kv_heads * c->value_dim;
    if (!c->value_shift)
        return create_value_part(a, &f->value_current, &w->value, first, end, 0, all, weights, err);
    TRY(create_value_part(a, &f->value_current, &w->value_current, first, end, 0, all / 2, weights, err));
    return create_value_part(a, &f->value_delayed, &w->value_delayed, first, end, all / 2, all, weights, err);
}

static enum status create_conv(struct attention *a, const struct attention_weights *w,
                               struct arena *weights, struct arena *scratch, struct error *err)
{
    const struct attention_config *c = &a->config;
    struct kv_front *f = a->kv;
    int head_rows[2 * ATTENTION_MAX_HEADS], n = 0;
    for (int h = f->kv.begin * f->group; h < f->kv.end * f->group; h++)
        head_rows[n++] = h * c->nope_dim;
    for (int h = f->kv.begin; h < f->kv.end; h++)
        head_rows[n++] = (c->n_heads + h) * c->nope_dim;
    struct conv_spec spec = {
        .n_layers = c->n_conv, .kernel_seq = c->conv_kernel_seq, .kernel_ch = c->conv_kernel_ch,
        .n_heads = n, .width = c->nope_dim, .head_rows = head_rows,
        .seq = &w->conv_seq, .channel = &w->conv_ch,
        .weight_type = a->options.weight_type, .kernels = a->options.kernels,
        .scratch = a->options.scratch, .max_rows = a->options.max_rows,
    };
    return conv_create(&f->conv, &spec, weights, scratch, err);
}

static enum status create_cca(struct attention *a, const struct attention_weights *w,
                              struct arena *weights, struct arena *scratch, struct error *err)
{
    const struct attention_config *c = &a->config;
    struct kv_front *f = a->kv;
    int n_kv = f->kv.end - f->kv.begin, d = c->nope_dim;
    /* query_nope and key are halves of one tensor; BitLinear's scale is of all. */
    struct matrix whole = w->query_nope.weight;
    whole.n_rows += w->key.n_rows;
    struct matrix rows[2] = {
        own_rows(&w->query_nope.weight, f->kv.begin * f->group * d, f->n_front_heads * d),
        own_rows(&w->key, f->kv.begin * d, n_kv * d),
    };
    TRY(attention_project_create(&f->packed, a, rows, NULL, 2, &whole, weights, err));
    TRY(create_cca_values(a, w, weights, err));
    TRY(create_conv(a, w, weights, scratch, err));
    float temperature;
    matrix_read_row(&w->temperature, 0, &temperature);
    f->key_temperature = expf(temperature);
    size_t rows_max = (size_t)a->options.max_rows;
    size_t channels = (size_t)f->packed.n_outputs;
    TRY(arena_take(scratch, rows_max, channels * 4, (void **)&f->mixed, err));
    TRY(arena_take(scratch, rows_max, (size_t)(n_kv * c->value_dim) * 4, (void **)&f->values, err));
    TRY(arena_take(scratch, rows_max + 1, (size_t)f->value_delayed.n_outputs * 4, (void **)&f->delayed, err));
    return arena_take(scratch, (size_t)f->conv.history, channels * 4, (void **)&f->zeros, err);
}

enum status kv_front_create(struct attention *a, const struct attention_weights *w, struct arena *weights,
                            struct arena *scratch, struct error *err)
{
    const struct attention_config *c = &a->config;
    struct kv_front *f;
    TRY(ARENA_ARRAY(weights, 1, &f, err));
    a->kv = f;
    f->group = c->n_heads / c->n_kv_heads;
    f->kv = attention_rank_kv_heads(c, a->options.n_ranks, a->options.rank);
    int n_kv = f->kv.end - f->kv.begin;
    f->n_front_heads = n_kv * f->group;
    if (c->rope != ROPE_NONE)
        TRY(rope_create(&f->rope, c->nope_dim, c->pairing, c->rope_base, a->options.n_positions, weights, err));
    TRY(create_groups(a, weights, err));
    TRY(ARENA_ARRAY(scratch, (size_t)(n_kv * (c->nope_dim + c->value_dim)), &f->row, err));
    if (c->kind == ATTENTION_GQA)
        TRY(create_gqa(a, w, weights, err));
    else
        TRY(create_cca(a, w, weights, scratch, err));
    return arena_take(scratch, (size_t)a->options.max_rows, (size_t)f->packed.n_outputs * 4,
                      (void **)&f->packed_rows, err);
}

/* ---- step ---- */

/* x *= factor * sqrt(width) / max(|x|, 1e-6) */
static void scale_to_length(float *x, int width, float factor)
{
    double squares = 0;
    for (int i = 0; i < width; i++)
        squares += (double)x[i] * (double)x[i];
    float scale = (float)(sqrt((double)width) / fmax(sqrt(squares), 1e-6)) * factor;
    for (int i = 0; i < width; i++)
        x[i] *= scale;
}

/* Cache one row: keys and values of the own KV heads, interleaved by head. */
static void store_row(const struct attention *a, const struct cache_view *view, int position,
                      const float *keys, const float *values)
{
    const struct attention_config *c = &a->config;
    const struct kv_front *f = a->kv;
    float *to = f->row;
    for (int h = 0; h < f->kv.end - f->kv.begin; h++) {
        memcpy(to, keys + h * c->nope_dim, (size_t)c->nope_dim * sizeof *to);
        if (c->rope != ROPE_NONE)
            rope_apply(&f->rope, to, position);
        to += c->nope_dim;
        memcpy(to, values + h * c->value_dim, (size_t)c->value_dim * sizeof *to);
        to += c->value_dim;
    }
    cache_row_store(view->layout, cache_view_row(view, position), f->row);
}

static void append_gqa(struct attention *a, const struct attention_step *step)
{
    const struct attention_config *c = &a->config;
    struct kv_front *f = a->kv;
    int keys = (a->heads.end - a->heads.begin) * c->nope_dim;
    int values = keys + (f->kv.end - f->kv.begin) * c->nope_dim;
    for (int s = 0; s < step->n_spans; s++) {
        const struct span *span = &step->spans[s];
        struct cache_view view = latent_store_view(step->store, step->layer, span->blocks);
        for (int r = 0; r < span->n_rows; r++) {
            const float *row = f->packed_rows + (size_t)(span->first_row + r) * (size_t)f->packed.n_outputs;
            store_row(a, &view, span->first_position + r, row + keys, row + values);
        }
    }
}

/* q and k of one row: y plus the mean of q and k before the convolutions. */
static void add_means(const struct attention *a, const float *z, float *y)
{
    const struct attention_config *c = &a->config;
    const struct kv_front *f = a->kv;
    int d = c->nope_dim, group = f->group;
    for (int kv = 0; kv < f->kv.end - f->kv.begin; kv++) {
        const float *zk = z + (f->n_front_heads + kv) * d;
        float *yk = y + (f->n_front_heads + kv) * d;
        for (int i = 0; i < d; i++) {
            float sum = 0;
            for (int g = 0; g < group; g++) {
                int at = (kv * group + g) * d + i;
                float mean = (z[at] + zk[i]) * 0.5f;
                y[at] += mean;
                sum += mean;
            }
            yk[i] += sum / (float)group;
        }
    }
}

static void finish_values(struct attention *a, const struct span *span, const float *tail)
{
    const struct attention_config *c = &a->config;
    struct kv_front *f = a->kv;
    size_t width = (size_t)((f->kv.end - f->kv.begin) * c->value_dim);
    size_t current = (size_t)f->value_current.n_outputs, delayed = (size_t)f->value_delayed.n_outputs;
    if (delayed == 0)
        return;
    if (tail != NULL)
        memcpy(f->delayed, tail, delayed * sizeof *f->delayed);
    else
        memset(f->delayed, 0, delayed * sizeof *f->delayed);
    for (int r = 0; r < span->n_rows; r++)
        memcpy(f->values + (size_t)(span->first_row + r) * width + current, f->delayed + (size_t)r * delayed,
               delayed * sizeof *f->values);
}

/* The state after position, into the tail of its block. */
static void store_tail(const struct attention *a, const struct cache_view *view, int position, int n)
{
    const struct kv_front *f = a->kv;
    float *tail = cache_view_tail(view, position);
    size_t state = (size_t)f->conv.history * (size_t)f->packed.n_outputs;
    memcpy(tail, conv_state_after(&f->conv, n), state * sizeof *tail);
    size_t delayed = (size_t)f->value_delayed.n_outputs;
    if (delayed > 0)
        memcpy(tail + state, f->delayed + (size_t)n * delayed, delayed * sizeof *tail);
}

static void append_cca_span(struct attention *a, const struct attention_step *step, const struct span *span,
                            const float *x)
{
    const struct attention_config *c = &a->config;
    struct kv_front *f = a->kv;
    size_t channels = (size_t)f->packed.n_outputs;
    struct cache_view view = latent_store_view(step->store, step->layer, span->blocks);
    const float *tail = span->first_position > 0 ? cache_view_tail(&view, span->first_position - 1) : NULL;
    const float *z = f->packed_rows + (size_t)span->first_row * channels;
    float *y = f->mixed + (size_t)span->first_row * channels;
    conv_run(&f->conv, a->options.kernels, tail != NULL ? tail : f->zeros, z, channels, span->n_rows, y);
    if (f->value_delayed.n_outputs > 0)
        attention_project(a, &f->value_delayed, x + (size_t)span->first_row * (size_t)c->hidden,
                          (size_t)c->hidden, span->n_rows, f->delayed + f->value_delayed.n_outputs,
                          (size_t)f->value_delayed.n_outputs);
    finish_values(a, span, tail != NULL ? tail + (size_t)f->conv.history * channels : NULL);
    size_t value_width = (size_t)((f->kv.end - f->kv.begin) * c->value_dim);
    for (int r = 0; r < span->n_rows; r++) {
        float *row = y + (size_t)r * channels;
        int position = span->first_position + r;
        if (c->qk_mean)
            add_means(a, z + (size_t)r * channels, row);
        for (int h = 0; h < f->n_front_heads; h++)
            scale_to_length(row + h * c->nope_dim, c->nope_dim, 1);
        float *keys = row + f->n_front_heads * c->nope_dim;
        for (int h = 0; h < f->kv.end - f->kv.begin; h++)
            scale_to_length(keys + h * c->nope_dim, c->nope_dim, f->key_temperature);
        store_row(a, &view, position, keys, f->values + (size_t)(span->first_row + r) * value_width);
        if ((position + 1) % view.layout->block_size == 0 || r == span->n_rows - 1)
            store_tail(a, &view, position, r + 1);
    }
}

void kv_front_append(struct attention *a, const struct attention_step *step, const float *x)
{
    const struct attention_config *c = &a->config;
    struct kv_front *f = a->kv;
    attention_project(a, &f->packed, x, (size_t)c->hidden, step->n_rows, f->packed_rows,
                      (size_t)f->packed.n_outputs);
    if (c->kind == ATTENTION_GQA) {
        append_gqa(a, step);
        return;
    }
    if (f->value_current.n_outputs > 0)
        attention_project(a, &f->value_current, x, (size_t)c->hidden, step->n_rows, f->values,
                          (size_t)((f->kv.end - f->kv.begin) * c->value_dim));
    for (int s = 0; s < step->n_spans; s++)
        append_cca_span(a, step, &step->spans[s], x);
}

/* The projection of the queries has been done with the keys; here they go to
 * their group's rows, rotated. */
void kv_front_query(struct attention *a, const struct attention_step *step, const float *x)
{
    const struct attention_config *c = &a->config;
    struct kv_front *f = a->kv;
    (void)x;
    const float *from = c->kind == ATTENTION_GQA ? f->packed_rows : f->mixed;
    int first_front = c->kind == ATTENTION_GQA ? a->heads.begin : f->kv.begin * f->group;
    for (int s = 0; s < step->n_spans; s++) {
        const struct span *span = &step->spans[s];
        for (int r = 0; r < span->n_rows; r++) {
            size_t row = (size_t)(span->first_row + r);
            int next[ATTENTION_MAX_HEADS] = { 0 };
            for (int h = a->heads.begin; h < a->heads.end; h++) {
                int kv = h / f->group - f->kv.begin;
                const struct attend_group *g = &a->groups[kv];
                float *to = a->queries + g->query_begin * (size_t)step->n_rows
                          + (row * (size_t)g->n_queries + (size_t)next[kv]++) * (size_t)g->query_width;
                memcpy(to, from + row * (size_t)f->packed.n_outputs + (h - first_front) * c->nope_dim,
                       (size_t)c->nope_dim * sizeof *to);
                if (c->rope != ROPE_NONE)
                    rope_apply(&f->rope, to, span->first_position + r);
            }
        }
    }
}

void kv_front_heads(struct attention *a, const struct attention_step *step)
{
    const struct attention_config *c = &a->config;
    const struct kv_front *f = a->kv;
    size_t n_rows = (size_t)step->n_rows;
    size_t width = (size_t)((a->heads.end - a->heads.begin) * c->value_dim);
    for (size_t r = 0; r < n_rows; r++) {
        int next[ATTENTION_MAX_HEADS] = { 0 };
        for (int h = a->heads.begin; h < a->heads.end; h++) {
            int kv = h / f->group - f->kv.begin;
            const struct attend_group *g = &a->groups[kv];
            const float *from = a->sums + g->sum_begin * n_rows
                              + (r * (size_t)g->n_queries + (size_t)next[kv]++) * (size_t)g->value_width;
            memcpy(a->head_values + r * width + (size_t)((h - a->heads.begin) * c->value_dim), from,
                   (size_t)c->value_dim * sizeof *from);
        }
    }
}

size_t kv_front_bytes(const struct attention *a)
{
    const struct kv_front *f = a->kv;
    return linear_bytes(&f->packed) + linear_bytes(&f->value_current) + linear_bytes(&f->value_delayed)
         + conv_bytes(&f->conv);
}
