/* attention_latent.c - the front of MLA, MLA-RoPE, MLRA, paper MLRA and GLA.
 *
 *   cached row   [ own latent 0 | own latent 1 | .. | rope key ]
 *
 * A branch is one head attending one latent (or, when a block-diagonal head
 * straddles latents, a run of them).  In absorbed form its query row is
 * [ W_UK^T q_nope | q_rope ] and its result, a weighted sum of latents, goes
 * through W_UV.  With RoPE on decompressed keys W_UK stays on the key side.
 */
#include "attention/attention_private.h"

#include <assert.h>
#include <string.h>

struct branch {
    int head;                   /* index among this rank's heads */
    int slot;                   /* which of the head's branches held here */
    int group, row;             /* query row `row` of the group's rows per token */
    struct linear absorb;       /* [width][P]; absent with decompressed keys */
    struct linear value_up;     /* [V][width] */
};

struct latent_front {
    struct linear query_down;   /* n_outputs 0: the query comes from x at once */
    const float *query_norm;
    struct linear query_up;     /* [heads * P nope rows, heads * R rope rows] */
    struct linear row_down;     /* [own latents * W, R] */
    const float *latent_norm[ATTENTION_MAX_LATENTS];
    const float *value_bias;    /* [heads * V] or NULL */
    struct rope rope;
    struct linear *decompress;  /* [KV heads] */
    struct branch *branches;
    int n_branches;             /* all of this rank */
    int n_slots;                /* branches of a head held here: 1, 2, 4 */
    int n_latents;              /* own */
    int row_width;

    float *query_latent;        /* [n_rows][query_latent_dim] */
    float *query_rows;          /* [n_rows][heads * (P + R)] */
    float *rows;                /* [n_rows][row_width] */
    float *slot_values;         /* [n_slots][n_rows][heads * V] */
};

/* ---- create ---- */

/* W[n_rows_of_head][n * W] of one head over latents [first, last], as floats;
 * rows that belong to another latent of the run are zero there. */
static enum status gather_up(const struct attention *a, const struct up_projection *ups, int head,
                             int n_rows, int first, int last, struct arena *arena, struct matrix *out,
                             struct error *err)
{
    int width = a->config.latent_dim, total = (last - first + 1) * width;
    float *dense;
    TRY(ARENA_ARRAY(arena, (size_t)n_rows * (size_t)total, &dense, err));
    for (int l = first; l <= last; l++) {
        const struct up_projection *up = &ups[l];
        float *scratch;
        TRY(ARENA_ARRAY(arena, (size_t)up->weight.n_columns, &scratch, err));
        double mean = a->config.bitnet ? linear_mean_magnitude(&up->weight, scratch) : 0;
        for (int p = 0; p < n_rows; p++) {
            int64_t row = (int64_t)head * up->stride + p - up->first_row;
            if (row < 0 || row >= up->weight.n_rows)
                continue;
            float *to = dense + (size_t)p * (size_t)total + (size_t)(l - first) * (size_t)width;
            matrix_read_row(&up->weight, row, to);
            if (!a->config.bitnet)
                continue;
            float scale = linear_make_ternary(to, width, mean);
            for (int i = 0; i < width; i++)
                to[i] *= scale;
        }
    }
    *out = (struct matrix){ dense, ELEMENT_F32, n_rows, total, total, 1 };
    return STATUS_OK;
}

static enum status create_up(struct linear *out, const struct attention *a, const struct matrix *rows,
                             struct arena *weights, struct error *err)
{
    struct linear_spec spec = {
        .type = weight_type_of_small(a->options.weight_type), .rows = rows, .n_parts = 1,
        .kernels = a->options.kernels, .scratch = a->options.scratch,
    };
    return linear_create(out, &spec, weights, err);
}

static int own_index(const int *latents, int n, int latent)
{
    for (int i = 0; i < n; i++)
        if (latents[i] == latent)
            return i;
    return -1;
}

static int head_of_keys(const struct attention_config *c, int head)
{
    return c->rope == ROPE_DECOMPRESSED ? head / (c->n_heads / c->n_kv_heads) : head;
}

/* The group of the heads that read own latents [first, last]; a new one if
 * there is none.  Decompressed keys also differ by KV head. */
static int find_group(struct attention *a, int first, int last, int kv_head)
{
    const struct attention_config *c = &a->config;
    struct latent_front *f = a->latent;
    int begin = first * c->latent_dim, width = (last - first + 1) * c->latent_dim;
    const struct linear *decompress = c->rope == ROPE_DECOMPRESSED ? &f->decompress[kv_head] : NULL;
    for (int g = 0; g < a->n_groups; g++)
        if (a->groups[g].key_begin[0] == begin && a->groups[g].key_width[0] == width
            && a->groups[g].decompress == decompress)
            return g;
    int decoupled = c->rope == ROPE_DECOUPLED;
    a->groups[a->n_groups] = (struct attend_group){
        .n_key_segments = decoupled ? 2 : 1,
        .key_begin = { begin, f->n_latents * c->latent_dim }, .key_width = { width, c->rope_dim },
        .n_key_parts = last - first + 1 + decoupled,
        .value_begin = begin, .value_width = width,
        .query_width = decompress != NULL ? c->nope_dim : width + c->rope_dim,
        .decompress = decompress, .rope = &f->rope,
    };
    return a->n_groups++;
}

/* Branch `index` of a head, if its latents are held here. */
static enum status add_branch(struct attention *a, const struct attention_weights *w, int head, int index,
                              const int *latents, struct arena *weights, struct error *err)
{
    const struct attention_config *c = &a->config;
    struct latent_front *f = a->latent;
    int last, first = attention_branch_latent(c, head, index, &last);
    int own_first = own_index(latents, f->n_latents, first);
    if (own_first < 0)
        return STATUS_OK;
    int local = head - a->heads.begin, kv_head = head_of_keys(c, head);
    struct branch *b = &f->branches[f->n_branches++];
    b->head = local;
    b->slot = 0;
    for (int i = 0; i < f->n_branches - 1; i++)
        b->slot += f->branches[i].head == local;
    f->n_slots = b->slot + 1 > f->n_slots ? b->slot + 1 : f->n_slots;

    struct arena scratch;
    arena_init(&scratch);
    struct matrix key, value;
    TRY(gather_up(a, w->key_up, kv_head, c->nope_dim, first, last, &scratch, &key, err));
    TRY(gather_up(a, w->value_up, kv_head, c->value_dim, first, last, &scratch, &value, err));
    TRY(create_up(&b->value_up, a, &value, weights, err));
    if (c->rope == ROPE_DECOMPRESSED) {
        struct linear *decompress = &f->decompress[kv_head];
        if (decompress->panels == NULL)
            TRY(create_up(decompress, a, &key, weights, err));
    } else {
        key = matrix_transpose(key);
        TRY(create_up(&b->absorb, a, &key, weights, err));
    }
    arena_clear(&scratch);
    b->group = find_group(a, own_first, own_first + last - first, kv_head);
    b->row = a->groups[b->group].n_queries++;
    return STATUS_OK;
}

static enum status create_branches(struct attention *a, const struct attention_weights *w,
                                   const int *latents, struct arena *weights, struct error *err)
{
    const struct attention_config *c = &a->config;
    struct latent_front *f = a->latent;
    size_t most = (size_t)(a->heads.end - a->heads.begin) * (size_t)c->n_branches;
    TRY(ARENA_ARRAY(weights, most, &f->branches, err));
    TRY(ARENA_ARRAY(weights, most, &a->groups, err));
    TRY(ARENA_ARRAY(weights, (size_t)c->n_kv_heads, &f->decompress, err));
    for (int head = a->heads.begin; head < a->heads.end; head++)
        for (int index = 0; index < c->n_branches; index++)
            TRY(add_branch(a, w, head, index, latents, weights, err));
    return STATUS_OK;
}

static struct matrix bias_part(const struct matrix *bias, int64_t first, int64_t n)
{
    return bias->data == NULL ? *bias : matrix_columns(*bias, first, n);
}

static enum status create_query(struct attention *a, const struct attention_weights *w,
                                struct arena *weights, struct error *err)
{
    const struct attention_config *c = &a->config;
    struct latent_front *f = a->latent;
    if (c->query_latent_dim > 0) {
        TRY(attention_project_create(&f->query_down, a, &w->query_down, &w->query_down_bias, 1,
                                     &w->query_down, weights, err));
        TRY(attention_vector(&w->query_norm, weights, &f->query_norm, err));
    }
    struct matrix rows[2 * ATTENTION_MAX_HEADS], bias[2 * ATTENTION_MAX_HEADS];
    int n = 0;
    for (int pass = 0; pass < (c->rope_dim > 0 ? 2 : 1); pass++) {
        const struct up_projection *up = pass == 0 ? &w->query_nope : &w->query_rope;
        const struct matrix *up_bias = pass == 0 ? &w->query_nope_bias : &w->query_rope_bias;
        int width = pass == 0 ? c->nope_dim : c->rope_dim;
        for (int head = a->heads.begin; head < a->heads.end; head++) {
            int64_t first = (int64_t)head * up->stride - up->first_row;
            rows[n] = matrix_rows(up->weight, first, width);
            bias[n++] = bias_part(up_bias, first, width);
        }
    }
    return attention_project_create(&f->query_up, a, rows, bias, n, &w->query_nope.weight, weights, err);
}

static enum status create_rows(struct attention *a, const struct attention_weights *w, const int *latents,
                               struct arena *weights, struct error *err)
{
    const struct attention_config *c = &a->config;
    struct latent_front *f = a->latent;
    struct matrix rows[ATTENTION_MAX_LATENTS + 1], bias[ATTENTION_MAX_LATENTS + 1];
    int n = 0;
    for (; n < f->n_latents; n++) {
        int64_t first = (int64_t)latents[n] * c->latent_dim;
        rows[n] = matrix_rows(w->latent_down, first, c->latent_dim);
        bias[n] = bias_part(&w->latent_down_bias, first, c->latent_dim);
        TRY(attention_vector(&w->latent_norm[latents[n]], weights, &f->latent_norm[n], err));
    }
    if (c->rope == ROPE_DECOUPLED) {
        rows[n] = w->rope_key;
        bias[n++] = w->rope_key_bias;
    }
    return attention_project_create(&f->row_down, a, rows, bias, n, &w->latent_down, weights, err);
}

static enum status create_scratch(struct attention *a, struct arena *scratch, struct error *err)
{
    struct latent_front *f = a->latent;
    size_t rows = (size_t)a->options.max_rows;
    size_t heads = (size_t)(a->heads.end - a->heads.begin) * (size_t)a->config.value_dim;
    TRY(arena_take(scratch, rows, (size_t)f->query_down.n_outputs * 4, (void **)&f->query_latent, err));
    TRY(arena_take(scratch, rows, (size_t)f->query_up.n_outputs * 4, (void **)&f->query_rows, err));
    TRY(arena_take(scratch, rows, (size_t)f->row_width * 4, (void **)&f->rows, err));
    return arena_take(scratch, rows * (size_t)f->n_slots, heads * 4, (void **)&f->slot_values, err);
}

enum status latent_front_create(struct attention *a, const struct attention_weights *w,
                                struct arena *weights, struct arena *scratch, struct error *err)
{
    const struct attention_config *c = &a->config;
    struct latent_front *f;
    TRY(ARENA_ARRAY(weights, 1, &f, err));
    a->latent = f;
    int latents[ATTENTION_MAX_LATENTS];
    f->n_latents = attention_rank_latents(c, a->options.n_ranks, a->options.rank, latents);
    f->row_width = f->n_latents * c->latent_dim + c->rope_dim;
    if (c->rope != ROPE_NONE) {
        int width = c->rope == ROPE_DECOUPLED ? c->rope_dim : c->nope_dim;
        TRY(rope_create(&f->rope, width, c->pairing, c->rope_base, a->options.n_positions, weights, err));
    }
    TRY(create_branches(a, w, latents, weights, err));
    TRY(create_query(a, w, weights, err));
    TRY(create_rows(a, w, latents, weights, err));
    struct matrix own_bias = bias_part(&w->value_up_bias, a->heads.begin * c->value_dim,
                                       (a->heads.end - a->heads.begin) * c->value_dim);
    TRY(attention_vector(&own_bias, weights, &f->value_bias, err));
    return create_scratch(a, scratch, err);
}

/* ---- step ---- */

static void finish_latent(const struct attention *a, const float *norm, float *latent)
{
    const struct attention_config *c = &a->config;
    if (c->latent_norm)
        a->options.kernels->rms_norm(latent, latent, norm, c->latent_dim, (float)c->norm_eps,
                                     (float)c->latent_factor);
    if (!c->bitnet)
        return;
    /* Both up-projections see the latent through the same quantiser; caching its
     * output makes key and value linear in what is cached. */
    float scale = linear_quantise_input(latent, c->latent_dim, a->row_scratch);
    for (int i = 0; i < c->latent_dim; i++)
        latent[i] = a->row_scratch[i] * scale;
}

void latent_front_append(struct attention *a, const struct attention_step *step, const float *x)
{
    const struct attention_config *c = &a->config;
    struct latent_front *f = a->latent;
    attention_project(a, &f->row_down, x, (size_t)c->hidden, step->n_rows, f->rows, (size_t)f->row_width);
    for (int s = 0; s < step->n_spans; s++) {
        const struct span *span = &step->spans[s];
        struct cache_view view = latent_store_view(step->store, step->layer, span->blocks);
        for (int r = 0; r < span->n_rows; r++) {
            float *row = f->rows + (size_t)(span->first_row + r) * (size_t)f->row_width;
            int position = span->first_position + r;
            for (int l = 0; l < f->n_latents; l++)
                finish_latent(a, f->latent_norm[l], row + l * c->latent_dim);
            if (c->rope == ROPE_DECOUPLED)
                rope_apply(&f->rope, row + f->n_latents * c->latent_dim, position);
            if (!a->options.by_chunk || attend_owner(a->options.n_ranks, a->options.chunk, position) == a->options.rank)
                cache_row_store(view.layout, cache_view_row(&view, position), row);
        }
    }
}

/* Rotate the part of every head's query that carries the position. */
static void rotate_queries(const struct attention *a, const struct attention_step *step)
{
    const struct attention_config *c = &a->config;
    const struct latent_front *f = a->latent;
    if (c->rope == ROPE_NONE)
        return;
    int n_heads = a->heads.end - a->heads.begin;
    int width = c->rope == ROPE_DECOUPLED ? c->rope_dim : c->nope_dim;
    int begin = c->rope == ROPE_DECOUPLED ? n_heads * c->nope_dim : 0;
    for (int s = 0; s < step->n_spans; s++) {
        const struct span *span = &step->spans[s];
        for (int r = 0; r < span->n_rows; r++) {
            float *row = f->query_rows + (size_t)(span->first_row + r) * (size_t)f->query_up.n_outputs;
            for (int h = 0; h < n_heads; h++)
                rope_apply(&f->rope, row + begin + h * width, span->first_position + r);
        }
    }
}

static void place_query(const struct attention *a, const struct branch *b, int n_rows)
{
    const struct attention_config *c = &a->config;
    const struct latent_front *f = a->latent;
    const struct attend_group *g = &a->groups[b->group];
    size_t stride = (size_t)g->n_queries * (size_t)g->query_width;
    size_t from_stride = (size_t)f->query_up.n_outputs;
    float *to = a->queries + g->query_begin * (size_t)n_rows + (size_t)b->row * (size_t)g->query_width;
    const float *nope = f->query_rows + b->head * c->nope_dim;
    if (c->rope == ROPE_DECOMPRESSED) {
        for (int r = 0; r < n_rows; r++)
            memcpy(to + (size_t)r * stride, nope + (size_t)r * from_stride, (size_t)c->nope_dim * 4);
        return;
    }
    linear_apply(&b->absorb, a->options.kernels, nope, from_stride, n_rows, to, stride, 0);
    if (c->rope_dim == 0)
        return;
    const float *rope = f->query_rows + (a->heads.end - a->heads.begin) * c->nope_dim
                      + b->head * c->rope_dim;
    for (int r = 0; r < n_rows; r++)
        memcpy(to + (size_t)r * stride + g->key_width[0], rope + (size_t)r * from_stride,
               (size_t)c->rope_dim * 4);
}

void latent_front_query(struct attention *a, const struct attention_step *step, const float *x)
{
    const struct attention_config *c = &a->config;
    struct latent_front *f = a->latent;
    const float *from = x;
    size_t from_stride = (size_t)c->hidden;
    if (c->query_latent_dim > 0) {
        from_stride = (size_t)c->query_latent_dim;
        attention_project(a, &f->query_down, x, (size_t)c->hidden, step->n_rows, f->query_latent,
                          from_stride);
        if (c->query_norm)
            for (int r = 0; r < step->n_rows; r++) {
                float *row = f->query_latent + (size_t)r * from_stride;
                a->options.kernels->rms_norm(row, row, f->query_norm, c->query_latent_dim,
                                             (float)c->norm_eps, (float)c->query_factor);
            }
        from = f->query_latent;
    }
    attention_project(a, &f->query_up, from, from_stride, step->n_rows, f->query_rows,
                      (size_t)f->query_up.n_outputs);
    rotate_queries(a, step);
    for (int b = 0; b < f->n_branches; b++)
        place_query(a, &f->branches[b], step->n_rows);
}

/* Add the branches of a head that are held here, as a tree over the slots. */
static void sum_slots(const struct attention *a, int n_rows)
{
    const struct latent_front *f = a->latent;
    size_t n = (size_t)n_rows * (size_t)(a->heads.end - a->heads.begin) * (size_t)a->config.value_dim;
    for (int step = 1; step < f->n_slots; step *= 2)
        for (int slot = 0; slot + step < f->n_slots; slot += 2 * step)
            a->options.kernels->add(f->slot_values + (size_t)slot * n,
                                    f->slot_values + (size_t)(slot + step) * n, (int)n);
    memcpy(a->head_values, f->slot_values, n * sizeof *a->head_values);
}

void latent_front_heads(struct attention *a, const struct attention_step *step)
{
    const struct attention_config *c = &a->config;
    const struct latent_front *f = a->latent;
    size_t heads = (size_t)(a->heads.end - a->heads.begin) * (size_t)c->value_dim;
    size_t n_rows = (size_t)step->n_rows;
    for (int i = 0; i < f->n_branches; i++) {
        const struct branch *b = &f->branches[i];
        const struct attend_group *g = &a->groups[b->group];
        const float *from = a->sums + g->sum_begin * n_rows + (size_t)b->row * (size_t)g->value_width;
        float *to = f->slot_values + (size_t)b->slot * n_rows * heads + (size_t)(b->head * c->value_dim);
        linear_apply(&b->value_up, a->options.kernels, from,
                     (size_t)g->n_queries * (size_t)g->value_width, step->n_rows, to, heads, 0);
    }
    sum_slots(a, step->n_rows);
    if (f->value_bias != NULL)
        for (int r = 0; r < step->n_rows; r++)
            a->options.kernels->add(a->head_values + (size_t)r * heads, f->value_bias, (int)heads);
}

size_t latent_front_bytes(const struct attention *a)
{
    const struct latent_front *f = a->latent;
    size_t bytes = linear_bytes(&f->query_down) + linear_bytes(&f->query_up) + linear_bytes(&f->row_down);
    for (int b = 0; b < f->n_branches; b++)
        bytes += linear_bytes(&f->branches[b].value_up) + linear_bytes(&f->branches[b].absorb);
    for (int k = 0; k < a->config.n_kv_heads; k++)
        bytes += linear_bytes(&f->decompress[k]);
    return bytes;
}
