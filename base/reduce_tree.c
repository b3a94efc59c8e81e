#include "base/reduce_tree.h"

#include <assert.h>

/* Walk the subtree over leaves [lo, hi) in order and note, for every leaf of
 * [part->begin, part->end), what happens after it. */
static void walk_part(struct reduce_part *part, int lo, int hi)
{
    if (hi <= part->begin || lo >= part->end)
        return;
    int whole = lo >= part->begin && hi <= part->end;
    if (hi - lo > 1) {
        int mid = lo + (hi - lo) / 2;
        walk_part(part, lo, mid);
        walk_part(part, mid, hi);
        if (whole)
            part->n_merges[hi - 1 - part->begin]++;
    }
    if (!whole)
        return;
    /* A node is a whole subtree whose parent is not whole: the parent's walk
     * clears the mark again by merging it. */
    if (hi - lo > 1) {
        int mid = lo + (hi - lo) / 2;
        part->node_done[mid - 1 - part->begin] = 0;
    }
    part->node_done[hi - 1 - part->begin] = 1;
}

void reduce_part_init(struct reduce_part *part, int n_leaves, int begin, int end)
{
    assert(n_leaves >= 1 && n_leaves <= REDUCE_MAX_LEAVES);
    assert(begin >= 0 && begin <= end && end <= n_leaves);
    *part = (struct reduce_part){ .begin = begin, .end = end };
    walk_part(part, 0, n_leaves);
    for (int i = 0; i < end - begin; i++)
        part->n_nodes += part->node_done[i];
}

struct plan_state {
    struct reduce_plan *plan;
    const int *leaf_begin;
    int n_parts;
    int next_node[REDUCE_MAX_LEAVES];
};

static int part_of(const struct plan_state *s, int lo, int hi)
{
    for (int p = 0; p < s->n_parts; p++)
        if (lo >= s->leaf_begin[p] && hi <= s->leaf_begin[p + 1])
            return p;
    return -1;
}

static void walk_plan(struct plan_state *s, int lo, int hi)
{
    int part = part_of(s, lo, hi);
    if (part >= 0) {
        int i = s->plan->n_steps++;
        s->plan->steps[i].part = (uint8_t)part;
        s->plan->steps[i].node = (uint8_t)s->next_node[part]++;
        s->plan->steps[i].n_merges = 0;
        return;
    }
    int mid = lo + (hi - lo) / 2;
    walk_plan(s, lo, mid);
    walk_plan(s, mid, hi);
    s->plan->steps[s->plan->n_steps - 1].n_merges++;
}

void reduce_plan_init(struct reduce_plan *plan, int n_leaves, int n_parts, const int *leaf_begin)
{
    assert(n_parts >= 1 && n_parts <= REDUCE_MAX_LEAVES);
    assert(leaf_begin[0] == 0 && leaf_begin[n_parts] == n_leaves);
    *plan = (struct reduce_plan){ 0 };
    struct plan_state s = { .plan = plan, .leaf_begin = leaf_begin, .n_parts = n_parts };
    walk_plan(&s, 0, n_leaves);
}

int reduce_leaf_count(int n_units)
{
    for (int n = n_units < REDUCE_MAX_LEAVES ? n_units : REDUCE_MAX_LEAVES; n > 1; n--)
        if (n_units % n == 0)
            return n;
    return 1;
}
