/* reduce_tree.h - the order in which a sharded sum is added up.
 *
 * A sum over a sharded axis (heads, or the width of the MLP) is cut into a
 * fixed number of segments, the leaves, and added as a binary tree over them.
 * The number of leaves and the shape of the tree never depend on the number of
 * ranks; a rank owns a run of leaves and computes the subtrees that lie wholly
 * inside its run (its nodes).  Whoever adds the nodes up finishes the same
 * tree, so the result has the same bits on any number of ranks.
 *
 *   6 leaves:           [0,6)               2 ranks own [0,3) and [3,6):
 *                      /     \              one node each.
 *                 [0,3)       [3,6)         4 ranks cannot share 6 leaves
 *                 /   \       /   \         evenly; 3 ranks own [0,2) [2,4)
 *               0    [1,3)  3    [4,6)      [4,6): rank 0 has the nodes 0 and
 *                    / \         / \        1, rank 1 has 2 and 3, rank 2 has
 *                   1   2       4   5       one node.
 *
 * Pure arithmetic; threads: any; memory: none.
 */
#ifndef BASE_REDUCE_TREE_H
#define BASE_REDUCE_TREE_H

#include <stdint.h>

enum { REDUCE_MAX_LEAVES = 32, REDUCE_MAX_DEPTH = 6, REDUCE_MAX_NODES = 10 };

/* One rank's part: leaves [begin, end) in order.  After leaf begin + i is
 * pushed on a stack, the top two entries are added n_merges[i] times; when
 * node_done[i] is 1 the top is then a finished node and is popped. */
struct reduce_part {
    int begin, end;
    int n_nodes;
    uint8_t n_merges[REDUCE_MAX_LEAVES];
    uint8_t node_done[REDUCE_MAX_LEAVES];
};

/* How n_parts parts are put together: for every step, push node `node` of part
 * `part`, then add the top two entries n_merges times. */
struct reduce_plan {
    int n_steps;
    struct {
        uint8_t part, node, n_merges;
    } steps[REDUCE_MAX_LEAVES];
};

/* 0 <= begin <= end <= n_leaves <= REDUCE_MAX_LEAVES; an empty run has no node. */
void reduce_part_init(struct reduce_part *part, int n_leaves, int begin, int end);

/* leaf_begin[n_parts + 1]: part p owns leaves [leaf_begin[p], leaf_begin[p+1]). */
void reduce_plan_init(struct reduce_plan *plan, int n_leaves, int n_parts, const int *leaf_begin);

/* The largest number of leaves <= REDUCE_MAX_LEAVES that divides n_units, so
 * that a leaf is a whole number of units.  n_units >= 1. */
int reduce_leaf_count(int n_units);

#endif
