/* test_jinja_limits - templates that are wrong, or built to do harm, end in a clear error. */
#include "tests/model/jinja_fixture.h"

struct bad_row {
    const char *template, *context;
    const char *expected;       /* a part of the sentence */
};

static void check_bad_rows(const struct bad_row *rows, size_t n, enum status expected)
{
    const struct jinja_options options = test_options();
    for (size_t i = 0; i < n; i++) {
        struct error err = { 0 };
        struct buf text;
        enum status status = run(rows[i].template, rows[i].context, &options, &text, &err);
        if (status != expected || err.code != expected || strstr(err.text, rows[i].expected) == NULL)
            fail_msg("%.200s\n  expected %s: %s\n  got      %s: %s", rows[i].template, status_name(expected),
                     rows[i].expected, status_name(status), err.text);
        assert_int_equal(text.len, 0);
        buf_clear(&text);
    }
}

static void what_is_no_template_is_refused_with_its_line(void **state)
{
    static const struct bad_row rows[] = {
        { "a\n{% if x %}", "{}", "line 2: the template ends where" },
        { "{{ x", "{}", "line 1: a print is not closed" },
        { "\n\n{# x", "{}", "line 3: a comment is not closed" },
        { "{% raw %}x", "{}", "not closed by endraw" },
        { "{{ 'x }}", "{}", "not closed by its quote" },
        { "{{ }}", "{}", "expected a value" },
        { "{{ 1 + }}", "{}", "expected a value" },
        { "{{ x ? y }}", "{}", "a character that no expression has" },
        { "{{ (1 }}", "{}", "brackets do not match" },
        { "{{ 1) }}", "{}", "brackets do not match" },
        { "{% if x %}{% endfor %}", "{}", "'endfor' is no statement" },
        { "{% include 'x' %}", "{}", "'include' is no statement" },
        { "{% extends 'x' %}", "{}", "'extends' is no statement" },
        { "{% break %}", "{}", "belong into a for loop" },
        { "{% for x in y %}{% macro f() %}{% break %}{% endmacro %}{% endfor %}", "{}",
          "belong into a for loop" },
        { "{% for x in y recursive %}{% endfor %}", "{}", "recursive loops" },
        { "{% set 1 = 2 %}", "{}", "cannot be assigned to" },
        { "{% for a.b in c %}{% endfor %}", "{}", "cannot be assigned to" },
        { "{% if x %}{% else %}{% elif y %}{% endif %}", "{}", "only endif may follow else" },
        { "{% call 1 %}{% endcall %}", "{}", "needs a call" },
        { "{{ '\\ud800' }}", "{}", "malformed escape" },
        { "{{ '\\x4' }}", "{}", "malformed escape" },
        { "{{ 99999999999999999999 }}", "{}", "does not fit 64 bits" },
        { "{{ x is }}", "{}", "expected a name" },
        { "{{ x | }}", "{}", "expected a name" },
        { "{{ a. }}", "{}", "expected a name" },
        { "{{ {1} }}", "{}", "expected ':'" },
        { "{{ 1 2 }}", "{}", "expected }}" },
    };
    (void)state;
    check_bad_rows(rows, sizeof rows / sizeof rows[0], STATUS_BAD_MODEL);
}

static void mistakes_while_rendering_are_named(void **state)
{
    static const struct bad_row rows[] = {
        { "{{ raise_exception('Roles must alternate') }}", "{}", "Roles must alternate" },
        { "a\nb\n{{ x.y }}", "{}", "line 3: 'x' is undefined" },
        { "{{ d.a.b }}", "{\"d\": {}}", "'a' is undefined" },
        { "{{ d['a']['b'] }}", "{\"d\": {}}", "'a' is undefined" },
        { "{{ f() }}", "{}", "'f' is undefined and cannot be called" },
        { "{{ 'x'.nothing() }}", "{}", "'nothing' is undefined and cannot be called" },
        { "{{ 1() }}", "{}", "'int' cannot be called" },
        { "{{ 1 + 'x' }}", "{}", "+ does not go with 'int' and 'str'" },
        { "{{ 'a' + x }}", "{}", "'x' is undefined" },
        { "{{ 1 < 'x' }}", "{}", "have no order" },
        { "{{ x < 1 }}", "{}", "'x' is undefined" },
        { "{{ 1 in 2 }}", "{}", "cannot be searched" },
        { "{{ 1 in 'a' }}", "{}", "needs a string on its left" },
        { "{{ 1 / 0 }}{{ 1 % 0 }}", "{}", "division by zero" },
        { "{{ 9223372036854775807 + 1 }}", "{}", "does not fit 64 bits" },
        { "{{ 2 ** 64 }}", "{}", "does not fit 64 bits" },
        { "{% for x in 3 %}{% endfor %}", "{}", "'int' object is not iterable" },
        { "{% for a, b in [[1]] %}{% endfor %}", "{}", "1 values are assigned to 2 names" },
        { "{% set d.x = 1 %}", "{\"d\": {}}", "only a namespace" },
        { "{{ x | nofilter }}", "{}", "no filter named 'nofilter'" },
        { "{{ x is notest }}", "{}", "no test named 'notest'" },
        { "{{ x | tojson }}", "{}", "cannot be written as JSON" },
        { "{{ 'a' | replace('b') }}", "{}", "needs the argument 'new'" },
        { "{{ 'a' | upper(1) }}", "{}", "takes 0 arguments" },
        { "{{ 'a' | trim(what=1) }}", "{}", "has no parameter 'what'" },
        { "{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}", "{}", "takes 1 arguments, 2 were given" },
        { "{% macro f(a) %}{% endmacro %}{{ f(b=2) }}", "{}", "has no parameter 'b'" },
        { "{% macro f(a) %}{% endmacro %}{{ f(1, a=2) }}", "{}", "two values for 'a'" },
        { "{{ {[1]: 2} }}", "{}", "unhashable type: 'list'" },
        { "{{ [1][::0] }}", "{}", "step of a slice is zero" },
        { "{{ none[1:] }}", "{}", "has no slices" },
        { "{{ ''.split('') }}", "{}", "separator of split() is empty" },
        { "{{ [].pop() }}", "{}", "pop() from a place" },
        { "{{ (1, 2).append(3) }}", "{}", "a tuple cannot be changed" },
        { "{{ range(3, 4, 0) }}", "{}", "step of range() is zero" },
        { "{{ '{' | string }}{{ '{x}'.format(1) }}", "{}", "no value for the field" },
    };
    (void)state;
    check_bad_rows(rows, sizeof rows / sizeof rows[0], STATUS_BAD_REQUEST);
}

static void bombs_end_at_a_limit(void **state)
{
    static const struct bad_row rows[] = {
        { "{{ range(100001) }}", "{}", "range() is longer than 100000" },
        { "{{ range(9223372036854775807) | length }}", "{}", "range() is longer" },
        { "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "{}",
          "more than" },
        { "{{ 'x' * 9223372036854775807 }}", "{}", "more than" },
        { "{{ ('x' * 1000000) * 1000000 }}", "{}", "longer than" },
        { "{{ [0] * 9223372036854775807 }}", "{}", "more than" },
        { "{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
          "{}",
          "longer than" },
        { "{% set ns = namespace(l=[0]) %}{% for i in range(60) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
          "{}",
          "need more than" },
        { "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "{}", "nested deeper than" },
        { "{% set l = [] %}{% set _ = l.append(l) %}{{ l }}", "{}", "nested deeper than" },
        { "{% set l = [] %}{% set _ = l.append(l) %}{{ l | tojson }}", "{}", "nested deeper than" },
        { "{% set l = [] %}{% set _ = l.append(l) %}{% set m = [l] %}{{ l == m }}", "{}",
          "nested deeper than" },
        { "{% for x in range(100000) %}{{ 'xxxxxxxxxxxxxxxxxxxxxxxxxxxx' * 20 }}{% endfor %}", "{}",
          "longer than" },
        { "{{ ('a' * 1000000).strip('b' * 1000000 ~ 'a') }}", "{}", "more than" },
        { "{{ ('a' * 1000000).rfind('a' * 500000 ~ 'b') }}", "{}", "more than" },
        { "{{ ('a' * 1000000).replace('', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbb') }}", "{}", "longer than" },
        { "{% set t = range(50000) | list %}{% set u = t + [] %}"
          "{% for a in range(99999) %}{{ t == u }}{% endfor %}", "{}", "more than" },
        { "{% set t = 'ab' * 100000 %}"
          "{% for a in range(99999) %}{{ t.find('ba' * 9 ~ 'c') }}{{ t | length }}{% endfor %}", "{}",
          "more than" },
        { "{{ 'x' | indent(99999999) }}{{ [1] | tojson(indent=99999999) }}", "{}", "more than" },
        { "{{ 1 | tojson(indent=9223372036854775807) }}", "{}", "more than" },
    };
    (void)state;
    check_bad_rows(rows, sizeof rows / sizeof rows[0], STATUS_BAD_REQUEST);
}

static void fill(char *text, size_t n, const char *piece)
{
    size_t len = strlen(piece);
    for (size_t i = 0; i < n; i++)
        text[i] = piece[i % len];
    text[n] = '\0';
}

/* piece over and over between before and after: it must end in an error or in
 * text, never in a crash. */
static void deep_templates_are_refused_not_followed(void **state)
{
    static const struct { const char *before, *piece; } rows[] = {
        { "{{ ", "(" },     { "{{ ", "[" },       { "{{ ", "{1:" },      { "{{ ", "not " },
        { "{{ ", "-" },     { "{{ 1", "+1" },     { "{{ 1", "~1" },      { "{{ x", ".x" },
        { "{{ x", "[0]" },  { "{{ x", "|e" },     { "{{ x", "()" },      { "", "{% if 1 %}" },
        { "", "{% for a in b %}" }, { "{{ 1", " if 1 else 1" },          { "{{ 1", " is odd" },
        { "", "{" },        { "", "{#" },         { "", "{%raw%}" },     { "{{ 1", "**2" },
        { "", "{% macro f() %}" }, { "{{ 1", " and 1" }, { "{{ 1", "<2" }, { "{{ '", "\\" },
    };
    static char text[300 + 60000];
    const struct jinja_options options = test_options();
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct error err = { 0 };
        struct buf out;
        strcpy(text, rows[i].before);
        fill(text + strlen(text), 60000, rows[i].piece);
        if (rows[i].before[0] != '\0')
            strcat(text, " }}");
        if (run(text, "{\"x\": [1]}", &options, &out, &err) != STATUS_OK)
            assert_int_not_equal(err.text[0], '\0');
        buf_clear(&out);
    }
}

static void limits_of_a_render_are_kept(void **state)
{
    struct jinja_options options = test_options();
    struct error err = { 0 };
    struct buf text;
    (void)state;
    options.max_output_bytes = 5;
    assert_int_equal(run("123456", "{}", &options, &text, &err), STATUS_BAD_REQUEST);
    assert_non_null(strstr(err.text, "longer than 5 bytes"));
    buf_clear(&text);
    assert_int_equal(run("12345", "{}", &options, &text, &err), STATUS_OK);
    assert_string_equal(text.data, "12345");
    buf_clear(&text);
    options = test_options();
    options.max_steps = 10;
    assert_int_equal(run("{% for i in range(10) %}{{ i }}{% endfor %}", "{}", &options, &text, &err),
                     STATUS_BAD_REQUEST);
    assert_non_null(strstr(err.text, "more than 10 steps"));
    buf_clear(&text);
    options = test_options();
    options.max_memory_bytes = 4096;
    assert_int_equal(run("{{ range(1000) }}", "{}", &options, &text, &err), STATUS_BAD_REQUEST);
    assert_non_null(strstr(err.text, "need more than 4096 bytes"));
    buf_clear(&text);
}

static void a_failed_render_leaves_the_output_alone(void **state)
{
    static const char source[] = "text {{ raise_exception('no') }}";
    const struct jinja_options options = test_options();
    struct jinja_template *template;
    struct error err = { 0 };
    struct buf text;
    json_t *context = json_object();
    (void)state;
    buf_init(&text, 100);
    assert_int_equal(buf_add_text(&text, "before"), STATUS_OK);
    assert_int_equal(jinja_compile(&template, source, sizeof source - 1, &err), STATUS_OK);
    assert_int_equal(jinja_render(template, context, &options, &text, &err), STATUS_BAD_REQUEST);
    assert_string_equal(err.text, "no");
    assert_string_equal(text.data, "before");
    jinja_destroy(template);
    json_decref(context);
    buf_clear(&text);
}

static void the_callers_json_is_not_changed(void **state)
{
    static const char source[] = "{% set _ = l.append(3) %}{% set _ = d.pop('a') %}{{ l }}{{ d }}";
    const struct jinja_options options = test_options();
    struct jinja_template *template;
    struct error err = { 0 };
    json_t *context = json_loads("{\"l\": [1], \"d\": {\"a\": 1}}", 0, NULL), *copy = json_deep_copy(context);
    (void)state;
    assert_int_equal(jinja_compile(&template, source, sizeof source - 1, &err), STATUS_OK);
    for (int i = 0; i < 2; i++) {
        struct buf text;
        buf_init(&text, 100);
        assert_int_equal(jinja_render(template, context, &options, &text, &err), STATUS_OK);
        assert_string_equal(text.data, "[1, 3]{}");
        buf_clear(&text);
    }
    assert_true(json_equal(context, copy));
    jinja_destroy(template);
    json_decref(context);
    json_decref(copy);
}

static void a_source_past_its_limit_is_refused(void **state)
{
    struct jinja_template *template = NULL;
    struct error err = { 0 };
    (void)state;
    assert_int_equal(jinja_compile(&template, "", JINJA_MAX_SOURCE_BYTES + 1, &err), STATUS_TOO_LARGE);
    assert_null(template);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_template_is_refused_with_its_line),
        cmocka_unit_test(mistakes_while_rendering_are_named),
        cmocka_unit_test(bombs_end_at_a_limit),
        cmocka_unit_test(deep_templates_are_refused_not_followed),
        cmocka_unit_test(limits_of_a_render_are_kept),
        cmocka_unit_test(a_failed_render_leaves_the_output_alone),
        cmocka_unit_test(the_callers_json_is_not_changed),
        cmocka_unit_test(a_source_past_its_limit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
