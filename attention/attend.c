#include "attention/attend.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum {
    MAX_DEPTH = 5,              /* states alive at once: three tree levels, a lane, a chunk */
    FLOAT_ROWS = 24,            /* query rows at once: what the registers divide */
};

/* Partial softmax of a block of rows: the weighted values, their sum of
 * weights and the largest score.  sum 0 means: no position yet. */
struct state {
    float *values;              /* [ATTEND_ROWS][width] */
    float sum[ATTEND_ROWS];
    float max[ATTEND_ROWS];
};

/* Columns of one segment of the cached row. */
struct part {
    int begin, width;           /* of the row */
    int at;                     /* its first column, counted over all keys or all values of the group */
    size_t scale_at;            /* int8: bytes from the row to its scale */
    void *packed_queries;       /* for rows that are used as they are cached */
    float *query_scales;        /* [ATTEND_ROWS]; int8 */
};

/* A block of query rows of one group over one sequence. */
struct work {
    const struct attend_job *job;
    const struct attend_group *group;
    const struct cache_view *view;
    const float *queries;       /* [n_rows][query_width] */
    float *gathered;            /* [ATTEND_ROWS][query_width]: queries, when peers hold them */
    int n_rows;
    int limit[ATTEND_ROWS];     /* positions row r may see: [0, limit) */
    int n_positions;            /* the largest limit */
    float *scores;              /* [ATTEND_ROWS][ATTEND_MAX_CHUNK] */
    const struct row_kernels *rows;     /* rows are used as they are cached; NULL: as floats */
    struct part *key_parts, *value_parts;
    int n_key_parts, n_value_parts;
    float *tile;                /* [block_size][tile_width]: rows as floats, when the cache has other types */
    float *keys;                /* [block_size][query_width]: decompressed keys */
    float *packed;              /* queries of the key parts, for tiles */
    struct state states[MAX_DEPTH];
};

static int own_value_columns(const struct attend_group *g)
{
    return g->value_begin != g->key_begin[0] || g->value_width > g->key_width[0];
}

static int tile_width(const struct attend_group *g)
{
    int width = own_value_columns(g) ? g->value_width : 0;
    for (int s = 0; s < g->n_key_segments; s++)
        width += g->key_width[s];
    return width;
}

static size_t padded(size_t n)
{
    return (n + 15) & ~(size_t)15;
}

/* Each part's are filled up, and have their scales. */
static size_t packed_floats(const struct attend_group *g)
{
    int width = g->n_key_parts * INT8_UNIT;
    for (int s = 0; s < g->n_key_segments; s++)
        width += g->key_width[s];
    return padded(packed_query_bytes(width) / 4) + (size_t)(g->n_key_parts * ATTEND_ROWS);
}

size_t attend_scratch_floats(const struct attend_group *groups, int n_groups)
{
    size_t most = 0;
    for (int i = 0; i < n_groups; i++) {
        const struct attend_group *g = &groups[i];
        size_t floats = padded((size_t)ATTEND_ROWS * ATTEND_MAX_CHUNK)
                      + padded((size_t)CACHE_MAX_BLOCK_SIZE * (size_t)tile_width(g))
                      + padded((size_t)CACHE_MAX_BLOCK_SIZE * (size_t)g->query_width)
                      + padded((size_t)ATTEND_ROWS * (size_t)g->query_width)
                      + packed_floats(g)
                      + MAX_DEPTH * padded((size_t)ATTEND_ROWS * (size_t)g->value_width);
        most = floats > most ? floats : most;
    }
    return most;
}

/* ---- cached rows ---- */

static size_t column_bytes(const struct cache_layout *layout)
{
    return layout->type == CACHE_F32 ? 4 : layout->type == CACHE_BF16 ? 2 : 1;
}

/* Columns [begin, begin + width) of the row, cut where int8 changes its scale.  Returns how many parts. */
static int split_columns(const struct cache_layout *layout, int begin, int width, int at, struct part *parts)
{
    if (layout->type != CACHE_INT8) {
        parts[0] = (struct part){ .begin = begin, .width = width, .at = at };
        return 1;
    }
    int n = 0;
    for (int s = 0; s < layout->n_segments; s++) {
        int from = layout->segment_begin[s] > begin ? layout->segment_begin[s] : begin;
        int to = layout->segment_begin[s + 1] < begin + width ? layout->segment_begin[s + 1] : begin + width;
        if (from < to)
            parts[n++] = (struct part){
                .begin = from, .width = to - from, .at = at + from - begin,
                .scale_at = layout->scales_offset + (size_t)s * sizeof(float),
            };
    }
    return n;
}

/* ---- as floats ---- */

/* A part of a bf16 or int8 row, at its place in out. */
static void widen_part(const struct work *w, const char *row, const struct part *p, float *out)
{
    const struct kernels *k = w->job->kernels;
    if (w->view->layout->type == CACHE_BF16) {
        k->widen_bf16(out + p->at, (const uint16_t *)(const void *)row + p->begin, p->width);
        return;
    }
    float scale;
    memcpy(&scale, row + p->scale_at, sizeof scale);
    k->widen_int8(out + p->at, (const int8_t *)row + p->begin, scale, p->width);
}

/* Where the columns of n rows, from `position` in one block, are as floats. */
struct columns {
    const float *key[2];
    const float *value;
    size_t stride;
};

static struct columns float_columns(const struct work *w, int position, int n)
{
    const struct attend_group *g = w->group;
    const char *rows = cache_view_row(w->view, position);
    size_t row_bytes = w->view->layout->row_bytes;
    struct columns c = { 0 };
    if (w->view->layout->type == CACHE_F32) {
        const float *first = (const float *)(const void *)rows;
        for (int s = 0; s < g->n_key_segments; s++)
            c.key[s] = first + g->key_begin[s];
        c.value = first + g->value_begin;
        c.stride = row_bytes / 4;
        return c;
    }
    c.stride = (size_t)tile_width(g);
    c.key[0] = w->tile;
    c.key[1] = w->tile + g->key_width[0];
    size_t value_at = own_value_columns(g) ? c.stride - (size_t)g->value_width : 0;
    c.value = w->tile + value_at;
    for (int r = 0; r < n; r++, rows += row_bytes) {
        float *out = w->tile + (size_t)r * c.stride;
        for (int i = 0; i < w->n_key_parts; i++)
            widen_part(w, rows, &w->key_parts[i], out);
        for (int i = 0; i < w->n_value_parts && own_value_columns(g); i++)
            widen_part(w, rows, &w->value_parts[i], out + value_at);
    }
    return c;
}

/* ---- one chunk ---- */

static void score_keys(const struct work *w, const struct columns *c, int position, int n, float *scores)
{
    const struct attend_group *g = w->group;
    struct score_block b = {
        .queries = w->queries, .query_stride = (size_t)g->query_width, .n_rows = w->n_rows,
        .scores = scores, .score_stride = ATTEND_MAX_CHUNK, .n_keys = n,
    };
    if (g->decompress != NULL) {
        linear_apply(g->decompress, w->job->kernels, c->key[0], c->stride, n, w->keys,
                     (size_t)g->query_width, 0);
        for (int s = 0; s < n; s++)
            rope_apply(g->rope, w->keys + (size_t)s * (size_t)g->query_width, position + s);
        b.keys = w->keys;
        b.key_stride = (size_t)g->query_width;
        b.width = g->query_width;
        w->job->kernels->score(&b);
        return;
    }
    b.key_stride = c->stride;
    for (int s = 0; s < g->n_key_segments; s++) {
        b.keys = c->key[s];
        b.width = g->key_width[s];
        w->job->kernels->score(&b);
        b.queries += g->key_width[s];
        b.accumulate = 1;
    }
}

/* Length of the run that starts at `from`: to the end of its cache block or of
 * the chunk. */
static int run_length(const struct work *w, int from, int end)
{
    int block_size = w->view->layout->block_size;
    int block_end = (from / block_size + 1) * block_size;
    return (block_end < end ? block_end : end) - from;
}

static void softmax_rows(const struct work *w, int begin, int end, struct state *out)
{
    for (int r = 0; r < w->n_rows; r++) {
        float *scores = w->scores + (size_t)r * ATTEND_MAX_CHUNK;
        int n = (w->limit[r] < end ? w->limit[r] : end) - begin;
        out->sum[r] = 0;
        out->max[r] = -INFINITY;
        if (n > 0)
            out->sum[r] = w->job->kernels->softmax_part(scores, n, w->job->scale, &out->max[r]);
        int written = n > 0 ? (n + 15) & ~15 : 0;
        for (int s = written; s < end - begin; s++)
            scores[s] = 0;
    }
}

/* Scores of the chunk, and where its rows lie. */
static void score_cached_rows(const struct work *w, int begin, int end, const char *rows[ATTEND_MAX_CHUNK])
{
    const struct cache_layout *layout = w->view->layout;
    size_t element = column_bytes(layout);
    for (int from = begin, n; from < end; from += n) {
        const char *first = cache_view_row(w->view, from);
        n = run_length(w, from, end);
        for (int i = 0; i < n; i++)
            rows[from - begin + i] = first + (size_t)i * layout->row_bytes;
        for (int i = 0; i < w->n_key_parts; i++) {
            const struct part *p = &w->key_parts[i];
            struct row_scores b = {
                .packed_queries = p->packed_queries, .query_scales = p->query_scales,
                .keys = first + (size_t)p->begin * element, .key_scales = first + p->scale_at,
                .key_stride = layout->row_bytes, .scores = w->scores + (from - begin),
                .score_stride = ATTEND_MAX_CHUNK, .n_rows = w->n_rows, .n_keys = n, .width = p->width,
                .accumulate = i > 0,
            };
            w->rows->score(&b);
        }
    }
}

static void attend_cached_rows(struct work *w, int begin, int end, struct state *out)
{
    const char *rows[ATTEND_MAX_CHUNK];
    score_cached_rows(w, begin, end, rows);
    softmax_rows(w, begin, end, out);
    for (int i = 0; i < w->n_value_parts; i++) {
        const struct part *p = &w->value_parts[i];
        struct row_values b = {
            .weights = w->scores, .weight_stride = ATTEND_MAX_CHUNK, .rows = rows,
            .column = (size_t)p->begin * column_bytes(w->view->layout), .scale_at = p->scale_at,
            .sums = out->values + p->at, .sum_stride = (size_t)w->group->value_width, .n_rows = w->n_rows,
            .n_keys = end - begin, .width = p->width,
        };
        w->rows->add_values(&b);
    }
}

static void attend_chunk(struct work *w, int chunk, struct state *out)
{
    int size = w->job->chunk, begin = chunk * size;
    int end = begin + size < w->n_positions ? begin + size : w->n_positions;
    const struct attend_group *g = w->group;
    if (w->rows != NULL) {
        attend_cached_rows(w, begin, end, out);
        return;
    }
    int one_run = run_length(w, begin, end) == end - begin;
    struct columns c = { 0 };
    for (int from = begin, n; from < end; from += n) {
        n = run_length(w, from, end);
        c = float_columns(w, from, n);
        score_keys(w, &c, from, n, w->scores + (from - begin));
    }
    softmax_rows(w, begin, end, out);
    memset(out->values, 0, (size_t)w->n_rows * (size_t)g->value_width * sizeof *out->values);
    for (int from = begin, n; from < end; from += n) {
        n = run_length(w, from, end);
        if (!one_run)
            c = float_columns(w, from, n);
        struct value_block b = {
            .weights = w->scores + (from - begin), .weight_stride = ATTEND_MAX_CHUNK,
            .values = c.value, .value_stride = c.stride,
            .sums = out->values, .sum_stride = (size_t)g->value_width,
            .n_rows = w->n_rows, .n_keys = n, .width = g->value_width,
        };
        w->job->kernels->add_values(&b);
    }
}

/* ---- merging ---- */

/* out = merge(a, b) of one row, neither empty; out may be a. */
static void merge_row(const struct kernels *kernels, float *out_values, float *out_sum, float *out_max,
                      const float *a_values, float a_sum, float a_max, const float *b_values, float b_sum,
                      float b_max, int width)
{
    float max = a_max > b_max ? a_max : b_max;
    float a_factor = expf(a_max - max), b_factor = expf(b_max - max);
    kernels->blend(out_values, a_values, a_factor, b_values, b_factor, width);
    *out_sum = a_sum * a_factor + b_sum * b_factor;
    *out_max = max;
}

static void merge_states(const struct work *w, struct state *a, const struct state *b)
{
    int width = w->group->value_width;
    for (int r = 0; r < w->n_rows; r++) {
        float *to = a->values + (size_t)r * (size_t)width;
        const float *from = b->values + (size_t)r * (size_t)width;
        if (b->sum[r] == 0)
            continue;
        if (a->sum[r] != 0) {
            merge_row(w->job->kernels, to, &a->sum[r], &a->max[r], to, a->sum[r], a->max[r], from, b->sum[r],
                      b->max[r], width);
            continue;
        }
        memcpy(to, from, (size_t)width * sizeof *to);
        a->sum[r] = b->sum[r];
        a->max[r] = b->max[r];
    }
}

static int lane_of(int leaf)
{
    return (leaf & 1) << 2 | (leaf & 2) | (leaf & 4) >> 2;
}

/* With a power of two of ranks, part p of the tree is the lanes that equal the
 * bit-reversed p modulo n: so that rank r holds chunks r, r + n, r + 2n .. */
int attend_part_rank(int n_ranks, int part)
{
    if (n_ranks != 1 && n_ranks != 2 && n_ranks != 4 && n_ranks != 8)
        return part;
    int rank = 0;
    for (int bit = 1, other = n_ranks / 2; bit < n_ranks; bit *= 2, other /= 2)
        rank |= part & bit ? other : 0;
    return rank;
}

static int part_begin(int n_ranks, int part)
{
    return ATTEND_LANES * part / n_ranks;
}

void attend_rank_lanes(int n_ranks, int rank, struct reduce_part *part)
{
    int p = attend_part_rank(n_ranks, rank);    /* reversing twice is no change */
    reduce_part_init(part, ATTEND_LANES, part_begin(n_ranks, p), part_begin(n_ranks, p + 1));
}

void attend_lane_plan(int n_ranks, struct reduce_plan *plan)
{
    int begin[ATTEND_LANES + 1];
    for (int p = 0; p <= n_ranks; p++)
        begin[p] = part_begin(n_ranks, p);
    reduce_plan_init(plan, ATTEND_LANES, n_ranks, begin);
}

int attend_owner(int n_ranks, int chunk, int position)
{
    int leaf = lane_of(position / chunk % ATTEND_LANES);
    int part = 0;
    while (part_begin(n_ranks, part + 1) <= leaf)
        part++;
    return attend_part_rank(n_ranks, part);
}

/* The node over leaves [lo, hi) into states[depth].  0: none of its lanes has a
 * chunk, and the state is untouched. */
static int attend_node(struct work *w, int lo, int hi, int depth)
{
    int n_chunks = (w->n_positions + w->job->chunk - 1) / w->job->chunk;
    if (hi - lo > 1) {
        int mid = lo + (hi - lo) / 2;
        int left = attend_node(w, lo, mid, depth);
        int right = attend_node(w, mid, hi, left ? depth + 1 : depth);
        if (left && right)
            merge_states(w, &w->states[depth], &w->states[depth + 1]);
        return left || right;
    }
    int lane = lane_of(lo);
    if (lane >= n_chunks)
        return 0;
    attend_chunk(w, lane, &w->states[depth]);
    for (int chunk = lane + ATTEND_LANES; chunk < n_chunks; chunk += ATTEND_LANES) {
        attend_chunk(w, chunk, &w->states[depth + 1]);
        merge_states(w, &w->states[depth], &w->states[depth + 1]);
    }
    return 1;
}

static void normalise(float *out, const float *values, float sum, int width)
{
    float inverse = 1 / sum;
    for (int i = 0; i < width; i++)
        out[i] = values[i] * inverse;
}

static void finish_whole(struct work *w, float *sums)
{
    int width = w->group->value_width;
    attend_node(w, 0, ATTEND_LANES, 0);
    for (int r = 0; r < w->n_rows; r++)
        normalise(sums + (size_t)r * (size_t)width, w->states[0].values + (size_t)r * (size_t)width,
                  w->states[0].sum[r], width);
}

/* This rank's nodes, one after the other, unnormalised. */
static void finish_nodes(struct work *w, float *nodes)
{
    const struct reduce_part *part = w->job->lanes;
    int width = w->group->value_width, node = 0, lo = part->begin;
    size_t node_floats = (size_t)width + 2;
    for (int leaf = part->begin; leaf < part->end; leaf++) {
        if (!part->node_done[leaf - part->begin])
            continue;
        int found = attend_node(w, lo, leaf + 1, 0);
        for (int r = 0; r < w->n_rows; r++) {
            float *out = nodes + ((size_t)r * (size_t)part->n_nodes + (size_t)node) * node_floats;
            if (found)
                memcpy(out, w->states[0].values + (size_t)r * (size_t)width, (size_t)width * sizeof *out);
            out[width] = found ? w->states[0].sum[r] : 0;
            out[width + 1] = found ? w->states[0].max[r] : -INFINITY;
        }
        node++;
        lo = leaf + 1;
    }
}

/* slot = merge(a, b), all [width + 2]; an empty side is exact. */
static const float *merge_nodes(const struct kernels *kernels, const float *a, const float *b, int width, float *slot)
{
    if (b[width] == 0)
        return a;
    if (a[width] == 0)
        return memmove(slot, b, ((size_t)width + 2) * sizeof *slot);
    merge_row(kernels, slot, &slot[width], &slot[width + 1], a, a[width], a[width + 1], b, b[width], b[width + 1],
              width);
    return slot;
}

void attend_merge_nodes(const struct kernels *kernels, const struct reduce_plan *plan,
                        const float *const *part_nodes, int value_width, float *scratch, float *sum)
{
    const float *stack[REDUCE_MAX_DEPTH + 1];
    int top = 0;
    size_t node_floats = (size_t)value_width + 2;
    for (int i = 0; i < plan->n_steps; i++) {
        stack[top++] = part_nodes[plan->steps[i].part] + plan->steps[i].node * node_floats;
        for (int m = 0; m < plan->steps[i].n_merges; m++, top--)
            stack[top - 2] = merge_nodes(kernels, stack[top - 2], stack[top - 1], value_width,
                                         scratch + (size_t)(top - 2) * node_floats);
    }
    normalise(sum, stack[0], stack[0][value_width], value_width);
}

/* ---- a span ---- */

static void place_scratch(struct work *w)
{
    const struct attend_group *g = w->group;
    float *at = w->job->scratch;
    w->scores = at;
    at += padded((size_t)ATTEND_ROWS * ATTEND_MAX_CHUNK);
    w->tile = at;
    at += padded((size_t)CACHE_MAX_BLOCK_SIZE * (size_t)tile_width(g));
    w->keys = at;
    at += padded((size_t)CACHE_MAX_BLOCK_SIZE * (size_t)g->query_width);
    w->gathered = at;
    at += padded((size_t)ATTEND_ROWS * (size_t)g->query_width);
    w->packed = at;
    at += packed_floats(g);
    for (int d = 0; d < MAX_DEPTH; d++) {
        w->states[d].values = at;
        at += padded((size_t)ATTEND_ROWS * (size_t)g->value_width);
    }
}

/* The parts of the group's columns. */
static void find_parts(struct work *w)
{
    const struct attend_group *g = w->group;
    const struct cache_layout *layout = w->view->layout;
    for (int s = 0, width = 0; s < g->n_key_segments; width += g->key_width[s], s++)
        w->n_key_parts += split_columns(layout, g->key_begin[s], g->key_width[s], width, w->key_parts + w->n_key_parts);
    w->n_value_parts = split_columns(layout, g->value_begin, g->value_width, 0, w->value_parts);
    assert(layout->type != CACHE_INT8 || w->n_key_parts <= g->n_key_parts);
}

/* Where the packed queries of the key parts go. */
static void place_packed(const struct work *w)
{
    float *at = w->packed;
    for (int i = 0; i < w->n_key_parts; i++) {
        w->key_parts[i].packed_queries = at;
        at += packed_query_bytes(w->key_parts[i].width) / 4;
        w->key_parts[i].query_scales = at;
        at += ATTEND_ROWS;
    }
}

static void pack_queries(const struct work *w)
{
    size_t width = (size_t)w->group->query_width;
    for (int i = 0; i < w->n_key_parts; i++) {
        const struct part *p = &w->key_parts[i];
        w->rows->pack_queries(p->packed_queries, p->query_scales, w->queries + p->at, width, w->n_rows, p->width);
    }
}

/* Query rows [first, first + n) from the peers that hold them. */
static void gather_queries(struct work *w, int first, int n)
{
    size_t width = (size_t)w->group->query_width;
    int per_peer = w->group->n_queries / w->job->n_peers;
    for (int r = 0; r < n; r++) {
        int token = (first + r) / w->group->n_queries, query = (first + r) % w->group->n_queries;
        const float *from = w->job->peer_queries[query / per_peer];
        memcpy(w->gathered + (size_t)r * width, from + ((size_t)(token * per_peer + query % per_peer)) * width,
               width * sizeof *from);
    }
    w->queries = w->gathered;
}

static void attend_rows(struct work *w, const struct span *span, int first, int n)
{
    const struct attend_group *g = w->group;
    if (w->job->peer_queries != NULL)
        gather_queries(w, first, n);
    else
        w->queries = w->job->queries + g->query_begin * (size_t)w->job->n_rows
                   + (size_t)first * (size_t)g->query_width;
    w->n_rows = n;
    w->n_positions = 0;
    for (int r = 0; r < n; r++) {
        int token = (first + r) / g->n_queries - span->first_row;
        w->limit[r] = span->causal ? span->first_position + token + 1 : span->length;
        w->n_positions = w->limit[r] > w->n_positions ? w->limit[r] : w->n_positions;
    }
    if (w->rows != NULL)
        pack_queries(w);
    size_t row = g->sum_begin * (size_t)w->job->n_rows + (size_t)first * (size_t)g->value_width;
    if (w->job->lanes == NULL) {
        finish_whole(w, w->job->sums + row);
        return;
    }
    /* A group's nodes follow those of the groups before it: the same place as
     * its sums, with n_nodes times (value_width + 2) for value_width.  Valid
     * because lanes are shared only among ranks that all have one group. */
    assert(w->job->n_groups == 1);
    size_t node_floats = (size_t)w->job->lanes->n_nodes * ((size_t)g->value_width + 2);
    finish_nodes(w, w->job->nodes + (size_t)first * node_floats);
}

const struct row_kernels *attend_row_kernels(const struct kernels *kernels, enum cache_type type, int decompresses)
{
    return decompresses       ? NULL
         : type == CACHE_BF16 ? kernels->bf16_rows
         : type == CACHE_INT8 ? kernels->int8_rows
                              : NULL;
}

void attend_span(const struct attend_job *job, const struct span *span, const struct cache_view *view)
{
    struct part key_parts[ATTEND_MAX_PARTS], value_parts[ATTEND_MAX_PARTS];
    for (int i = 0; i < job->n_groups; i++) {
        struct work w = {
            .job = job, .group = &job->groups[i], .view = view, .key_parts = key_parts, .value_parts = value_parts,
        };
        w.rows = attend_row_kernels(job->kernels, view->layout->type, w.group->decompress != NULL);
        int at_once = w.rows != NULL ? ATTEND_ROWS : FLOAT_ROWS;
        place_scratch(&w);
        find_parts(&w);
        if (w.rows != NULL)
            place_packed(&w);
        int first = span->first_row * w.group->n_queries;
        int end = first + span->n_rows * w.group->n_queries;
        for (; first < end; first += at_once)
            attend_rows(&w, span, first, end - first < at_once ? end - first : at_once);
    }
}
