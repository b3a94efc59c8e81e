/* test_cache_file - a cache file comes back as it was written, and no cut, flipped or misplaced byte of it is believed. */
#include "cache/cache_file.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { N_RECORDS = 5, BLOCK = 4, BYTES = 21 };

static const char identity[] = "program 1\nmodel abc\nranks 2\n";
static const struct cache_file_shape shape = { .identity = identity, .block_size = BLOCK, .block_bytes = BYTES };

struct place {
    char dir[64], path[128], partial[160];
};

static void make_place(struct place *p)
{
    snprintf(p->dir, sizeof p->dir, "/tmp/latentd-cache-file-XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    snprintf(p->path, sizeof p->path, "%s/%s", p->dir, CACHE_FILE_NAME);
    snprintf(p->partial, sizeof p->partial, "%s.partial", p->path);
}

static void remove_place(const struct place *p)
{
    unlink(p->path);
    unlink(p->partial);
    assert_int_equal(rmdir(p->dir), 0);
}

/* Record i: a chain of three and one of two; contents that depend on i and salt. */
static void make_record(int i, int salt, void *record)
{
    struct cache_record_head head = { .parent = i == 0 || i == 3 ? -1 : i - 1, .n_given = i % (BLOCK + 1) };
    memset(&head.salt, salt, sizeof head.salt);
    memcpy(record, &head, sizeof head);
    for (int k = 0; k < BLOCK; k++)
        cache_record_tokens(record)[k] = i * 100 + k;
    memset(cache_record_contents(&shape, record), 10 * i + salt, BYTES);
}

static void write_file(const struct place *p, int salt)
{
    struct cache_file_writer *w;
    char *record = malloc(cache_record_bytes(&shape));
    assert_int_equal(cache_file_writer_open(&w, p->dir, &shape, NULL), STATUS_OK);
    for (int i = 0; i < N_RECORDS; i++) {
        make_record(i, salt, record);
        assert_int_equal(cache_file_writer_add(w, record, NULL), STATUS_OK);
    }
    assert_int_equal(cache_file_writer_finish(w, NULL), STATUS_OK);
    free(record);
}

/* Open and read everything: the first failure, or OK. */
static enum status read_file(const struct place *p, const struct cache_file_shape *wanted, int salt, struct error *err)
{
    struct cache_file_reader *r;
    TRY(cache_file_reader_open(&r, p->dir, wanted, err));
    char *record = malloc(cache_record_bytes(wanted)), *want = malloc(cache_record_bytes(wanted));
    enum status s = STATUS_OK;
    int n = (int)cache_file_reader_count(r);
    for (int i = 0; i < n && s == STATUS_OK; i++) {
        s = cache_file_reader_next(r, record, err);
        make_record(i, salt, want);
        if (s == STATUS_OK)
            assert_memory_equal(record, want, cache_record_bytes(wanted));
    }
    if (s == STATUS_OK)
        assert_int_equal(n, N_RECORDS);
    free(record);
    free(want);
    cache_file_reader_close(r);
    return s;
}

static size_t load(const char *path, unsigned char *bytes, size_t max)
{
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    ssize_t n = read(fd, bytes, max);
    assert_true(n >= 0 && (size_t)n < max);
    close(fd);
    return (size_t)n;
}

static void store(const char *path, const unsigned char *bytes, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, n), n);
    close(fd);
}

static void what_was_written_comes_back(void **state)
{
    (void)state;
    struct place p;
    struct stat info;
    make_place(&p);
    assert_int_equal(read_file(&p, &shape, 1, NULL), STATUS_NOT_FOUND);
    write_file(&p, 1);
    assert_int_equal(read_file(&p, &shape, 1, NULL), STATUS_OK);
    assert_int_equal(stat(p.path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_int_equal(access(p.partial, F_OK), -1);
    write_file(&p, 2);
    assert_int_equal(read_file(&p, &shape, 2, NULL), STATUS_OK);
    remove_place(&p);
}

static void no_flipped_bit_is_believed(void **state)
{
    (void)state;
    struct place p;
    unsigned char bytes[4096];
    make_place(&p);
    write_file(&p, 1);
    size_t n = load(p.path, bytes, sizeof bytes);
    for (size_t bit = 0; bit < 8 * n; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        store(p.path, bytes, n);
        if (read_file(&p, &shape, 1, NULL) != STATUS_BAD_MODEL)
            fail_msg("bit %zu of byte %zu is believed", bit % 8, bit / 8);
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    store(p.path, bytes, n);
    assert_int_equal(read_file(&p, &shape, 1, NULL), STATUS_OK);
    remove_place(&p);
}

static void no_cut_or_longer_file_is_opened(void **state)
{
    (void)state;
    struct place p;
    struct cache_file_reader *r;
    unsigned char bytes[4096] = { 0 };
    make_place(&p);
    write_file(&p, 1);
    size_t n = load(p.path, bytes, sizeof bytes);
    for (size_t cut = 0; cut < n + 300; cut++) {
        if (cut == n)
            continue;
        store(p.path, bytes, cut);
        assert_int_equal(cache_file_reader_open(&r, p.dir, &shape, NULL), STATUS_BAD_MODEL);
    }
    remove_place(&p);
}

static void a_record_is_good_only_in_its_place_of_its_file(void **state)
{
    (void)state;
    struct place p;
    unsigned char first[4096], second[4096], mixed[4096];
    size_t begin = 40 + sizeof identity - 1, stride = cache_record_bytes(&shape) + 8;
    make_place(&p);
    write_file(&p, 1);
    size_t n = load(p.path, first, sizeof first);
    assert_int_equal(n, begin + N_RECORDS * stride + 24);

    /* Two records of one file change places. */
    memcpy(mixed, first, n);
    memcpy(mixed + begin, first + begin + 3 * stride, stride);
    memcpy(mixed + begin + 3 * stride, first + begin, stride);
    store(p.path, mixed, n);
    assert_int_equal(read_file(&p, &shape, 1, NULL), STATUS_BAD_MODEL);

    /* The same record in a file of another identity. */
    struct cache_file_shape other = shape;
    other.identity = "program 1\nmodel abd\nranks 2\n";
    struct cache_file_writer *w;
    char *record = malloc(cache_record_bytes(&shape));
    assert_int_equal(cache_file_writer_open(&w, p.dir, &other, NULL), STATUS_OK);
    for (int i = 0; i < N_RECORDS; i++) {
        make_record(i, 1, record);
        assert_int_equal(cache_file_writer_add(w, record, NULL), STATUS_OK);
    }
    assert_int_equal(cache_file_writer_finish(w, NULL), STATUS_OK);
    assert_int_equal(load(p.path, second, sizeof second), n);
    memcpy(second + begin, first + begin, stride);
    store(p.path, second, n);
    assert_int_equal(read_file(&p, &other, 1, NULL), STATUS_BAD_MODEL);
    free(record);
    remove_place(&p);
}

static void a_record_may_only_follow_an_earlier_one(void **state)
{
    (void)state;
    static const int32_t parents[] = { 0, 1, -2, INT32_MAX, INT32_MIN };
    struct place p;
    char *record = malloc(cache_record_bytes(&shape));
    make_place(&p);
    for (size_t i = 0; i < sizeof parents / sizeof parents[0]; i++) {
        struct cache_file_writer *w;
        struct cache_file_reader *r;
        assert_int_equal(cache_file_writer_open(&w, p.dir, &shape, NULL), STATUS_OK);
        make_record(0, 1, record);
        memcpy(record, &parents[i], sizeof parents[i]);
        assert_int_equal(cache_file_writer_add(w, record, NULL), STATUS_OK);
        assert_int_equal(cache_file_writer_finish(w, NULL), STATUS_OK);
        assert_int_equal(cache_file_reader_open(&r, p.dir, &shape, NULL), STATUS_OK);
        assert_int_equal(cache_file_reader_next(r, record, NULL), STATUS_BAD_MODEL);
        cache_file_reader_close(r);
    }
    free(record);
    remove_place(&p);
}

static void another_identity_is_refused_by_its_first_line_that_differs(void **state)
{
    (void)state;
    static const struct { const char *identity, *ours, *theirs; } cases[] = {
        { "program 1\nmodel abd\nranks 2\n", "'model abd'", "'model abc'" },
        { "program 1\nmodel abc\nranks 4\n", "'ranks 4'", "'ranks 2'" },
        { "program 1\n", "''", "'model abc'" },
        { "program 1\nmodel abc\nranks 2\nmore\n", "'more'", "''" },
        { "", "''", "'program 1'" },
    };
    struct place p;
    struct error err;
    make_place(&p);
    write_file(&p, 1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct cache_file_shape other = shape;
        other.identity = cases[i].identity;
        assert_int_equal(read_file(&p, &other, 1, &err), STATUS_BAD_MODEL);
        if (strstr(err.text, cases[i].ours) == NULL || strstr(err.text, cases[i].theirs) == NULL)
            fail_msg("case %zu: %s", i, err.text);
    }
    struct cache_file_shape other = shape;
    other.block_bytes = BYTES + 1;
    assert_int_equal(read_file(&p, &other, 1, NULL), STATUS_BAD_MODEL);
    remove_place(&p);
}

static void an_abandoned_file_leaves_the_older_one(void **state)
{
    (void)state;
    struct place p;
    struct cache_file_writer *w;
    char *record = malloc(cache_record_bytes(&shape));
    make_place(&p);
    write_file(&p, 1);
    assert_int_equal(cache_file_writer_open(&w, p.dir, &shape, NULL), STATUS_OK);
    make_record(0, 9, record);
    assert_int_equal(cache_file_writer_add(w, record, NULL), STATUS_OK);
    assert_int_equal(read_file(&p, &shape, 1, NULL), STATUS_OK);
    cache_file_writer_abandon(w);
    assert_int_equal(read_file(&p, &shape, 1, NULL), STATUS_OK);
    assert_int_equal(access(p.partial, F_OK), -1);
    /* What a process that was killed has left is written over. */
    store(p.partial, (const unsigned char *)"left over from a longer file", 28);
    write_file(&p, 3);
    assert_int_equal(read_file(&p, &shape, 3, NULL), STATUS_OK);
    free(record);
    remove_place(&p);
}

static void only_one_writes_at_a_time(void **state)
{
    (void)state;
    struct place p;
    struct cache_file_writer *first, *second;
    make_place(&p);
    assert_int_equal(cache_file_writer_open(&first, p.dir, &shape, NULL), STATUS_OK);
    assert_int_equal(cache_file_writer_open(&second, p.dir, &shape, NULL), STATUS_BUSY);
    assert_int_equal(access(p.partial, F_OK), 0);
    assert_int_equal(cache_file_writer_finish(first, NULL), STATUS_OK);
    assert_int_equal(cache_file_writer_open(&second, p.dir, &shape, NULL), STATUS_OK);
    cache_file_writer_abandon(second);
    assert_int_equal(cache_file_writer_open(&second, "/nowhere/at/all", &shape, NULL), STATUS_IO);
    remove_place(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_comes_back),
        cmocka_unit_test(no_flipped_bit_is_believed),
        cmocka_unit_test(no_cut_or_longer_file_is_opened),
        cmocka_unit_test(a_record_is_good_only_in_its_place_of_its_file),
        cmocka_unit_test(a_record_may_only_follow_an_earlier_one),
        cmocka_unit_test(another_identity_is_refused_by_its_first_line_that_differs),
        cmocka_unit_test(an_abandoned_file_leaves_the_older_one),
        cmocka_unit_test(only_one_writes_at_a_time),
    };
    return cmocka_run_group_tests_name("cache file", tests, NULL, NULL);
}
