/* test_embedded - the demo model linked into the program is, byte for byte, the folder it was built from. */
#include "base/file.h"
#include "model/embedded.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#define DEMO "models/demo-mlra-4"

static const char *const names[] = {
    "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "generation_config.json",
};

static void every_file_of_the_demo_folder_is_embedded_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[128];
        snprintf(path, sizeof path, DEMO "/%s", names[i]);
        size_t len = 12345;
        const unsigned char *bytes = embedded_file(names[i], &len);
        if (!file_exists(path)) {
            assert_null(bytes);
            assert_int_equal(len, 12345);
            continue;
        }
        struct buf want;
        buf_init(&want, (size_t)1 << 30);
        assert_int_equal(file_read(path, &want, NULL), STATUS_OK);
        assert_non_null(bytes);
        assert_int_equal(len, want.len);
        assert_memory_equal(bytes, want.data, want.len);
        assert_int_equal(bytes[len], 0);
        assert_int_equal((uintptr_t)bytes % 64, 0);
        buf_clear(&want);
    }
}

static void the_count_is_that_of_the_files(void **state)
{
    (void)state;
    size_t known = 0, len;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        known += embedded_file(names[i], &len) != NULL;
    known += embedded_file("chat_template.jinja", &len) != NULL;
    known += embedded_file("index.html", &len) != NULL;
    assert_int_equal(embedded_count(), known);
}

static void another_name_is_not_found(void **state)
{
    (void)state;
    size_t len = 1;
    assert_null(embedded_file("config.jso", &len));
    assert_null(embedded_file("", &len));
    assert_null(embedded_file("../config.json", &len));
    assert_int_equal(len, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_file_of_the_demo_folder_is_embedded_whole),
        cmocka_unit_test(the_count_is_that_of_the_files),
        cmocka_unit_test(another_name_is_not_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
