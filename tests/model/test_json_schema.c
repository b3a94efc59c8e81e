/* test_json_schema - walks write only what an independent validator accepts; listed documents are decided. */
#include "base/rng.h"
#include "model/grammar.h"
#include "tests/model/schema_cases.h"
#include "tests/model/schema_validator.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- vocabulary: every byte, some longer tokens, an end token ---- */

static const char *const long_tokens[] = {
    "{\"",   "\":",  "\": ",         "\",",          "\", \"", "\"}",   "},",     "}]",   "[{", "true",
    "false", "null", "\n  ",         "\n    ",       ": ",     ", ",    "12",     "00",   "-1", ".5",
    "e+",    "abc",  "\xe2\x82\xac", "\xf0\x9f\x98", "\\\"",   "\\u00", "2024-0", "ab\"", "[]", "{}",
};
enum {
    N_LONG = sizeof long_tokens / sizeof long_tokens[0],
    END = 256 + N_LONG,
    VOCAB = END + 1,
    MAX_DOC = 20000
};

struct vocabulary {
    char bytes[256];
    struct token_trie *trie;
};

static size_t bytes_of(void *context, int32_t token, const char **bytes)
{
    struct vocabulary *v = context;
    *bytes = token < 256 ? &v->bytes[token] : token < END ? long_tokens[token - 256] : "";
    return token < 256 ? 1 : strlen(*bytes);
}

static int set_up(void **state)
{
    struct vocabulary *v = calloc(1, sizeof *v);
    for (int i = 0; i < 256; i++)
        v->bytes[i] = (char)i;
    struct token_trie_source source = { .vocab = VOCAB, .bytes_of = bytes_of, .context = v };
    assert_int_equal(token_trie_create(&v->trie, &source, NULL), STATUS_OK);
    *state = v;
    return 0;
}

static int tear_down(void **state)
{
    struct vocabulary *v = *state;
    token_trie_destroy(v->trie);
    free(v);
    return 0;
}

static enum status compile(struct vocabulary *v, enum grammar_kind kind, const char *text, size_t len,
                           struct grammar **out, struct error *err)
{
    static const int32_t end = END;
    struct grammar_options options = {
        .kind = kind, .text = text, .len = len, .trie = v->trie, .end_tokens = &end, .n_end_tokens = 1,
        .n_cursors = 1, .limits = GRAMMAR_LIMITS_DEFAULT,
    };
    return grammar_create(out, &options, err);
}

/* 1: the text is let through, byte for byte, and may end there. */
static int accepts(struct grammar *g, const char *text)
{
    grammar_start(g, 0);
    for (; *text != '\0'; text++)
        if (grammar_advance(g, 0, (unsigned char)*text, NULL) != STATUS_OK)
            return 0;
    return grammar_is_accepting(g, 0);
}

/* ---- random walks ---- */

static int is_closing(int32_t token)
{
    return token == '"' || token == ']' || token == '}' || token == END;
}

/* Follow random allowed tokens to the end; the more have been taken, the rather
 * those that close something.  0: the text became too long. */
static int walk(struct grammar *g, struct rng *rng, char *doc)
{
    size_t len = 0;
    grammar_start(g, 0);
    for (int steps = 0; len + 16 < MAX_DOC; steps++) {
        const uint64_t *mask;
        assert_int_equal(grammar_mask(g, 0, &mask, NULL), STATUS_OK);
        int32_t allowed[VOCAB], closing[VOCAB];
        int n = 0, n_closing = 0;
        for (int32_t t = 0; t < VOCAB; t++)
            if (mask[t / 64] >> (t % 64) & 1) {
                allowed[n++] = t;
                if (is_closing(t))
                    closing[n_closing++] = t;
            }
        if (n == 0)
            fail_msg("a dead end after %.*s", (int)len, doc);
        int close = n_closing > 0 && rng_below(rng, 300) < (uint64_t)(steps + 20);
        int32_t token =
            close ? closing[rng_below(rng, (uint64_t)n_closing)] : allowed[rng_below(rng, (uint64_t)n)];
        assert_int_equal(grammar_advance(g, 0, token, NULL), STATUS_OK);
        if (token == END) {
            doc[len] = '\0';
            return 1;
        }
        const char *bytes = token < 256 ? NULL : long_tokens[token - 256];
        if (bytes == NULL)
            doc[len++] = (char)token;
        else
            len = (size_t)(stpcpy(doc + len, bytes) - doc);
    }
    return 0;
}

static int walk_and_validate(struct vocabulary *v, const char *schema_text, int n_walks, struct rng *rng)
{
    struct grammar *g;
    struct error err;
    static char doc[MAX_DOC];
    int n_done = 0;
    if (compile(v, GRAMMAR_JSON_SCHEMA, schema_text, strlen(schema_text), &g, &err) != STATUS_OK)
        fail_msg("%s: %s", schema_text, err.text);
    json_t *schema = json_loads(schema_text, JSON_DECODE_ANY, NULL);
    for (int i = 0; i < n_walks; i++) {
        json_error_t where;
        if (!walk(g, rng, doc))
            continue;
        n_done++;
        json_t *value = json_loads(doc, JSON_DECODE_ANY, &where);
        if (value == NULL)
            fail_msg("not JSON: %s\n%s\n%s", where.text, doc, schema_text);
        if (!validates(schema, schema, value))
            fail_msg("does not fit: %s\n%s", doc, schema_text);
        json_decref(value);
    }
    json_decref(schema);
    grammar_destroy(g);
    return n_done;
}

static void listed_documents_are_decided_rightly(void **state)
{
    for (size_t i = 0; i < sizeof schema_cases / sizeof schema_cases[0]; i++) {
        struct grammar *g;
        struct error err;
        json_t *schema = json_loads(schema_cases[i].schema, JSON_DECODE_ANY, NULL);
        assert_non_null(schema);
        const char *text = schema_cases[i].schema;
        if (compile(*state, GRAMMAR_JSON_SCHEMA, text, strlen(text), &g, &err) != STATUS_OK)
            fail_msg("%s: %s", text, err.text);
        for (int k = 0; k < 8 && schema_cases[i].good[k] != NULL; k++) {
            json_t *value = json_loads(schema_cases[i].good[k], JSON_DECODE_ANY, NULL);
            assert_non_null(value);
            if (!validates(schema, schema, value))      /* the list and the validator agree */
                fail_msg("the validator refuses %s for %s", schema_cases[i].good[k], schema_cases[i].schema);
            json_decref(value);
            if (!accepts(g, schema_cases[i].good[k]))
                fail_msg("%s is refused by %s", schema_cases[i].good[k], schema_cases[i].schema);
        }
        for (int k = 0; k < 8 && schema_cases[i].bad[k] != NULL; k++)
            if (accepts(g, schema_cases[i].bad[k]))
                fail_msg("%s is accepted by %s", schema_cases[i].bad[k], schema_cases[i].schema);
        grammar_destroy(g);
        json_decref(schema);
    }
}

static void random_walks_through_the_listed_schemas_validate(void **state)
{
    struct rng rng;
    rng_seed(&rng, 1);
    int n_done = 0, n_cases = sizeof schema_cases / sizeof schema_cases[0];
    for (int i = 0; i < n_cases; i++)
        n_done += walk_and_validate(*state, schema_cases[i].schema, 60, &rng);
    assert_true(n_done > n_cases * 50);
}

/* ---- random schemas ---- */

static json_t *random_schema(struct rng *rng, int depth);

static json_t *random_scalar(struct rng *rng)
{
    int lo = (int)rng_below(rng, 2000) - 1000, hi = lo + (int)rng_below(rng, 1200);
    int min = (int)rng_below(rng, 5), max = min + (int)rng_below(rng, 5);
    switch (rng_below(rng, 11)) {
    case 0: return json_pack("{s:s, s:i, s:i}", "type", "integer", "minimum", lo, "maximum", hi);
    case 1: return json_pack("{s:s, s:i, s:i}", "type", "number", "exclusiveMinimum", lo, "maximum", hi + 1);
    case 2: return json_pack("{s:s, s:i, s:i}", "type", "string", "minLength", min, "maxLength", max);
    case 3: return json_pack("{s:s, s:s}", "type", "string", "pattern", "^(?:[a-c\\\\]{1,3}|\\w\\n.)$");
    case 4: return json_pack("{s:[s, i, n, b]}", "enum", "v\xc3\xa4\\", lo, 1);
    case 5: return json_pack("{s:s, s:s}", "type", "string", "format", "date");
    case 6: return json_pack("{s:[s, s]}", "type", "boolean", "null");
    case 7: return json_pack("{s:i}", "const", hi);
    case 8: return json_pack("{s:s, s:i}", "type", "integer", "exclusiveMaximum", hi);
    case 9: return json_pack("{s:s}", "$ref", "#/$defs/shared");
    default: return json_pack("{s:s}", "type", "number");
    }
}

static json_t *random_object(struct rng *rng, int depth)
{
    static const char *const names[] = { "a", "ab", "abc", "b", "\xc3\xa4", "q\"\\", "" };
    json_t *properties = json_object(), *required = json_array();
    for (int n = (int)rng_below(rng, 5); n > 0; n--) {
        const char *name = names[rng_below(rng, sizeof names / sizeof names[0])];
        json_object_set_new(properties, name, random_schema(rng, depth - 1));
        if (rng_below(rng, 2) == 0)
            json_array_append_new(required, json_string(name));
    }
    json_t *schema =
        json_pack("{s:s, s:o, s:o}", "type", "object", "properties", properties, "required", required);
    if (rng_below(rng, 2) == 0)
        json_object_set_new(schema, "additionalProperties",
                            rng_below(rng, 2) == 0 ? json_boolean(rng_below(rng, 2)) : random_scalar(rng));
    return schema;
}

static json_t *random_array(struct rng *rng, int depth)
{
    json_t *schema = json_pack("{s:s, s:o}", "type", "array", "items", random_schema(rng, depth - 1));
    int min = (int)rng_below(rng, 4);
    if (rng_below(rng, 2) == 0)
        json_object_set_new(schema, "minItems", json_integer(min));
    if (rng_below(rng, 2) == 0)
        json_object_set_new(schema, "maxItems", json_integer(min + (int)rng_below(rng, 4)));
    if (rng_below(rng, 3) == 0)
        json_object_set_new(schema, "prefixItems",
                            json_pack("[o, o]", random_scalar(rng), random_schema(rng, depth - 1)));
    return schema;
}

static json_t *random_schema(struct rng *rng, int depth)
{
    if (depth == 0)
        return random_scalar(rng);
    switch (rng_below(rng, 6)) {
    case 0:
    case 1: return random_object(rng, depth);
    case 2: return random_array(rng, depth);
    case 3:
        return json_pack("{s:[o, o]}", "anyOf", random_schema(rng, depth - 1),
                         random_schema(rng, depth - 1));
    case 4: return json_pack("{s:[o], s:s}", "allOf", random_object(rng, depth), "title", "t");
    default: return random_scalar(rng);
    }
}

static void random_walks_through_random_schemas_validate(void **state)
{
    struct rng rng;
    rng_seed(&rng, 77);
    int n_done = 0, n_schemas = 400;
    for (int i = 0; i < n_schemas; i++) {
        json_t *schema = random_object(&rng, 3);
        json_t *shared =
            json_pack("{s:o}", "shared", json_pack("{s:s, s:i}", "type", "string", "maxLength", 2));
        json_object_set_new(schema, "$defs", shared);
        char *text = json_dumps(schema, 0);
        n_done += walk_and_validate(*state, text, 4, &rng);
        free(text);
        json_decref(schema);
    }
    assert_true(n_done > n_schemas * 3);
}

static void any_json_object_is_one(void **state)
{
    struct grammar *g;
    struct rng rng;
    rng_seed(&rng, 5);
    static char doc[MAX_DOC];
    assert_int_equal(compile(*state, GRAMMAR_JSON_OBJECT, NULL, 0, &g, NULL), STATUS_OK);
    int n_done = 0;
    for (int i = 0; i < 200; i++) {
        if (!walk(g, &rng, doc))
            continue;
        json_t *value = json_loads(doc, 0, NULL);
        if (!json_is_object(value))
            fail_msg("not a JSON object: %s", doc);
        json_decref(value);
        n_done++;
    }
    assert_true(n_done > 150);
    assert_true(accepts(g, "{\"a\": [1, {\"b\": \"\\u20ac\"}, true], \"\": -0.5e3}"));
    static const char *const bad[] = { "",           "[]",     "{\"a\"}",     "{a:1}",
                                       "{\"a\":1}}", " {}",    "{}\n",        "{\"a\":\t1}",
                                       "{'a':1}",    "{\n\n}", "{\"a\":NaN}", "{\"a\":1,}" };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(accepts(g, bad[i]));
    grammar_destroy(g);
}

/* ---- refusals and limits ---- */

static void what_is_not_supported_is_named(void **state)
{
    static const struct { const char *schema, *named;
    } rows[] = {
        { "{\"not\":{}}", "'not'" },
        { "{\"if\":{}}", "'if'" },
        { "{\"patternProperties\":{}}", "'patternProperties'" },
        { "{\"type\":\"integer\",\"multipleOf\":2}", "'multipleOf'" },
        { "{\"contains\":{}}", "'contains'" },
        { "{\"type\":\"array\",\"uniqueItems\":true}", "'uniqueItems'" },
        { "{\"propertyNames\":{}}", "'propertyNames'" },
        { "{\"nullable\":true}", "'nullable'" },
        { "{\"typo\":1}", "'typo'" },
        { "{\"type\":\"text\"}", "'type'" },
        { "{\"type\":3}", "'type'" },
        { "{\"type\":\"string\",\"format\":\"color\"}", "'color'" },
        { "{\"type\":\"string\",\"pattern\":\"(?=a)\"}", "(?" },
        { "{\"type\":\"string\",\"pattern\":\"a\",\"minLength\":2}", "together" },
        { "{\"type\":\"number\",\"minimum\":0.5}", "'minimum'" },
        { "{\"type\":\"integer\",\"minimum\":\"1\"}", "'minimum'" },
        { "{\"type\":\"string\",\"maxLength\":-1}", "'maxLength'" },
        { "{\"type\":\"string\",\"maxLength\":1.5}", "'maxLength'" },
        { "{\"$ref\":\"other.json\"}", "'$ref'" },
        { "{\"$ref\":\"#/$defs/none\"}", "leads nowhere" },
        { "{\"$ref\":\"#\"}", "refers to itself" },
        { "{\"anyOf\":[{\"$ref\":\"#\"},{\"type\":\"null\"}]}", "refers to itself" },
        { "{\"anyOf\":[]}", "'anyOf'" },
        { "{\"anyOf\":[true],\"oneOf\":[true]}", "'anyOf' together" },
        { "{\"enum\":[1],\"minimum\":0}", "'enum'" },
        { "{\"enum\":3}", "'enum'" },
        { "{\"type\":\"string\",\"enum\":[1]}", "no finite text" },
        { "{\"type\":\"object\",\"properties\":{\"n\":{\"$ref\":\"#\"}},\"required\":[\"n\"]}",
          "no finite text" },
        { "false", "no finite text" },
        { "{\"type\":\"integer\",\"minimum\":3,\"maximum\":2}", "no finite text" },
        { "{\"type\":\"array\",\"minItems\":3,\"maxItems\":2}", "no finite text" },
        { "{\"allOf\":[{\"pattern\":\"a\"},{\"pattern\":\"b\"}]}", "'pattern'" },
        { "{\"allOf\":3}", "'allOf'" },
        { "{\"allOf\":[{\"properties\":{\"a\":true},\"additionalProperties\":false},{\"properties\":{\"b\":"
          "true}}]}",
          "'additionalProperties'" },
        { "{\"properties\":[]}", "'properties'" },
        { "{\"required\":\"a\"}", "'required'" },
        { "{\"required\":[1]}", "'required'" },
        { "{\"properties\":{\"a\":true},\"minProperties\":1}", "'minProperties'" },
        { "{\"minProperties\":2}", "'minProperties'" },
        { "{\"items\":3}", "must be an object, true or false" },
        { "3", "must be an object, true or false" },
        { "{\"type\":\"string\"", "not valid JSON" },
        { "", "not valid JSON" },
        { "{\"required\":[\"a\"],\"additionalProperties\":false}", "no finite text" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct grammar *g = NULL;
        struct error err;
        enum status status =
            compile(*state, GRAMMAR_JSON_SCHEMA, rows[i].schema, strlen(rows[i].schema), &g, &err);
        if (status != STATUS_BAD_REQUEST || strstr(err.text, rows[i].named) == NULL)
            fail_msg("%s: %s", rows[i].schema, status == STATUS_OK ? "accepted" : err.text);
    }
}

/* prefix, n times what repeats, middle, n times its end. */
static char *repeat(const char *begin, const char *middle, const char *end, int n)
{
    size_t a = strlen(begin), b = strlen(middle), c = strlen(end), count = (size_t)n;
    char *text = malloc(count * (a + c) + b + 1), *at = text;
    for (int i = 0; i < n; i++)
        at = stpcpy(at, begin);
    at = stpcpy(at, middle);
    for (int i = 0; i < n; i++)
        at = stpcpy(at, end);
    return text;
}

static void limits_of_depth_and_size_hold(void **state)
{
    static const struct { const char *begin, *middle, *end; int n; enum status want;
    } rows[] = {
        { "{\"items\":", "true", "}", 3000, STATUS_BAD_REQUEST }, /* the JSON reader itself refuses */
        { "{\"items\":", "true", "}", 10000, STATUS_TOO_LARGE },
        { "{\"type\":\"array\",\"items\":", "true", "}", 1000, STATUS_BAD_REQUEST },
        { "{\"type\":\"array\",\"items\":", "true", "}", 25, STATUS_OK },
        { "{\"anyOf\":[", "true", ",{\"type\":\"null\"}]}", 63, STATUS_OK },
        { "{\"anyOf\":[", "true", ",{\"type\":\"null\"}]}", 70, STATUS_BAD_REQUEST },
        /* Every level doubles what merging makes. */
        { "{\"minimum\":1,\"anyOf\":[{\"maximum\":5},", "{\"maximum\":4}", "]}", 40, STATUS_OK },
        { "{\"allOf\":[", "{\"type\":\"null\"}", ",true]}", 70, STATUS_BAD_REQUEST },
        { "", "{\"type\":\"string\",\"minLength\":1000000000}", "", 1, STATUS_TOO_LARGE },
        { "", "{\"type\":\"string\",\"maxLength\":1000000000}", "", 1, STATUS_TOO_LARGE },
        { "", "{\"type\":\"string\",\"maxLength\":4000}", "", 1, STATUS_OK },
        { "", "{\"type\":\"array\",\"maxItems\":1000000000}", "", 1, STATUS_TOO_LARGE },
        { "", "{\"type\":\"array\",\"minItems\":1000000000}", "", 1, STATUS_TOO_LARGE },
        { "", "{\"type\":\"object\",\"maxProperties\":1000000000}", "", 1, STATUS_TOO_LARGE },
        { "", "{\"type\":\"array\",\"prefixItems\":[true],\"items\":true,\"maxItems\":1000000000}", "", 1,
          STATUS_TOO_LARGE },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct grammar *g = NULL;
        struct error err;
        char *text = repeat(rows[i].begin, rows[i].middle, rows[i].end, rows[i].n);
        enum status status = compile(*state, GRAMMAR_JSON_SCHEMA, text, strlen(text), &g, &err);
        if (status != rows[i].want)
            fail_msg("row %zu: %s", i, status == STATUS_OK ? "accepted" : err.text);
        grammar_destroy(g);
        free(text);
    }
}

static void too_many_of_anything_is_refused(void **state)
{
    struct grammar *g = NULL;
    struct error err;
    json_t *properties = json_object();
    for (int i = 0; i < 1025; i++) {
        char name[20];
        snprintf(name, sizeof name, "p%d", i);
        json_object_set_new(properties, name, json_true());
    }
    json_t *many = json_pack("{s:o}", "properties", properties);
    char *text = json_dumps(many, 0);
    assert_int_equal(compile(*state, GRAMMAR_JSON_SCHEMA, text, strlen(text), &g, &err), STATUS_TOO_LARGE);
    assert_non_null(strstr(err.text, "1024 properties"));
    free(text);
    json_decref(many);
    /* Sixteen choices inside each other, each twice: 65536 combinations. */
    json_t *joined = json_pack("{s:i}", "minimum", 0);
    for (int i = 0; i < 16; i++)
        joined = json_pack("{s:[O, o], s:i}", "anyOf", joined, joined, "maximum", 100 + i);
    text = json_dumps(joined, JSON_COMPACT);
    assert_non_null(text);
    assert_int_equal(compile(*state, GRAMMAR_JSON_SCHEMA, text, strlen(text), &g, &err), STATUS_TOO_LARGE);
    free(text);
    json_decref(joined);
    /* A thousand branches that each join a thousand properties. */
    json_t *wide = json_object(), *side = json_array();
    for (int i = 0; i < 1000; i++) {
        char name[20];
        snprintf(name, sizeof name, "p%d", i);
        json_object_set_new(wide, name, json_object());
        json_array_append_new(side, json_pack("{s:{s:b}}", "properties", "a", 1));
    }
    json_t *crossed = json_pack("{s:o, s:o}", "properties", wide, "anyOf", side);
    text = json_dumps(crossed, JSON_COMPACT);
    assert_true(strlen(text) < 65536);
    assert_int_equal(compile(*state, GRAMMAR_JSON_SCHEMA, text, strlen(text), &g, &err), STATUS_TOO_LARGE);
    free(text);
    json_decref(crossed);
    char *name = repeat("a", "", "", 600);
    json_t *long_name = json_pack("{s:{s:b}}", "properties", name, 1);
    text = json_dumps(long_name, 0);
    assert_int_equal(compile(*state, GRAMMAR_JSON_SCHEMA, text, strlen(text), &g, &err), STATUS_TOO_LARGE);
    free(text);
    free(name);
    json_decref(long_name);
}

static void nesting_stops_in_time_to_be_closed(void **state)
{
    struct grammar *g;
    assert_int_equal(compile(*state, GRAMMAR_JSON_OBJECT, NULL, 0, &g, NULL), STATUS_OK);
    grammar_start(g, 0);
    int depth = 0;
    const char *open = "{\"\":";
    while (grammar_advance(g, 0, open[depth % 4], NULL) == STATUS_OK)
        depth++;
    assert_true(depth > 4 * 20 && depth < 4 * 64);
    struct rng rng;
    rng_seed(&rng, 3);
    /* Whatever follows now, it can be finished: the walk finds no dead end. */
    for (int steps = 0; !grammar_is_finished(g, 0); steps++) {
        const uint64_t *mask;
        assert_int_equal(grammar_mask(g, 0, &mask, NULL), STATUS_OK);
        int32_t token = -1;
        for (int32_t t = 0; t < END; t++)
            if ((mask[t / 64] >> (t % 64) & 1) && (token < 0 || t == '}' || t == ']' || t == '"'))
                token = t;
        assert_true(token >= 0 && steps < 100000);
        assert_int_equal(grammar_advance(g, 0, token, NULL), STATUS_OK);
    }
    grammar_destroy(g);
}

#define WITH_VOCABULARY(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_VOCABULARY(listed_documents_are_decided_rightly),
        WITH_VOCABULARY(random_walks_through_the_listed_schemas_validate),
        WITH_VOCABULARY(random_walks_through_random_schemas_validate),
        WITH_VOCABULARY(any_json_object_is_one),
        WITH_VOCABULARY(what_is_not_supported_is_named),
        WITH_VOCABULARY(limits_of_depth_and_size_hold),
        WITH_VOCABULARY(too_many_of_anything_is_refused),
        WITH_VOCABULARY(nesting_stops_in_time_to_be_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
