#define PCRE2_CODE_UNIT_WIDTH 8

#include "model/pattern.h"

#include "base/json_read.h"
#include "model/pattern_syntax.h"

#include <pcre2.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MAX_REGEX_BYTES 65536
#define MAX_STEPS       20000000u   /* of one search: about a second */
#define MAX_STACK_BYTES ((size_t)256 << 20)         /* of one search; taken page by page */

struct pattern {
    pcre2_code *code;
};

struct pattern_scratch {
    pcre2_match_data *data;
    pcre2_match_context *limits;
    pcre2_jit_stack *stack;         /* made when a search has needed it, or NULL */
};

static enum status compile(struct pattern **out, const char *text, size_t len, uint32_t options,
                           const char *where, struct error *err)
{
    struct pattern *p = calloc(1, sizeof *p);
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (p == NULL || context == NULL) {
        free(p);
        pcre2_compile_context_free(context);
        return fail(err, STATUS_NO_MEMORY, "no memory for a pattern");
    }
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    int code;
    PCRE2_SIZE place;
    p->code = pcre2_compile((PCRE2_SPTR)text, len, options | PCRE2_UTF,
                            &code, &place, context);
    pcre2_compile_context_free(context);
    if (p->code == NULL) {
        PCRE2_UCHAR reason[128] = { 0 };
        pcre2_get_error_message(code, reason, sizeof reason);
        free(p);
        return fail(err, STATUS_BAD_MODEL, "%.100s: pattern '%.60s' is not valid at byte %zu: %s",
                    where, text, place, (const char *)reason);
    }
    /* A build of PCRE2 without machine code, or a pattern it refuses, still works. */
    pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE);
    *out = p;
    return STATUS_OK;
}

enum status pattern_create(struct pattern **out, const char *regex, size_t len, const char *where,
                           struct error *err)
{
    if (len > MAX_REGEX_BYTES)
        return fail(err, STATUS_BAD_MODEL, "%.150s: a pattern has %zu bytes, limit %d", where, len,
                    MAX_REGEX_BYTES);
    struct buf translated;
    buf_init(&translated, 64 * MAX_REGEX_BYTES);      /* \s becomes a class */
    enum status s = pattern_syntax_translate(&translated, regex, len, where, err);
    if (s == STATUS_OK)
        s = compile(out, translated.data == NULL ? "" : translated.data, translated.len,
                    PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, where, err);
    buf_clear(&translated);
    return s;
}

enum status pattern_create_literal(struct pattern **out, const char *text, size_t len, const char *where,
                                   struct error *err)
{
    return compile(out, text, len, PCRE2_LITERAL, where, err);
}

enum status pattern_create_from_json(struct pattern **out, const json_t *spec, const char *where,
                                     struct error *err)
{
    const json_t *regex = json_object_get(spec, "Regex"), *text = json_object_get(spec, "String");
    if (json_is_string(regex))
        return pattern_create(out, json_string_value(regex), json_string_length(regex), where, err);
    if (json_is_string(text))
        return pattern_create_literal(out, json_string_value(text), json_string_length(text), where, err);
    return fail(err, STATUS_BAD_MODEL, "%.150s: a pattern must be {\"Regex\": ..} or {\"String\": ..}",
                where);
}

void pattern_destroy(struct pattern *p)
{
    if (p == NULL)
        return;
    pcre2_code_free(p->code);
    free(p);
}

enum status pattern_scratch_create(struct pattern_scratch **out, struct error *err)
{
    struct pattern_scratch *scratch = calloc(1, sizeof *scratch);
    if (scratch != NULL) {
        scratch->data = pcre2_match_data_create(1, NULL);
        scratch->limits = pcre2_match_context_create(NULL);
    }
    if (scratch == NULL || scratch->data == NULL || scratch->limits == NULL) {
        pattern_scratch_destroy(scratch);
        return fail(err, STATUS_NO_MEMORY, "no memory to search for patterns");
    }
    pcre2_set_match_limit(scratch->limits, MAX_STEPS);
    pcre2_set_heap_limit(scratch->limits, (uint32_t)(MAX_STACK_BYTES >> 10));   /* without machine code */
    *out = scratch;
    return STATUS_OK;
}

void pattern_scratch_destroy(struct pattern_scratch *scratch)
{
    if (scratch == NULL)
        return;
    pcre2_match_data_free(scratch->data);
    pcre2_match_context_free(scratch->limits);
    pcre2_jit_stack_free(scratch->stack);
    free(scratch);
}

/* Machine code starts on 32 KiB of the caller's stack.  A repeated group (Kimi's
 * class intersections) needs some bytes for each repetition. */
static int search(const struct pattern *p, struct pattern_scratch *scratch, const char *text, size_t len,
                  size_t from)
{
    PCRE2_SPTR subject = (PCRE2_SPTR)text;
    int n = pcre2_match(p->code, subject, len, from, PCRE2_NO_UTF_CHECK, scratch->data, scratch->limits);
    if (n != PCRE2_ERROR_JIT_STACKLIMIT || scratch->stack != NULL)
        return n;
    scratch->stack = pcre2_jit_stack_create(32768, MAX_STACK_BYTES, NULL);
    if (scratch->stack == NULL)
        return PCRE2_ERROR_NOMEMORY;
    pcre2_jit_stack_assign(scratch->limits, NULL, scratch->stack);
    return pcre2_match(p->code, subject, len, from, PCRE2_NO_UTF_CHECK, scratch->data, scratch->limits);
}

enum status pattern_find(const struct pattern *p, struct pattern_scratch *scratch, const char *text,
                         size_t len, size_t from, struct pattern_match *match, int *found)
{
    *found = 0;
    int n = search(p, scratch, text, len, from);
    if (n == PCRE2_ERROR_NOMATCH)
        return STATUS_OK;
    if (n == PCRE2_ERROR_NOMEMORY)
        return STATUS_NO_MEMORY;
    if (n < 0)
        return STATUS_TOO_LARGE;        /* a limit of steps or of stack */
    const PCRE2_SIZE *range = pcre2_get_ovector_pointer(scratch->data);
    /* \K in a lookahead can put the begin behind the end; such a match is none. */
    if (range[0] > range[1] || range[0] < from)
        return STATUS_OK;
    *match = (struct pattern_match){ .begin = range[0], .end = range[1] };
    *found = 1;
    return STATUS_OK;
}
