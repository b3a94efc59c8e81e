/* test_file - whole files in and out; a reader never sees a part of a replaced one. */
#include "base/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct place {
    char folder[64];
    char path[96];
};

static int set_up(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    snprintf(place->folder, sizeof place->folder, "/tmp/test_file.XXXXXX");
    if (mkdtemp(place->folder) == NULL)
        return 1;
    snprintf(place->path, sizeof place->path, "%s/data", place->folder);
    *state = place;
    return 0;
}

static int tear_down(void **state)
{
    struct place *place = *state;
    unlink(place->path);
    int left = rmdir(place->folder);    /* fails if a temporary file was left behind */
    free(place);
    return left;
}

static void what_was_written_is_read_back(void **state)
{
    const struct place *place = *state;
    static const size_t sizes[] = { 0, 1, 16383, 16384, 16385, 100000 };
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        char *bytes = malloc(sizes[k] + 1);
        assert_non_null(bytes);
        for (size_t i = 0; i < sizes[k]; i++)
            bytes[i] = (char)(i * 31 + k);
        assert_int_equal(file_replace(place->path, bytes, sizes[k], NULL), STATUS_OK);
        struct buf out;
        buf_init(&out, 200000);
        assert_int_equal(buf_add_text(&out, "head"), STATUS_OK);
        assert_int_equal(file_read(place->path, &out, NULL), STATUS_OK);
        assert_int_equal(out.len, 4 + sizes[k]);
        assert_memory_equal(out.data, "head", 4);
        assert_memory_equal(out.data + 4, bytes, sizes[k]);
        buf_clear(&out);
        free(bytes);
    }
}

static void a_file_of_exactly_the_maximum_is_read_and_one_byte_more_is_not(void **state)
{
    const struct place *place = *state;
    assert_int_equal(file_replace(place->path, "12345", 5, NULL), STATUS_OK);
    struct error err;
    struct buf out;
    buf_init(&out, 5);
    assert_int_equal(file_read(place->path, &out, &err), STATUS_OK);
    buf_clear(&out);
    buf_init(&out, 4);
    assert_int_equal(file_read(place->path, &out, &err), STATUS_TOO_LARGE);
    assert_non_null(strstr(err.text, place->path));
    assert_non_null(strstr(err.text, "4 bytes"));
    buf_clear(&out);
}

/* tear_down finds what is left in the folder. */
static void a_replace_that_fails_leaves_no_temporary_file(void **state)
{
    const struct place *place = *state;
    assert_int_equal(mkdir(place->path, 0700), 0);
    struct error err;
    assert_int_equal(file_replace(place->path, "x", 1, &err), STATUS_IO);
    assert_non_null(strstr(err.text, "rename"));
    assert_int_equal(rmdir(place->path), 0);
}

static void what_cannot_be_opened_read_or_written_is_named(void **state)
{
    const struct place *place = *state;
    struct error err;
    struct buf out;
    buf_init(&out, 100);
    assert_int_equal(file_read(place->path, &out, &err), STATUS_IO);
    assert_non_null(strstr(err.text, place->path));
    assert_non_null(strstr(err.text, "No such file"));
    assert_int_equal(file_read(place->folder, &out, &err), STATUS_IO);
    assert_non_null(strstr(err.text, "irectory"));
    assert_int_equal(file_replace("/nowhere/at/all", "x", 1, &err), STATUS_IO);
    assert_non_null(strstr(err.text, "/nowhere/at/all"));
    char long_path[5000];
    memset(long_path, 'a', sizeof long_path - 1);
    long_path[sizeof long_path - 1] = '\0';
    assert_int_equal(file_replace(long_path, "x", 1, &err), STATUS_IO);
    buf_clear(&out);
    assert_false(file_exists(place->path));
    assert_int_equal(file_replace(place->path, "x", 1, &err), STATUS_OK);
    assert_true(file_exists(place->path));
}

enum { n_bytes = 50000 };

struct reader {
    const char *path;
    atomic_int stop;
    int n_reads;
    int n_bad;
};

/* Every version is one letter, n_bytes times. */
static void *read_until_told(void *context)
{
    struct reader *reader = context;
    while (!atomic_load(&reader->stop)) {
        struct buf out;
        buf_init(&out, 2 * n_bytes);
        int bad = file_read(reader->path, &out, NULL) != STATUS_OK || out.len != n_bytes;
        for (size_t i = 1; !bad && i < out.len; i++)
            bad = out.data[i] != out.data[0];
        reader->n_bad += bad;
        reader->n_reads++;
        buf_clear(&out);
    }
    return NULL;
}

static void a_reader_sees_the_old_file_or_the_new_one(void **state)
{
    const struct place *place = *state;
    static char bytes[n_bytes];
    memset(bytes, 'a', sizeof bytes);
    assert_int_equal(file_replace(place->path, bytes, sizeof bytes, NULL), STATUS_OK);
    struct reader reader = { .path = place->path };
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, read_until_told, &reader), 0);
    for (int i = 0; i < 100; i++) {
        memset(bytes, 'a' + i % 26, sizeof bytes);
        assert_int_equal(file_replace(place->path, bytes, sizeof bytes, NULL), STATUS_OK);
    }
    atomic_store(&reader.stop, 1);
    pthread_join(thread, NULL);
    assert_int_equal(reader.n_bad, 0);
    assert_true(reader.n_reads > 0);
}

static void a_write_that_will_fail_is_known_before(void **state)
{
    const struct place *place = *state;
    struct error err;
    assert_int_equal(file_check_replace(place->path, &err), STATUS_OK);
    assert_false(file_exists(place->path));
    assert_int_equal(file_replace(place->path, "kept", 4, &err), STATUS_OK);
    assert_int_equal(file_check_replace(place->path, &err), STATUS_OK);
    struct buf out;
    buf_init(&out, 100);
    assert_int_equal(file_read(place->path, &out, &err), STATUS_OK);
    assert_int_equal(out.len, 4);
    buf_clear(&out);
    assert_int_equal(file_check_replace(place->folder, &err), STATUS_IO);
    assert_int_equal(file_check_replace("/nonexistent/folder/file", &err), STATUS_IO);
    assert_non_null(strstr(err.text, "/nonexistent/folder/file"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_written_is_read_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_file_of_exactly_the_maximum_is_read_and_one_byte_more_is_not,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_replace_that_fails_leaves_no_temporary_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be_opened_read_or_written_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_reader_sees_the_old_file_or_the_new_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_write_that_will_fail_is_known_before, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
