/* test_json_read - fields are taken with their type and range, or refused in a sentence that names them. */
#include "base/json_read.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char text[] =
    "{\"int\": 5, \"min\": -9223372036854775808, \"max\": 9223372036854775807, \"real\": 2.5,"
    " \"whole\": 3e0, \"huge\": 1e30,"
    " \"yes\": true, \"no\": false, \"nothing\": null, \"word\": \"a\\u0000b\","
    " \"list\": [1], \"thing\": {\"x\": 1}}";

struct fixture {
    json_t *object;
    struct json_reader reader;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    f->object = json_loads(text, JSON_ALLOW_NUL, NULL);
    f->reader = (struct json_reader){ f->object, "config.json", STATUS_BAD_MODEL };
    *state = f;
    return f->object == NULL;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    json_decref(f->object);
    free(f);
    return 0;
}

#define READER (&((struct fixture *)*state)->reader)

static void missing_and_null_fields_leave_the_value_alone(void **state)
{
    static const char *const absent[] = { "nothing", "not there", "" };
    for (size_t i = 0; i < 3; i++) {
        int64_t n = 7;
        double x = 7;
        int flag = 7;
        const char *word = "w";
        size_t len = 7;
        const json_t *value = READER->object;
        assert_null(json_read_any(READER, absent[i]));
        assert_int_equal(json_read_int(READER, absent[i], 0, 1, &n, NULL), STATUS_OK);
        assert_int_equal(json_read_double(READER, absent[i], 0, 1, &x, NULL), STATUS_OK);
        assert_int_equal(json_read_bool(READER, absent[i], &flag, NULL), STATUS_OK);
        assert_int_equal(json_read_string(READER, absent[i], &word, &len, NULL), STATUS_OK);
        assert_int_equal(json_read_object(READER, absent[i], &value, NULL), STATUS_OK);
        assert_int_equal(json_read_array(READER, absent[i], &value, NULL), STATUS_OK);
        assert_true(n == 7 && x == 7 && flag == 7 && len == 7);
        assert_string_equal(word, "w");
        assert_ptr_equal(value, READER->object);
    }
}

static void fields_of_the_right_type_are_taken(void **state)
{
    int64_t n = 0;
    double x = 0;
    int flag = -1;
    const char *word = NULL;
    size_t len = 0;
    const json_t *value = NULL;
    assert_int_equal(json_read_int(READER, "int", 5, 5, &n, NULL), STATUS_OK);
    assert_int_equal(n, 5);
    assert_int_equal(json_read_int(READER, "min", INT64_MIN, 0, &n, NULL), STATUS_OK);
    assert_true(n == INT64_MIN);
    assert_int_equal(json_read_int(READER, "max", 0, INT64_MAX, &n, NULL), STATUS_OK);
    assert_true(n == INT64_MAX);
    assert_int_equal(json_read_int(READER, "whole", 3, 3, &n, NULL), STATUS_OK);
    assert_int_equal(n, 3);
    assert_int_equal(json_read_double(READER, "real", 2.5, 2.5, &x, NULL), STATUS_OK);
    assert_true(x == 2.5);
    assert_int_equal(json_read_double(READER, "int", 0, 10, &x, NULL), STATUS_OK);
    assert_true(x == 5.0);
    assert_int_equal(json_read_bool(READER, "yes", &flag, NULL), STATUS_OK);
    assert_int_equal(flag, 1);
    assert_int_equal(json_read_bool(READER, "no", &flag, NULL), STATUS_OK);
    assert_int_equal(flag, 0);
    assert_int_equal(json_read_string(READER, "word", &word, &len, NULL), STATUS_OK);
    assert_int_equal(len, 3);
    assert_memory_equal(word, "a\0b", 4);
    assert_int_equal(json_read_object(READER, "thing", &value, NULL), STATUS_OK);
    assert_int_equal(json_object_size(value), 1);
    assert_int_equal(json_read_array(READER, "list", &value, NULL), STATUS_OK);
    assert_int_equal(json_array_size(value), 1);
}

/* Call one reader on a field, by the name of what it expects. */
static enum status read_as(const struct json_reader *r, const char *expected, const char *field,
                           struct error *err)
{
    int64_t n;
    double x;
    int flag;
    const char *word;
    size_t len;
    const json_t *value;
    if (strcmp(expected, "an integer") == 0)
        return json_read_int(r, field, INT64_MIN, INT64_MAX, &n, err);
    if (strcmp(expected, "a number") == 0)
        return json_read_double(r, field, -1e300, 1e300, &x, err);
    if (strcmp(expected, "true or false") == 0)
        return json_read_bool(r, field, &flag, err);
    if (strcmp(expected, "a string") == 0)
        return json_read_string(r, field, &word, &len, err);
    if (strcmp(expected, "an object") == 0)
        return json_read_object(r, field, &value, err);
    return json_read_array(r, field, &value, err);
}

static void every_other_type_is_refused_by_name(void **state)
{
    static const char *const kinds[] = {
        "an integer", "a number", "true or false", "a string", "an object", "an array",
    };
    static const struct { const char *field, *phrase; int fits[6]; } fields[] = {
        { "int", "an integer", { 1, 1, 0, 0, 0, 0 } },
        { "real", "a number with a fraction", { 0, 1, 0, 0, 0, 0 } },
        { "whole", "a number with a point or exponent", { 1, 1, 0, 0, 0, 0 } },
        { "huge", "an integer of more than 64 bits", { 0, 1, 0, 0, 0, 0 } },
        { "yes", "true", { 0, 0, 1, 0, 0, 0 } },
        { "no", "false", { 0, 0, 1, 0, 0, 0 } },
        { "word", "a string", { 0, 0, 0, 1, 0, 0 } },
        { "thing", "an object", { 0, 0, 0, 0, 1, 0 } },
        { "list", "an array", { 0, 0, 0, 0, 0, 1 } },
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        for (size_t k = 0; k < 6; k++) {
            struct error err = { .text = "" };
            enum status s = read_as(READER, kinds[k], fields[i].field, &err);
            assert_int_equal(s, fields[i].fits[k] ? STATUS_OK : STATUS_BAD_MODEL);
            char want[200];
            snprintf(want, sizeof want, "config.json: '%s' must be %s, got %s", fields[i].field, kinds[k],
                     fields[i].phrase);
            if (s != STATUS_OK)
                assert_string_equal(err.text, want);
        }
    }
}

static void a_value_out_of_range_is_refused_with_the_range(void **state)
{
    struct json_reader request = { READER->object, "", STATUS_BAD_REQUEST };
    struct error err;
    int64_t n = 1;
    double x = 1;
    assert_int_equal(json_read_int(&request, "int", 6, 9, &n, &err), STATUS_BAD_REQUEST);
    assert_string_equal(err.text, "'int' must be between 6 and 9, got 5");
    assert_int_equal(json_read_int(&request, "int", 0, 4, &n, &err), STATUS_BAD_REQUEST);
    assert_int_equal(json_read_double(&request, "real", 0, 2, &x, &err), STATUS_BAD_REQUEST);
    assert_string_equal(err.text, "'real' must be between 0 and 2, got 2.5");
    assert_int_equal(json_read_double(&request, "real", 3, 4, &x, &err), STATUS_BAD_REQUEST);
    assert_true(n == 1 && x == 1);
}

/* Write len bytes to a fresh file; its path. */
static const char *file_of(const char *bytes, size_t len)
{
    static char path[64];
    snprintf(path, sizeof path, "/tmp/test_json_read.XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, len), (ssize_t)len);
    close(fd);
    return path;
}

static void a_file_is_read_whole_or_refused_with_the_place(void **state)
{
    (void)state;
    json_t *value = NULL;
    struct error err;
    const char *path = file_of("{\"a\": 1}", 8);
    assert_int_equal(json_read_file(path, 8, STATUS_BAD_MODEL, &value, &err), STATUS_OK);
    assert_int_equal(json_integer_value(json_object_get(value, "a")), 1);
    json_decref(value);
    assert_int_equal(json_read_file(path, 7, STATUS_BAD_MODEL, &value, &err), STATUS_BAD_MODEL);
    assert_non_null(strstr(err.text, "larger than 7 bytes"));
    unlink(path);
    assert_int_equal(json_read_file(path, 7, STATUS_BAD_MODEL, &value, &err), STATUS_IO);
    assert_non_null(strstr(err.text, path));

    path = file_of("\"a\\u0000b\"", 10);
    assert_int_equal(json_read_file(path, 10, STATUS_BAD_MODEL, &value, &err), STATUS_BAD_MODEL);
    unlink(path);
    path = file_of("[\"a\\u0000b\"]", 12);
    assert_int_equal(json_read_file(path, 12, STATUS_BAD_MODEL, &value, &err), STATUS_OK);
    assert_int_equal(json_string_length(json_array_get(value, 0)), 3);
    json_decref(value);
    unlink(path);

    static const char *const broken[] = {
        "", "{", "{\"a\": }", "[1,\n2,\n]", "{\"a\": 1} x", "{\"a\": \"\xff\"}", "nan",
    };
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        path = file_of(broken[i], strlen(broken[i]));
        assert_int_equal(json_read_file(path, 100, STATUS_BAD_MODEL, &value, &err), STATUS_BAD_MODEL);
        assert_non_null(strstr(err.text, "is not valid JSON: line"));
        unlink(path);
    }
}

static void nesting_too_deep_is_refused_not_overflowed(void **state)
{
    (void)state;
    enum { depth = 1000000 };
    char *deep = malloc(depth);
    assert_non_null(deep);
    memset(deep, '[', depth);
    const char *path = file_of(deep, depth);
    json_t *value = NULL;
    assert_int_equal(json_read_file(path, 2 * depth, STATUS_BAD_MODEL, &value, NULL), STATUS_BAD_MODEL);
    unlink(path);
    free(deep);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(missing_and_null_fields_leave_the_value_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(fields_of_the_right_type_are_taken, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_other_type_is_refused_by_name, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_value_out_of_range_is_refused_with_the_range, set_up, tear_down),
        cmocka_unit_test(a_file_is_read_whole_or_refused_with_the_place),
        cmocka_unit_test(nesting_too_deep_is_refused_not_overflowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
