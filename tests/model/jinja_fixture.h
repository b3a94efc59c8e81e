/* jinja_fixture.h - compiling and rendering one template against what it should print. */
#ifndef TESTS_JINJA_FIXTURE_H
#define TESTS_JINJA_FIXTURE_H

#include "model/jinja.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#define FIXED_NOW 1767225600    /* 2026-01-01 00:00 UTC */

struct row {
    const char *template, *context;
    const char *expected;       /* printed by jinja2 3.1.6 as transformers sets it up */
};

static inline struct jinja_options test_options(void)
{
    struct jinja_options options = jinja_default_options();
    options.now = FIXED_NOW;
    return options;
}

/* Compile and render; text is set up here and belongs to the caller. */
static inline enum status run(const char *source, const char *context, const struct jinja_options *options,
                              struct buf *text, struct error *err)
{
    struct jinja_template *template = NULL;
    json_t *variables = json_loads(context, 0, NULL);
    assert_non_null(variables);
    buf_init(text, 64u << 20);
    enum status status = jinja_compile(&template, source, strlen(source), err);
    if (status == STATUS_OK)
        status = jinja_render(template, variables, options, text, err);
    jinja_destroy(template);
    json_decref(variables);
    return status;
}

static inline void check_rows(const struct row *rows, size_t n)
{
    const struct jinja_options options = test_options();
    for (size_t i = 0; i < n; i++) {
        struct error err = { 0 };
        struct buf text;
        if (run(rows[i].template, rows[i].context, &options, &text, &err) != STATUS_OK)
            fail_msg("%s\n  fails: %s", rows[i].template, err.text);
        const char *got = text.data == NULL ? "" : text.data;
        if (strcmp(got, rows[i].expected) != 0)
            fail_msg("%s\n  expected %s\n  got      %s", rows[i].template, rows[i].expected, got);
        buf_clear(&text);
    }
}

#endif
