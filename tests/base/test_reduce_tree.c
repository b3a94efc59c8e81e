/* test_reduce_tree - any cut of the leaves finishes the same tree; every leaf is used once. */
#include "base/reduce_tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Sums as text, so that the order of additions shows: "((0+1)+(2+3))". */
struct text {
    char at[400];
};

static struct text leaf_text(int leaf)
{
    struct text t;
    snprintf(t.at, sizeof t.at, "%d", leaf);
    return t;
}

static struct text add_text(const struct text *a, const struct text *b)
{
    struct text t;
    snprintf(t.at, sizeof t.at, "(%.180s+%.180s)", a->at, b->at);
    return t;
}

/* What a rank with this part computes: its nodes. */
static int run_part(const struct reduce_part *part, struct text nodes[])
{
    struct text stack[REDUCE_MAX_DEPTH + 1];
    int top = 0, n = 0;
    for (int i = 0; i < part->end - part->begin; i++) {
        assert_true(top <= REDUCE_MAX_DEPTH);
        stack[top++] = leaf_text(part->begin + i);
        for (int m = 0; m < part->n_merges[i]; m++, top--)
            stack[top - 2] = add_text(&stack[top - 2], &stack[top - 1]);
        if (part->node_done[i])
            nodes[n++] = stack[--top];
    }
    assert_int_equal(top, 0);
    assert_int_equal(n, part->n_nodes);
    assert_true(n <= REDUCE_MAX_NODES);
    return n;
}

static struct text run_plan(int n_leaves, int n_parts)
{
    static struct text nodes[REDUCE_MAX_LEAVES][REDUCE_MAX_NODES];
    int begin[REDUCE_MAX_LEAVES + 1];
    for (int p = 0; p <= n_parts; p++)
        begin[p] = n_leaves * p / n_parts;
    for (int p = 0; p < n_parts; p++) {
        struct reduce_part part;
        reduce_part_init(&part, n_leaves, begin[p], begin[p + 1]);
        run_part(&part, nodes[p]);
    }
    struct reduce_plan plan;
    reduce_plan_init(&plan, n_leaves, n_parts, begin);
    struct text stack[REDUCE_MAX_DEPTH + 2];
    int top = 0;
    for (int i = 0; i < plan.n_steps; i++) {
        stack[top++] = nodes[plan.steps[i].part][plan.steps[i].node];
        for (int m = 0; m < plan.steps[i].n_merges; m++, top--)
            stack[top - 2] = add_text(&stack[top - 2], &stack[top - 1]);
    }
    assert_int_equal(top, 1);
    return stack[0];
}

static void any_number_of_parts_adds_in_the_same_order(void **state)
{
    (void)state;
    for (int n_leaves = 1; n_leaves <= REDUCE_MAX_LEAVES; n_leaves++) {
        struct text one = run_plan(n_leaves, 1);
        for (int n_parts = 2; n_parts <= n_leaves; n_parts++) {
            struct text many = run_plan(n_leaves, n_parts);
            assert_string_equal(many.at, one.at);
        }
    }
}

static void four_leaves_are_a_balanced_tree(void **state)
{
    (void)state;
    assert_string_equal(run_plan(4, 2).at, "((0+1)+(2+3))");
}

static void an_empty_run_has_no_node(void **state)
{
    (void)state;
    struct reduce_part part;
    reduce_part_init(&part, 8, 3, 3);
    assert_int_equal(part.n_nodes, 0);
}

static void leaves_are_whole_units(void **state)
{
    (void)state;
    for (int units = 1; units <= 300; units++) {
        int n = reduce_leaf_count(units);
        assert_in_range(n, 1, REDUCE_MAX_LEAVES);
        assert_int_equal(units % n, 0);
    }
    assert_int_equal(reduce_leaf_count(16), 16);
    assert_int_equal(reduce_leaf_count(128), 32);
    assert_int_equal(reduce_leaf_count(24), 24);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_parts_adds_in_the_same_order),
        cmocka_unit_test(four_leaves_are_a_balanced_tree),
        cmocka_unit_test(an_empty_run_has_no_node),
        cmocka_unit_test(leaves_are_whole_units),
    };
    return cmocka_run_group_tests_name("reduce_tree", tests, NULL, NULL);
}
