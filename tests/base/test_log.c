/* test_log - one line per event, whatever strangers put into it. */
#include "base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What write_lines wrote to stderr; the caller frees it. */
static char *capture(void (*write_lines)(void))
{
    FILE *file = tmpfile();
    assert_non_null(file);
    fflush(stderr);
    int saved = dup(STDERR_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    write_lines();
    dup2(saved, STDERR_FILENO);
    close(saved);
    long len = lseek(fileno(file), 0, SEEK_END);
    char *text = calloc(1, (size_t)len + 1);
    assert_non_null(text);
    assert_int_equal(pread(fileno(file), text, (size_t)len, 0), len);
    fclose(file);
    return text;
}

static int count_lines(const char *text)
{
    int n = 0;
    for (; *text != '\0'; text++)
        n += *text == '\n';
    return n;
}

static void write_a_plain_event(void)
{
    log_info("model loaded dir=%s tensors=%d", "models/demo", 63);
}

static void an_event_has_the_time_the_level_and_the_text(void **state)
{
    (void)state;
    char *text = capture(write_a_plain_event);
    int year, month, day, hour, minute, second, used = 0;
    int n = sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2dZ %n", &year, &month, &day, &hour, &minute, &second, &used);
    assert_int_equal(n, 6);
    assert_true(year >= 2024 && month <= 12 && day <= 31 && hour < 24 && minute < 60 && second <= 60);
    assert_string_equal(text + used, "info  model loaded dir=models/demo tensors=63\n");
    free(text);
}

static void write_at_every_level(void)
{
    log_debug("d");
    log_info("i");
    log_warn("w");
    log_error("e");
}

static void only_events_of_the_level_and_above_are_written(void **state)
{
    (void)state;
    assert_int_equal(log_level(), LOG_INFO);
    static const struct { enum log_level level; int n_lines; } cases[] = {
        { LOG_DEBUG, 4 }, { LOG_INFO, 3 }, { LOG_WARN, 2 }, { LOG_ERROR, 1 }, { LOG_NONE, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        log_set_level(cases[i].level);
        char *text = capture(write_at_every_level);
        assert_int_equal(count_lines(text), cases[i].n_lines);
        assert_int_equal(log_level(), cases[i].level);
        free(text);
    }
    log_set_level(LOG_INFO);
}

static void write_every_byte(void)
{
    char bytes[256];
    for (int i = 1; i < 256; i++)
        bytes[i - 1] = (char)i;
    bytes[255] = '\0';
    log_info("<%s>", bytes);
}

static void control_bytes_are_escaped_and_text_is_left_alone(void **state)
{
    (void)state;
    char *text = capture(write_every_byte);
    assert_int_equal(count_lines(text), 1);
    const char *at = strchr(text, '<') + 1;
    for (int i = 1; i < 256; i++) {
        char want[8];
        int is_control = i < 0x20 || i == 0x7f;
        size_t n = (size_t)snprintf(want, sizeof want, is_control ? "\\x%02x" : "%c", i);
        assert_memory_equal(at, want, n);
        at += n;
    }
    assert_string_equal(at, ">\n");
    free(text);
}

static void write_a_forged_line(void)
{
    log_warn("path=%s", "/x\n2026-01-01T00:00:00Z error forged");
}

static void a_newline_in_the_text_cannot_forge_an_event(void **state)
{
    (void)state;
    char *text = capture(write_a_forged_line);
    assert_int_equal(count_lines(text), 1);
    assert_non_null(strstr(text, "/x\\x0a2026"));
    free(text);
}

static void write_a_long_event(void)
{
    static char long_text[10000];
    memset(long_text, '\n', sizeof long_text - 1);
    log_info("%s", long_text);
}

static void a_long_event_is_cut_to_one_bounded_line(void **state)
{
    (void)state;
    char *text = capture(write_a_long_event);
    assert_int_equal(count_lines(text), 1);
    assert_true(strlen(text) < 4200);
    assert_int_equal(text[strlen(text) - 1], '\n');
    free(text);
}

static void *write_many(void *context)
{
    for (int i = 0; i < 500; i++)
        log_info("thread=%s number=%d", (const char *)context, i);
    return NULL;
}

static void write_from_four_threads(void)
{
    static const char *const names[] = { "aaaaaaaa", "bbbbbbbb", "cccccccc", "dddddddd" };
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_many, (void *)names[i]), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

static void lines_of_several_threads_do_not_mix(void **state)
{
    (void)state;
    char *text = capture(write_from_four_threads);
    int n = 0;
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"), n++) {
        char name[16], rest;
        int number;
        assert_int_equal(sscanf(line + 21, "info  thread=%8[a-d] number=%d%c", name, &number, &rest), 2);
        assert_int_equal(strspn(name, (char[]){ name[0], '\0' }), 8);
    }
    assert_int_equal(n, 2000);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_event_has_the_time_the_level_and_the_text),
        cmocka_unit_test(only_events_of_the_level_and_above_are_written),
        cmocka_unit_test(control_bytes_are_escaped_and_text_is_left_alone),
        cmocka_unit_test(a_newline_in_the_text_cannot_forge_an_event),
        cmocka_unit_test(a_long_event_is_cut_to_one_bounded_line),
        cmocka_unit_test(lines_of_several_threads_do_not_mix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
