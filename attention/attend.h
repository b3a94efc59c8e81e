/* attend.h - softmax attention of one rank's query rows over cached rows.
 *
 * Every formulation ends here.  A *group* is a set of query rows that read the
 * same columns of the cached row: the heads of one latent (absorbed queries),
 * or the query heads of one KV head.
 *
 *   cached row   [ latent 0 | latent 1 | .. | rope key ]
 *   group 1      key:   latent 1 and rope key      (two segments)
 *                value: latent 1
 *
 * Order of the sums (design: arithmetic, rule 3).  Positions are cut into
 * chunks (attend_job.chunk); a chunk yields a partial (max, sum, weighted values).
 * Chunk c belongs to lane c mod 8; a lane folds its chunks in order, and the
 * lanes are merged as a binary tree over the bit-reversed lane number:
 *
 *            [0 4 2 6 1 5 3 7]
 *            /               \              so that the lanes = r (mod 2), or
 *       [0 4 2 6]         [1 5 3 7]         (mod 4), or (mod 8) are subtrees: a
 *       /      \          /      \          rank that holds the chunks of those
 *     [0 4]   [2 6]     [1 5]   [3 7]       lanes computes whole nodes.
 *
 * The result of a query row depends on its own limit and on nothing else: not
 * on the other rows, the step, or who holds which chunk.
 *
 * bf16 and int8 rows are widened to floats, or, where the kernels have tiles, multiplied as
 * they are (struct row_kernels); which it is follows from the kernels and the cache type.
 *
 * Decompressed keys (RoPE on W_UK c, seed 000): a group may carry the key
 * up-projection; the key tile of a chunk is then made on the fly and rotated.
 *
 * Threads: one job per rank at a time.  Memory: the job's scratch, no other.
 */
#ifndef ATTENTION_ATTEND_H
#define ATTENTION_ATTEND_H

#include "attention/kernels.h"
#include "attention/linear.h"
#include "attention/rope.h"
#include "cache/layout.h"

enum {
    ATTEND_MAX_CHUNK = 256,     /* positions of a partial: at most, and if nothing is said */
    ATTEND_LANES = 8,
    ATTEND_ROWS = 32,           /* query rows worked on together, at most */
    ATTEND_NODES = 4,           /* most nodes a rank's lanes form */
    ATTEND_MAX_PARTS = 66,      /* segments of a cached row that a group's columns lie in */
};

/* A cache sharded by chunk: rank r of n holds the chunks whose index mod n is r
 * (n a power of two up to ATTEND_LANES; other n share the lanes out in tree
 * order).  part: rank's leaves of the tree; plan: how all ranks' nodes are put
 * together, its part p being rank attend_part_rank(n, p). */
void attend_rank_lanes(int n_ranks, int rank, struct reduce_part *part);
void attend_lane_plan(int n_ranks, struct reduce_plan *plan);
int attend_part_rank(int n_ranks, int part);
int attend_owner(int n_ranks, int chunk, int position);     /* the rank that holds a position */

struct attend_group {
    int n_queries;              /* query rows per token */
    int n_key_segments;         /* 1 or 2 */
    int key_begin[2], key_width[2];     /* columns of the cached row */
    int n_key_parts;            /* segments of the row (cache/layout.h) that these lie in, at most */
    int value_begin, value_width;
    int query_width;            /* of a query row: the sum of key_width, or the
                                   outputs of decompress */
    const struct linear *decompress;    /* NULL, or keys = rope(decompress(key columns)) */
    const struct rope *rope;            /* with decompress */
    size_t query_begin;         /* this group's query rows start at
                                   queries + query_begin * n_rows of the step */
    size_t sum_begin;           /* and its results at sums + sum_begin * n_rows */
};

/* Consecutive rows of one sequence in a step. */
struct span {
    int first_row, n_rows;      /* of the step */
    int first_position;         /* of first_row in its sequence */
    int length;                 /* positions that exist, these rows included */
    int causal;                 /* 1: a row sees positions up to its own */
    const int32_t *blocks;      /* the sequence's block table */
};

struct attend_job {
    const struct kernels *kernels;
    const struct attend_group *groups;
    int n_groups;
    int n_rows;                 /* token rows of the step */
    const float *queries;       /* per group [n_rows][n_queries][query_width]; NULL with peer_queries */
    const float *const *peer_queries;   /* one group only: part p of n_peers holds the p-th share of every
                                   row's queries, [n_rows][n_queries / n_peers][query_width] */
    int n_peers;
    float *sums;                /* per group [n_rows][n_queries][value_width] */
    float scale;                /* of the scores */
    int chunk;                  /* positions of a partial: a multiple of 16, at most ATTEND_MAX_CHUNK */
    const struct reduce_part *lanes;    /* NULL: all; else this rank's nodes, see below */
    float *nodes;               /* with lanes: per group [n_rows][n_queries][n_nodes][value_width + 2]:
                                   values, sum, max */
    float *scratch;             /* attend_scratch_floats */
};

/* How the rows of a cache of this type are used: multiplied as they are cached, or NULL: as floats, as are those whose
 * keys are decompressed. */
const struct row_kernels *attend_row_kernels(const struct kernels *kernels, enum cache_type type, int decompresses);

/* Floats of scratch for the widest group and row. */
size_t attend_scratch_floats(const struct attend_group *groups, int n_groups);

/* One span's rows over its cached positions; the rows' own cache rows must
 * have been stored. */
void attend_span(const struct attend_job *job, const struct span *span, const struct cache_view *view);

/* Merge partials [n][value_width + 2] as plan says and normalise into
 * sum[value_width].  part_nodes[p] points at part p's nodes; scratch
 * [ATTEND_LANES][value_width + 2]. */
void attend_merge_nodes(const struct kernels *kernels, const struct reduce_plan *plan,
                        const float *const *part_nodes, int value_width, float *scratch, float *sum);

#endif
