/* test_arena - what is handed out is aligned, zeroed and apart; after a rewind it is handed out again. */
#include "base/arena.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { N = 40 };

/* Sizes from a few bytes to more than a chunk. */
static size_t size_of(int i)
{
    return i % 7 == 6 ? (size_t)3 << 20 : (size_t)(i * 977 + 1);
}

static void take_all(struct arena *arena, char *out[N])
{
    for (int i = 0; i < N; i++) {
        assert_int_equal(arena_take(arena, size_of(i), 1, (void **)&out[i], NULL), STATUS_OK);
        assert_int_equal((uintptr_t)out[i] % 64, 0);
    }
}

static void all_is_zeroed_and_apart(void **state)
{
    (void)state;
    struct arena arena;
    char *p[N];
    arena_init(&arena);
    take_all(&arena, p);
    for (int i = 0; i < N; i++) {
        for (size_t b = 0; b < size_of(i); b++)
            assert_int_equal(p[i][b], 0);
        memset(p[i], i + 1, size_of(i));
    }
    for (int i = 0; i < N; i++)
        for (size_t b = 0; b < size_of(i); b += 61)
            assert_int_equal(p[i][b], i + 1);
    arena_clear(&arena);
}

static void after_a_rewind_the_same_is_handed_out(void **state)
{
    (void)state;
    for (int before = 0; before < 3; before++) {
        struct arena arena;
        char *kept = NULL, *first[N], *again[N];
        arena_init(&arena);
        for (int i = 0; i < before; i++)
            assert_int_equal(arena_take(&arena, 100000, 1, (void **)&kept, NULL), STATUS_OK);
        struct arena_mark mark = arena_mark(&arena);
        size_t used = arena.used;
        take_all(&arena, first);
        size_t mapped = arena.mapped;
        for (int round = 0; round < 3; round++) {
            arena_rewind(&arena, mark);
            assert_int_equal(arena.used, used);
            take_all(&arena, again);
            assert_memory_equal(first, again, sizeof first);
            assert_int_equal(arena.mapped, mapped);
        }
        char *more = NULL;
        assert_int_equal(arena_take(&arena, 1000, 1, (void **)&more, NULL), STATUS_OK);
        for (int i = 0; i < N; i++)
            assert_true(more >= first[i] + size_of(i) || more + 1000 <= first[i]);
        arena_clear(&arena);
    }
}

static void what_cannot_be_had_is_refused(void **state)
{
    (void)state;
    struct arena arena;
    struct error err;
    void *p;
    arena_init(&arena);
    assert_int_equal(arena_take(&arena, SIZE_MAX / 2, 3, &p, &err), STATUS_NO_MEMORY);
    assert_int_equal(arena_take(&arena, (size_t)1 << 60, 1, &p, &err), STATUS_NO_MEMORY);
    assert_int_equal(arena.mapped, 0);
    arena_clear(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_is_zeroed_and_apart),
        cmocka_unit_test(after_a_rewind_the_same_is_handed_out),
        cmocka_unit_test(what_cannot_be_had_is_refused),
    };
    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
