/* attention_latent.c - the front of MLA, MLA-RoPE, MLRA, paper MLRA and GLA.
 *
 *   cached row   [ own latent 0 | own latent 1 | .. | rope key ]
 *
 * A branch is one head attending one latent (or, when a block-diagonal head
 * straddles latents, a run of them).  In absorbed form its query row is
 * [ W_UK^T q_nope | q_rope ] and its result, a weighted sum of latents, goes
 * through W_UV.  With RoPE on decompressed keys W_UK stays on the key side.
 *
 * Query rows and results are wide: W numbers a head where x has P.  Of a few rows of a
 * sequence they are made for all heads, which then share each read of a cached
 * row.  Of many, for one branch after the other and a block of rows at a time,
 * which all stay in the cache between W_UK and W_UV.
 */
#include "attention/attention_private.h"

#include <assert.h>
#include <string.h>

enum {
    BLOCK_ROWS = 128,           /* of a sequence, that one branch works on together */
    FEWEST_BY_BRANCH = TILE_ROWS,   /* rows of a span */
};

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
    float *slot_values;         /* [n_slots - 1][n_rows][heads * V]: those after the first, which is head_values */
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
    return arena_take(scratch, rows * (size_t)(f->n_slots - 1), heads * 4, (void **)&f->slot_values, err);
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

/* The branch's queries of rows [first, first + n), stride floats apart. */
static void place_query(const struct attention *a, const struct branch *b, int first, int n, float *to, size_t stride)
{
    const struct attention_config *c = &a->config;
    const struct latent_front *f = a->latent;
    size_t from_stride = (size_t)f->query_up.n_outputs;
    const float *row = f->query_rows + (size_t)first * from_stride, *nope = row + b->head * c->nope_dim;
    if (c->rope == ROPE_DECOMPRESSED) {
        for (int r = 0; r < n; r++)
            memcpy(to + (size_t)r * stride, nope + (size_t)r * from_stride, (size_t)c->nope_dim * 4);
        return;
    }
    linear_apply(&b->absorb, a->options.kernels, nope, from_stride, n, to, stride, 0);
    const float *rope = row + (a->heads.end - a->heads.begin) * c->nope_dim + b->head * c->rope_dim;
    for (int r = 0; r < n && c->rope_dim > 0; r++)
        memcpy(to + (size_t)r * stride + b->absorb.n_outputs, rope + (size_t)r * from_stride, (size_t)c->rope_dim * 4);
}

/* Its results of these rows, through W_UV to where the head's are. */
static void raise_values(const struct attention *a, const struct branch *b, int first, int n, const float *from,
                         size_t stride, int n_rows)
{
    size_t heads = (size_t)(a->heads.end - a->heads.begin) * (size_t)a->config.value_dim;
    float *slot = b->slot == 0 ? a->head_values : a->latent->slot_values + (size_t)(b->slot - 1) * (size_t)n_rows * heads;
    linear_apply(&b->value_up, a->options.kernels, from, stride, n,
                 slot + (size_t)first * heads + b->head * a->config.value_dim, heads, 0);
}

static float *query_row(const struct attention *a, const struct attend_group *g, int n_rows, int row)
{
    return a->queries + g->query_begin * (size_t)n_rows + (size_t)row * (size_t)(g->n_queries * g->query_width);
}

static float *sum_row(const struct attention *a, const struct attend_group *g, int n_rows, int row)
{
    return a->sums + g->sum_begin * (size_t)n_rows + (size_t)row * (size_t)(g->n_queries * g->value_width);
}

static int by_branch(const struct span *span)
{
    return span->n_rows >= FEWEST_BY_BRANCH;
}

/* Queries that are sent are made of all rows. */
static int sends_queries(const struct attention *a, const struct attention_step *step)
{
    return a->options.by_chunk && !attention_gathers_rows(a, step);
}

/* The next spans, from *span, whose rows are worked on for all heads: rows [*first, *first + n).  Returns n, 0 after
 * the last. */
static int next_rows(const struct attention_step *step, int all, int *span, int *first)
{
    int n = 0;
    for (; *span < step->n_spans; (*span)++) {
        const struct span *s = &step->spans[*span];
        if (all || !by_branch(s)) {
            *first = n == 0 ? s->first_row : *first;
            n += s->n_rows;
        } else if (n > 0) {
            return n;
        }
    }
    return n;
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
    int all = sends_queries(a, step), first = 0;
    for (int span = 0, n; (n = next_rows(step, all, &span, &first)) > 0;)
        for (int i = 0; i < f->n_branches; i++) {
            const struct branch *b = &f->branches[i];
            const struct attend_group *g = &a->groups[b->group];
            place_query(a, b, first, n, query_row(a, g, step->n_rows, first) + (size_t)b->row * (size_t)g->query_width,
                        (size_t)(g->n_queries * g->query_width));
        }
}

/* Rows [first, first + n) of a span: one branch, or those of a group, which decompress keys once for all.  In the
 * place that the span's rows have among the queries and sums of the group. */
static void attend_block(const struct attention *a, const struct attend_job *job, int branch, const struct span *span,
                         int first, int n, const struct cache_view *view)
{
    const struct latent_front *f = a->latent;
    const struct attend_group *whole = &a->groups[f->branches[branch].group];
    struct attend_group g = *whole;
    int end = g.decompress != NULL ? f->n_branches : branch + 1;
    g.n_queries = g.decompress != NULL ? g.n_queries : 1;
    g.query_begin = g.sum_begin = 0;
    float *queries = query_row(a, whole, job->n_rows, span->first_row);
    float *sums = sum_row(a, whole, job->n_rows, span->first_row);
    struct attend_job block_job = *job;
    block_job.groups = &g;
    block_job.n_groups = 1;
    block_job.n_rows = n;
    block_job.queries = queries;
    block_job.sums = sums;
    struct span block = *span;
    block.first_row = 0;
    block.n_rows = n;
    block.first_position += first;
    for (int i = branch, row = 0; i < end; i++)
        if (&a->groups[f->branches[i].group] == whole)
            place_query(a, &f->branches[i], span->first_row + first, n, queries + row++ * g.query_width,
                        (size_t)(g.n_queries * g.query_width));
    attend_span(&block_job, &block, view);
    for (int i = branch, row = 0; i < end; i++)
        if (&a->groups[f->branches[i].group] == whole)
            raise_values(a, &f->branches[i], span->first_row + first, n, sums + row++ * g.value_width,
                         (size_t)(g.n_queries * g.value_width), job->n_rows);
}

void latent_front_attend(const struct attention *a, const struct attend_job *job, const struct span *span,
                         const struct cache_view *view)
{
    const struct latent_front *f = a->latent;
    if (!by_branch(span)) {
        attend_span(job, span, view);
        return;
    }
    for (int i = 0; i < f->n_branches; i++) {
        if (a->groups[f->branches[i].group].decompress != NULL && f->branches[i].row > 0)
            continue;       /* with the first of its group */
        for (int first = 0, n; first < span->n_rows; first += n) {
            n = span->n_rows - first < BLOCK_ROWS ? span->n_rows - first : BLOCK_ROWS;
            attend_block(a, job, i, span, first, n, view);
        }
    }
}

/* Add the branches of a head that are held here, as a tree over the slots. */
static void sum_slots(const struct attention *a, int n_rows)
{
    const struct latent_front *f = a->latent;
    size_t n = (size_t)n_rows * (size_t)(a->heads.end - a->heads.begin) * (size_t)a->config.value_dim;
    for (int step = 1; step < f->n_slots; step *= 2)
        for (int slot = 0; slot + step < f->n_slots; slot += 2 * step)
            a->options.kernels->add(slot == 0 ? a->head_values : f->slot_values + (size_t)(slot - 1) * n,
                                    f->slot_values + (size_t)(slot + step - 1) * n, (int)n);
}

void latent_front_heads(struct attention *a, const struct attention_step *step)
{
    const struct latent_front *f = a->latent;
    size_t heads = (size_t)(a->heads.end - a->heads.begin) * (size_t)a->config.value_dim;
    int all = sends_queries(a, step), first = 0;
    for (int span = 0, n; (n = next_rows(step, all, &span, &first)) > 0;)
        for (int i = 0; i < f->n_branches; i++) {
            const struct branch *b = &f->branches[i];
            const struct attend_group *g = &a->groups[b->group];
            raise_values(a, b, first, n, sum_row(a, g, step->n_rows, first) + (size_t)b->row * (size_t)g->value_width,
                         (size_t)(g->n_queries * g->value_width), step->n_rows);
        }
    sum_slots(a, step->n_rows);
    for (int r = 0; r < step->n_rows && f->value_bias != NULL; r++)
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
