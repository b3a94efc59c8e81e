/* test_jinja - templates print what Python's jinja2 prints for them. */
#include "tests/model/jinja_fixture.h"

static void delimiters_strip_blanks_as_their_signs_say(void **state)
{
    static const struct row rows[] = {
        { "a {%- if 1 -%} b {%- endif -%} c",
          "{}",
          "abc" },
        { "  {% if 1 %}\n  x\n  {% endif %}\ny",
          "{}",
          "  x\ny" },
        { "a\n  {%+ if 1 %}b{% endif +%}\nc",
          "{}",
          "a\n  b\nc" },
        { "a\n  {# note #}\nb",
          "{}",
          "a\nb" },
        { "a\n  {{- 1 -}}  \n b",
          "{}",
          "a1b" },
        { "x {{ 1 }}\n{{ 2 }}\n",
          "{}",
          "x 1\n2" },
        { "one\r\ntwo\rthree\n\n",
          "{}",
          "one\ntwo\nthree\n" },
        { "a{#- c -#}  b",
          "{}",
          "ab" },
        { "{% if 1 %}\n\n  a{% endif %}  \n",
          "{}",
          "\n  a  " },
        { "  {{ 1 }}  {% if 1 %}x{% endif %}",
          "{}",
          "  1  x" },
        { "{{ 1 }}\n   {% set x = 2 %}   {{ x }}",
          "{}",
          "1\n   2" },
    };
    (void)state;
    check_rows(rows, sizeof rows / sizeof rows[0]);
}

static void raw_blocks_are_printed_as_they_are(void **state)
{
    static const struct row rows[] = {
        { "{% raw %}{{ x }} {% if %}{% endraw %}!",
          "{}",
          "{{ x }} {% if %}!" },
        { "a\n {%- raw -%}  {{ 1 }}  {%- endraw -%}  b",
          "{}",
          "a{{ 1 }}b" },
        { "{% raw %}\n x\n{% endraw %}\ny",
          "{}",
          "\n x\ny" },
    };
    (void)state;
    check_rows(rows, sizeof rows / sizeof rows[0]);
}

static void values_print_as_python_prints_them(void **state)
{
    static const struct row rows[] = {
        { "{{ true }} {{ none }} {{ 1 }} {{ -2.5 }} {{ 1e20 }} {{ 1e-7 }} {{ 100.0 }} {{ 0.1 +"
          " 0.2 }} {{ 123456789.125 }}",
          "{}",
          "True None 1 -2.5 1e+20 1e-07 100.0 0.30000000000000004 123456789.125" },
        { "{{ [1, 'a', none, true, 1.0] }} {{ {'k': ['v'], 2: {}} }} {{ (1,) }} {{ (1, 'b') }}"
          " {{ () }}",
          "{}",
          "[1, 'a', None, True, 1.0] {'k': ['v'], 2: {}} (1,) (1, 'b') ()" },
        { "{{ [\"it's\", 'say \"x\"', \"both ' and \\\"\", 'tab\\t nl\\n back\\\\ \xc3\xa9 \xc3\xbc"
          " \xe4\xb8\x96 \\x07 \\u200b'] }}",
          "{}",
          "[\"it's\", 'say \"x\"', 'both \\' and \"', 'tab\\t nl\\n back\\\\ \xc3\xa9 \xc3\xbc"
          " \xe4\xb8\x96 \\x07 \\u200b']" },
        { "[{{ missing }}] [{{ d.nothing }}] [{{ d['x'] }}] [{{ l[9] }}]",
          "{\"d\":{},\"l\":[]}",
          "[] [] [] []" },
        { "{{ x }} {{ y }} {{ z }}",
          "{\"x\":1.5,\"y\":12345678901234,\"z\":1e16}",
          "1.5 12345678901234 1e+16" },
        { "{{ 1e15 }} {{ 1e16 }} {{ 0.0001 }} {{ 0.00001 }} {{ 1.5e300 }} {{ 5e-324 }}",
          "{}",
          "1000000000000000.0 1e+16 0.0001 1e-05 1.5e+300 5e-324" },
    };
    (void)state;
    check_rows(rows, sizeof rows / sizeof rows[0]);
}

static void strings_have_pythons_escapes(void **state)
{
    static const struct row rows[] = {
        { "{{ 'a\\nb\\tc\\\\d\\'e\\\"f\\x41\\u00e9\\U0001F600\\101' }}",
          "{}",
          "a\nb\tc\\d'e\"fA\xc3\xa9\xf0\x9f\x98\x80""A" },
        { "{{ 'un\\known' \"joined\" 'up' }}",
          "{}",
          "un\\knownjoinedup" },
    };
    (void)state;
    check_rows(rows, sizeof rows / sizeof rows[0]);
}

static void arithmetic_follows_pythons_rules(void **state)
{
    static const struct row rows[] = {
        { "{{ 7 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 2 **"
          " 10 }} {{ 2 ** -1 }} {{ 4 / 2 }}",
          "{}",
          "3.5 3 -4 1 2 -2 1024 0.5 2.0" },
        { "{{ 1 + 2 * 3 - 4 }} {{ (1 + 2) * 3 }} {{ -2 ** 2 }} {{ 2 ** 3 ** 2 }} {{ 1.5 + 1 }}"
          " {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ true + 1 }}",
          "{}",
          "3 9 4 64 2.5 3.0 0.5 2" },
        { "{{ 'a' + 'b' }} {{ [1] + [2] }} {{ 'ab' * 3 }} {{ 2 * [0] }} {{ (1,) + (2,) }} {{ 'x'"
          " * -1 }}",
          "{}",
          "ab [1, 2] ababab [0, 0] (1, 2) " },
        { "{{ 'n' ~ 1 ~ none ~ missing ~ 2.0 ~ [1] }}",
          "{}",
          "n1None2.0[1]" },
        { "{{ 1 ~ 2 + 3 | string if false else 1 ~ 2 * 3 }}",
          "{}",
          "16" },
        { "{{ 1_000 + 1 }} {{ +5 }} {{ - 5 }}",
          "{}",
          "1001 5 -5" },
    };
    (void)state;
    check_rows(rows, sizeof rows / sizeof rows[0]);
}

static void comparisons_chain_and_mix_as_in_python(void **state)
{
    static const struct row rows[] = {
        { "{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' < 'b' }} {{ [1,"
          " 2] < [1, 3] }} {{ '\xc3\xa9' > 'z' }}",
          "{}",
          "True False True True True True True" },
        { "{{ {'a': [1]} == {'a': [1.0]} }} {{ 1 != '1' }} {{ missing == missing2 }} {{ none =="
          " false }} {{ (1,) == [1] }}",
          "{}",
          "True True True False False" },
        { "{{ 'b' in 'abc' }} {{ 2 in [1, 2] }} {{ 'k' in {'k': 1} }} {{ 3 not in [1, 2] }} {{"
          " '' in '' }} {{ 'x' in missing }} {{ 1 in (1, 2) }}",
          "{}",
          "True True True True True False True" },
        { "{{ not 1 == 2 }} {{ not true and false }} {{ 1 in [1] == true }} {{ not 'a' in 'b'"
          " }}",
          "{}",
          "True False False True" },
    };
    (void)state;
    check_rows(rows, sizeof rows / sizeof rows[0]);
}

static void logic_yields_the_operand_that_decides(void **state)
{
    static const struct row rows[] = {
        { "{{ 0 or 'x' }} {{ 1 and 'y' }} {{ '' and 1 }}| {{ none or missing or 'z' }} {{ [] or"
          " {} }} {{ not [] }}",
          "{}",
          "x y | z {} True" },
        { "{{ 'a' if true }} [{{ 'a' if false }}] {{ 'a' if 0 else 'b' if 0 else 'c' }}",
          "{}",
          "a [] c" },
    };
    (void)state;
    check_rows(rows, sizeof rows / sizeof rows[0]);
}

static void subscripts_and_slices_count_characters(void **state)
{
    static const struct row rows[] = {
        { "{{ 'h\xc3\xa9llo'[1] }} {{ 'h\xc3\xa9llo'[-1] }} {{ 'h\xc3\xa9llo'[1:3] }} {{ 'h\xc3\xa9llo'["
          "::-1] }} {{ 'h\xc3\xa9llo'[-3:] }} {{ 'h\xc3\xa9llo'[:99] }} {{ 'abcdef'[4:1:-2] }}",
          "{}",
          "\xc3\xa9 o \xc3\xa9l oll\xc3\xa9h llo h\xc3\xa9llo ec" },
        { "{{ l[0] }} {{ l[-1] }} {{ l[1:] }} {{ l[::-1] }} {{ l[:-1] }} {{ l[::2] }} {{ l[5:]"
          " }} {{ l[-99:2] }}",
          "{\"l\":[1,2,3,4]}",
          "1 4 [2, 3, 4] [4, 3, 2, 1] [1, 2, 3] [1, 3] [] [1, 2]" },
        { "{{ d.a }} {{ d['a'] }} {{ d.b.c }} {{ d['b']['c'] }} {{ d.get('x') }} {{ d.get('x',"
          " 5) }} {{ l.0 }} {{ l.1.0 }}",
          "{\"d\":{\"a\":1,\"b\":{\"c\":2}},\"l\":[7,[8]]}",
          "1 1 2 2 None 5 7 8" },
        { "{{ d['items'] }} {{ d.keys() | list }}",
          "{\"d\":{\"items\":3,\"keys\":4}}",
          "3 ['items', 'keys']" },
    };
    (void)state;
    check_rows(rows, sizeof rows / sizeof rows[0]);
}

static void for_loops_have_their_variables(void **state)
{
    static const struct row rows[] = {
        { "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0"
          " }}{{ loop.first }}{{ loop.last }}{{ loop.length }}:{{ loop.previtem }}<{{ x }}>{{"
          " loop.nextitem }} {% endfor %}",
          "{\"l\":[\"a\",\"b\",\"c\"]}",
          "1032TrueFalse3:<a>b 2121FalseFalse3:a<b>c 3210FalseTrue3:b<c> " },
        { "{% for x in [] %}{{ x }}{% else %}none{% endfor %} {% for x in missing %}{{ x }}{%"
          " else %}undefined{% endfor %}",
          "{}",
          "none undefined" },
        { "{% for x in range(10) if x % 2 %}{{ x }}{{ ',' if not loop.last }}{% else %}no{% endfor"
          " %}",
          "{}",
          "1,3,5,7,9" },
        { "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }}{% endfor"
          " %}",
          "{\"d\":{\"z\":1,\"a\":[2]}}",
          "z=1;a=[2];za" },
        { "{% for a, (b, c) in [(1, (2, 3)), [4, [5, 6]]] %}{{ a }}{{ b }}{{ c }} {% endfor %}",
          "{}",
          "123 456 " },
        { "{% for x in range(9) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 5 %}{% break"
          " %}{% endif %}{{ x }}{% endfor %}!",
          "{}",
          "0134!" },
        { "{% for c in 'a\xc3\xa9\xe4\xb8\x96' %}{{ c }}.{% endfor %}{% for x in range(5, 0, -2)"
          " %}{{ x }}{% endfor %}{% for x in range(2, 4) %}{{ x }}{% endfor %}",
          "{}",
          "a.\xc3\xa9.\xe4\xb8\x96.53123" },
        { "{% for x in [1, 2, 3] %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x > 1) }} {% endfor"
          " %}",
          "{}",
          "aTrue bTrue aFalse " },
        { "{% for x in [1, 2] %}{% for y in [3, 4] %}{{ loop.index }}{{ y }}{% endfor %}{{ loop.index"
          " }};{% endfor %}",
          "{}",
          "13241;13242;" },
        { "{% for x in (1, 2) %}{{ x }}{% endfor %}{% for x in 1, 2 %}{{ x }}{% endfor %}",
          "{}",
          "1212" },
        { "{% for m in l if m.ok is defined and m.ok %}{{ m.n }}{% endfor %}",
          "{\"l\":[{\"ok\":true,\"n\":1},{\"n\":2},{\"ok\":false,\"n\":3}]}",
          "1" },
    };
    (void)state;
    check_rows(rows, sizeof rows / sizeof rows[0]);
}

static void set_stays_in_its_scope_and_namespaces_leave_it(void **state)
{
    static const struct row rows[] = {
        { "{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = 5 %}{{ x }}{% endfor %}{{ x }}",
          "{}",
          "15151" },
        { "{% set ns = namespace(n=0, s='') %}{% for i in [1, 2, 3] %}{% set ns.n = ns.n + i %}{%"
          " set ns.s = ns.s ~ i %}{% endfor %}{{ ns.n }} {{ ns.s }}",
          "{}",
          "6 123" },
        { "{% if true %}{% set x = 2 %}{% endif %}{{ x }}{% set a, b = 1, 2 %}{{ a }}{{ b }}",
          "{}",
          "212" },
        { "{% set t %}a{{ 1 }}{% endset %}[{{ t }}]{% set u | upper | trim %} x {% endset %}[{{"
          " u }}]",
          "{}",
          "[a1][X]" },
        { "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}[{{ a }}]{% set c = 1 %}{% with c"
          " = 2 %}{{ c }}{% endwith %}{{ c }}",
          "{}",
          "12[]21" },
        { "{% set ns = namespace() %}{% set ns.x = [1] %}{{ ns.x }}[{{ ns.y }}]{% set m = {'a':"
          " 1} %}{{ m.a }}",
          "{}",
          "[1][]1" },
        { "{% set messages = messages[1:] %}{{ messages }}",
          "{\"messages\":[1,2]}",
          "[2]" },
        { "{% filter upper %}a{{ 'b' }}{% set inner = 1 %}{% endfilter %}[{{ inner }}]",
          "{}",
          "AB[]" },
        { "{% generation %}x{% set g = 1 %}{% endgeneration %}[{{ g }}]",
          "{}",
          "x[]" },
    };
    (void)state;
    check_rows(rows, sizeof rows / sizeof rows[0]);
}

static void macros_take_defaults_keywords_and_call_themselves(void **state)
{
    static const struct row rows[] = {
        { "{% macro f(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }} {% endmacro %}{{ f(1) }}{{ f(1, 3)"
          " }}{{ f(1, c='z') }}{{ f(b=5, a=4) }}{{ f() }}",
          "{}",
          "12x 13x 12z 45x 2x " },
        { "{% macro down(n) %}{{ n }}{% if n > 0 %}{{ down(n - 1) }}{% endif %}{% endmacro %}{{"
          " down(3) }}",
          "{}",
          "3210" },
        { "{% macro show(v, pad='') %}{% if v is mapping %}{% for k, x in v.items() %}{{ pad }}{{"
          " k }}:\n{{ show(x, pad ~ '  ') }}{% endfor %}{% else %}{{ pad }}{{ v }}\n{% endif %}{%"
          " endmacro %}{{ show(d) }}",
          "{\"d\":{\"a\":{\"b\":1,\"c\":{\"d\":2}},\"e\":3}}",
          "a:\n  b:\n    1\n  c:\n    d:\n      2\ne:\n  3\n" },
        { "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, k=3) }}",
          "{}",
          "(1, 2){'k': 3}" },
        { "{% macro box(t) %}<{{ t }}>{{ caller(1, y=2) }}</{{ t }}>{% endmacro %}{% call(x, y)"
          " box('b') %}in{{ x }}{{ y }}{% endcall %}",
          "{}",
          "<b>in12</b>" },
        { "{% set y = 'late' %}{% macro f(a=y) %}{{ a }}{{ z }}{% endmacro %}{% set z = '!' %}{{"
          " f() }}{{ f('early') }}",
          "{}",
          "late!early!" },
        { "{% macro f(x) %}{% set q = x * 2 %}{{ q }}{% endmacro %}{{ f(2) | int + 1 }}[{{ q }}]",
          "{}",
          "5[]" },
        { "{% macro f(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ f(*[1, 2]) }}{{ f(**{'b': 1, 'a':"
          " 2}) }}",
          "{}",
          "1221" },
        { "{% macro f() %}  x  {% endmacro %}[{{ f() | trim }}][{{ f()|length }}]",
          "{}",
          "[x][5]" },
    };
    (void)state;
    check_rows(rows, sizeof rows / sizeof rows[0]);
}

static void tests_ask_what_a_value_is(void **state)
{
    static const struct row rows[] = {
        { "{% for v in [none, true, 1, 1.5, 'a', [1], (1,), {'k': 1}] %}{{ v is none }}{{ v is"
          " boolean }}{{ v is integer }}{{ v is float }}{{ v is number }}{{ v is string }}{{ v"
          " is sequence }}{{ v is mapping }}{{ v is iterable }} {% endfor %}",
          "{}",
          "TrueFalseFalseFalseFalseFalseFalseFalseFalse FalseTrueFalseFalseTrueFalseFalseFalseFalse"
          " FalseFalseTrueFalseTrueFalseFalseFalseFalse FalseFalseFalseTrueTrueFalseFalseFalseFalse"
          " FalseFalseFalseFalseFalseTrueTrueFalseTrue FalseFalseFalseFalseFalseFalseTrueFalseTrue"
          " FalseFalseFalseFalseFalseFalseTrueFalseTrue FalseFalseFalseFalseFalseFalseTrueTrueTrue"
          " " },
        { "{{ x is defined }} {{ y is defined }} {{ y is undefined }} {{ x is not defined }} {{"
          " x is not none }} {{ d.k is defined }} {{ y is none }} {{ y is iterable }} {{ y is"
          " string }}",
          "{\"x\":null,\"d\":{}}",
          "True False True False False False False True False" },
        { "{{ 3 is odd }} {{ 3 is even }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(2) }} {{"
          " 1 is eq 1 }} {{ 1 is ne(2) }} {{ 2 is gt 1 }} {{ 'a' is in ['a'] }} {{ 1 is sameas"
          " true }} {{ true is true }} {{ 0 is false }}",
          "{}",
          "True False True False True True True True False True False" },
        { "{{ 'ab' is lower }} {{ 'AB' is upper }} {{ range is callable }} {{ 'upper' is filter"
          " }} {{ 'odd' is test }} {{ 1 is not string and 2 is number }}",
          "{}",
          "True True True True True True" },
        { "{{ 'x' if y is defined else 'z' }} {{ [1, 2] is iterable and [1] is not mapping }}",
          "{}",
          "z True" },
    };
    (void)state;
    check_rows(rows, sizeof rows / sizeof rows[0]);
}

static void filters_shape_text(void **state)
{
    static const struct row rows[] = {
        { "{{ '  x ' | trim }}|{{ 'xxaxx' | trim('x') }}|{{ 'aBc' | upper }}|{{ '\xc3\x84""B'"
          " | lower }}|{{ 'hello wORLD' | title }}|{{ 'hELLO' | capitalize }}",
          "{}",
          "x|a|ABC|\xc3\xa4""b|Hello World|Hello" },
        { "{{ 'a-b-c' | replace('-', '+') }} {{ 'aaa' | replace('a', 'b', 2) }} {{ 1.5 | string"
          " }} {{ none | string }} {{ 'a b  c' | wordcount }}",
          "{}",
          "a+b+c bba 1.5 None 3" },
        { "{{ ['a', 1, none] | join(', ') }} {{ 'abc' | join('-') }} {{ [{'n': 1}, {'n': 2}] |"
          " join('|', attribute='n') }} {{ [] | join }}",
          "{}",
          "a, 1, None a-b-c 1|2 " },
        { "{{ 'a\nb\n\nc' | indent }}|{{ 'a\nb' | indent(2, first=true) }}|{{ 'a\n\nb' | indent(2,"
          " blank=true) }}|{{ 'x\ny' | indent('> ') }}|{{ 'a\n' | indent }}",
          "{}",
          "a\n    b\n\n    c|  a\n  b|a\n  \n  b|x\n> y|a\n" },
        { "{{ '<a href=\"x\">&\\'' | e }} {{ '<b>' | safe }} {{ '<b>' | escape }}",
          "{}",
          "&lt;a href=&#34;x&#34;&gt;&amp;&#39; <b> &lt;b&gt;" },
        { "{{ missing | default('d') }} {{ '' | default('d') }} {{ '' | default('d', true) }}"
          " {{ none | d('x') }} {{ missing | default }} {{ false | default('q', boolean=true)"
          " }}",
          "{}",
          "d  d None  q" },
    };
    (void)state;
    check_rows(rows, sizeof rows / sizeof rows[0]);
}

static void filters_work_on_lists_and_dicts(void **state)
{
    static const struct row rows[] = {
        { "{{ [3, 1, 2] | sort }} {{ ['b', 'A', 'c'] | sort }} {{ ['b', 'A'] | sort(case_sensitive=true)"
          " }} {{ [1, 3, 2] | sort(reverse=true) }} {{ [{'k': 2}, {'k': 1}] | sort(attribute='k')"
          " }}",
          "{}",
          "[1, 2, 3] ['A', 'b', 'c'] ['A', 'b'] [3, 2, 1] [{'k': 1}, {'k': 2}]" },
        { "{{ d | dictsort }} {{ d | dictsort(by='value') }} {{ d | dictsort(reverse=true) }}"
          " {{ d | items | list }} {{ d | length }}",
          "{\"d\":{\"b\":1,\"A\":3,\"c\":2}}",
          "[('A', 3), ('b', 1), ('c', 2)] [('b', 1), ('c', 2), ('A', 3)] [('c', 2), ('b', 1),"
          " ('A', 3)] [('b', 1), ('A', 3), ('c', 2)] 3" },
        { "{{ [1, 2, 3] | first }} {{ [1, 2, 3] | last }} [{{ [] | first }}] {{ 'abc' | first"
          " }} {{ [1, 2] | length }} {{ 'h\xc3\xa9\xc3\xa9' | count }} {{ 'ab' | list }} {{ {'x':"
          " 1} | list }}",
          "{}",
          "1 3 [] a 2 3 ['a', 'b'] ['x']" },
        { "{{ [1, 2, 3] | sum }} {{ [{'a': 1}, {'a': 2}] | sum(attribute='a') }} {{ [1, 2] | sum(start=1"
          "0) }} {{ [2, 1] | min }} {{ ['a', 'B'] | max }} {{ [1, 2, 1, 3] | unique | list }}",
          "{}",
          "6 3 13 1 B [1, 2, 3]" },
        { "{{ l | map(attribute='n') | list }} {{ l | map(attribute='x', default=0) | list }}"
          " {{ ['a', 'b'] | map('upper') | join }} {{ [' a '] | map('trim') | list }} {{ ['a']"
          " | map('replace', 'a', 'b') | list }}",
          "{\"l\":[{\"n\":1},{\"n\":2,\"x\":3}]}",
          "[1, 2] [0, 3] AB ['a'] ['b']" },
        { "{{ l | selectattr('n', 'equalto', 2) | list }} {{ l | rejectattr('x', 'defined') |"
          " list }} {{ l | selectattr('x') | list }} {{ [1, 2, 3] | select('odd') | list }} {{"
          " [0, 1, ''] | select | list }} {{ [1, 2] | reject('gt', 1) | list }} {{ none | selectattr('a'"
          ") | list }}",
          "{\"l\":[{\"n\":1},{\"n\":2,\"x\":3}]}",
          "[{'n': 2, 'x': 3}] [{'n': 1}] [{'n': 2, 'x': 3}] [1, 3] [1] [1] []" },
        { "{{ 'abc' | reverse }} {{ [1, 2] | reverse | list }} {{ l | map(attribute='a.b') | list"
          " }} {{ l | map(attribute='c.0') | list }}",
          "{\"l\":[{\"a\":{\"b\":5},\"c\":[9]}]}",
          "cba [2, 1] [5] [9]" },
    };
    (void)state;
    check_rows(rows, sizeof rows / sizeof rows[0]);
}

static void filters_convert_numbers(void **state)
{
    static const struct row rows[] = {
        { "{{ '42' | int }} {{ 'x' | int }} {{ 'x' | int(7) }} {{ '3.9' | int }} {{ 3.9 | int"
          " }} {{ '1f' | int(base=16) }} {{ ' 5 ' | int }} {{ none | int }} {{ true | int }}",
          "{}",
          "42 0 7 3 3 31 5 0 1" },
        { "{{ '1.5' | float }} {{ 'x' | float }} {{ 2 | float }} {{ -3 | abs }} {{ 2.567 | round(1)"
          " }} {{ 2.5 | round }} {{ 2.1 | round(method='ceil') }} {{ 2.19 | round(1, 'floor')"
          " }} {{ 42 | round }}",
          "{}",
          "1.5 0.0 2.0 3 2.6 2.0 3.0 2.1 42" },
    };
    (void)state;
    check_rows(rows, sizeof rows / sizeof rows[0]);
}

static void tojson_writes_what_json_dumps_writes(void **state)
{
    static const struct row rows[] = {
        { "{{ d | tojson }}",
          "{\"d\":{\"a\":[1,2.0,null,true,\"\xc3\xa9\\\"\\\\\\n\\u0001\\u007f/<>&'\"],\"b\":{},\"c\":[]}"
          "}",
          "{\"a\": [1, 2.0, null, true, \"\xc3\xa9\\\"\\\\\\n\\u0001\x7f/<>&'\"], \"b\": {}, \"c\":"
          " []}" },
        { "{{ d | tojson(indent=2) }}",
          "{\"d\":{\"a\":[1,{\"b\":2}],\"c\":{},\"e\":[]}}",
          "{\n  \"a\": [\n    1,\n    {\n      \"b\": 2\n    }\n  ],\n  \"c\": {},\n  \"e\": []\n}" },
        { "{{ d | tojson(indent=4, sort_keys=true) }} {{ d | tojson(separators=(',', ':')) }}"
          " {{ d | tojson(sort_keys=true) }}",
          "{\"d\":{\"b\":1,\"a\":{\"d\":1,\"c\":2}}}",
          "{\n    \"a\": {\n        \"c\": 2,\n        \"d\": 1\n    },\n    \"b\": 1\n} {\"b\":1,\"a\":"
          "{\"d\":1,\"c\":2}} {\"a\": {\"c\": 2, \"d\": 1}, \"b\": 1}" },
        { "{{ '\xc3\xa9\xe4\xb8\x96\xf0\x9f\x8e\x89' | tojson(ensure_ascii=true) }} {{ '\xc3\xa9'"
          " | tojson }} {{ 1e16 | tojson }} {{ (1, 2) | tojson }} {{ {1: 2, none: 3, true: 4}"
          " | tojson }} {{ [] | tojson(indent=0) }} {{ [1] | tojson(indent='--') }}",
          "{}",
          "\"\\u00e9\\u4e16\\ud83c\\udf89\" \"\xc3\xa9\" 1e+16 [1, 2] {\"1\": 4, \"null\": 3}"
          " [] [\n--1\n]" },
    };
    (void)state;
    check_rows(rows, sizeof rows / sizeof rows[0]);
}

static void string_methods_are_pythons(void **state)
{
    static const struct row rows[] = {
        { "{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a,b,c'.split(',', 1) }} {{ ''.split(',')"
          " }} {{ ''.split() }} {{ 'a b c'.split(none, 1) }} {{ 'a.b.c'.rsplit('.', 1) }} {{ 'abc'.split"
          "('</think>')[-1] }}",
          "{}",
          "['a', 'b', '', 'c'] ['a', 'b'] ['a', 'b,c'] [''] [] ['a', 'b c'] ['a.b', 'c'] abc" },
        { "{{ '  x '.strip() }}|{{ ' x '.lstrip() }}|{{ ' x '.rstrip() }}|{{ 'xyaxy'.strip('xy')"
          " }}|{{ '\n\na'.lstrip('\n') }}|{{ '\xc3\xa9\xc3\xa9""a'.lstrip('\xc3\xa9') }}|{{ '\xe3\x80\x80"""
          "a\xc2\xa0'.strip() }}",
          "{}",
          "x|x | x|a|a|a|a" },
        { "{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x', 'c')) }} {{ 'abc'.startswith('')"
          " }} {{ 'aXbX'.replace('X', '-') }} {{ 'aaa'.replace('a', 'b', 1) }} {{ 'ab'.replace('',"
          " '-') }} {{ 'abc'.find('c') }} {{ '\xc3\xa9""a'.find('a') }} {{ 'x'.find('y') }} {{"
          " 'abcabc'.rfind('b') }} {{ 'abab'.count('ab') }} {{ 'ab'.index('b') }}",
          "{}",
          "True True True a-b- baa -a-b- 2 1 -1 4 2 1" },
        { "{{ 'aB'.upper() }} {{ 'aB'.lower() }} {{ 'ab cd'.title() }} {{ 'ab'.capitalize() }}"
          " {{ '12'.isdigit() }} {{ 'a1'.isalnum() }} {{ 'ab'.isalpha() }} {{ ' '.isspace() }}"
          " {{ 'AB'.isupper() }} {{ 'ab'.islower() }} {{ ''.isdigit() }}",
          "{}",
          "AB ab Ab Cd Ab True True True True True True False" },
        { "{{ ', '.join(['a', 'b']) }} {{ 'a=b=c'.partition('=') }} {{ 'a=b=c'.rpartition('=')"
          " }} {{ 'ab'.partition('x') }} {{ 'abc'.removeprefix('a') }} {{ 'abc'.removesuffix('c')"
          " }} {{ 'a\nb\r\nc'.splitlines() }} {{ 'a\nb\n'.splitlines(true) }}",
          "{}",
          "a, b ('a', '=', 'b=c') ('a=b', '=', 'c') ('ab', '', '') bc ab ['a', 'b', 'c'] ['a\\n',"
          " 'b\\n']" },
        { "{{ '{}-{}'.format(1, 'a') }} {{ '{1}{0}{x}'.format('a', 'b', x=none) }} {{ '{{}}'.format()"
          " }}",
          "{}",
          "1-a baNone {}" },
        { "{{ 'abcab'.find('b', 2) }} {{ 'abcab'.find('b', 0, 1) }} {{ 'abcab'.find('a', -2) }}"
          " {{ 'abcab'.rfind('b', 0, 3) }}",
          "{}",
          "4 -1 3 1" },
    };
    (void)state;
    check_rows(rows, sizeof rows / sizeof rows[0]);
}

static void lists_and_dicts_have_their_methods(void **state)
{
    static const struct row rows[] = {
        { "{% set l = [1, 2] %}{% set _ = l.append(3) %}{{ l }} {{ l.pop() }} {{ l.pop(0) }} {{"
          " l }} {{ l.index(2) }} {{ [1, 1].count(1) }}{% set _ = l.extend([7, 8]) %}{{ l }}",
          "{}",
          "[1, 2, 3] 3 1 [2] 0 2[2, 7, 8]" },
        { "{% set d = {'a': 1, 'b': 2} %}{{ d.pop('a') }} {{ d }} {{ d.pop('x', 9) }}{% set _"
          " = d.update({'c': 3}) %} {{ d }} {{ d.values() | list }} {{ d.copy() }}",
          "{}",
          "1 {'b': 2} 9 {'b': 2, 'c': 3} [2, 3] {'b': 2, 'c': 3}" },
        { "{{ dict(a=1, b=2) }} {{ dict({'x': 1}, y=2) }} {{ d.items() | list }}",
          "{\"d\":{\"a\":1}}",
          "{'a': 1, 'b': 2} {'x': 1, 'y': 2} [('a', 1)]" },
        { "{% set d = dict() %}{% for i in range(40) %}{% set _ = d.update({'k' ~ i: i}) %}{%"
          " endfor %}{% set _ = d.pop('k7') %}{{ d | length }} {{ d.k39 }} {{ d.get('k7') }} {{"
          " d['k20'] }} {{ 'k0' in d }}",
          "{}",
          "39 39 None 20 True" },
        { "{% set d = {} %}{% for i in range(40) %}{% set _ = d.update({i: 'v' ~ i}) %}{% endfor"
          " %}{{ d[3.0] }} {{ d[true] }} {{ d.get(39) }}",
          "{}",
          "v3 v1 v39" },
        { "{{ {1: 'a', 1.0: 'b', true: 'c'} }} {{ {(1, 2): 3}[(1, 2)] }} {{ {'a': 1}.get('b',"
          " 'n') }}",
          "{}",
          "{1: 'c'} 3 n" },
    };
    (void)state;
    check_rows(rows, sizeof rows / sizeof rows[0]);
}

static void the_clock_is_printed_by_strftime(void **state)
{
    static const struct row rows[] = {
        { "{{ strftime_now('%Y-%m-%d %H:%M') }} {{ strftime_now('%d %b %Y') }}",
          "{}",
          "2026-01-01 00:00 01 Jan 2026" },
    };
    (void)state;
    check_rows(rows, sizeof rows / sizeof rows[0]);
}

/* Python escapes for HTML what is added to a |safe string; every other renderer
 * of chat templates, and this one, does not. */
static void safe_is_plain_text(void **state)
{
    static const struct row rows[] = {
        { "{{ '<a>' | safe + '<b>' }}{{ '<c>' | e ~ '<d>' }}", "{}", "<a><b>&lt;c&gt;<d>" },
    };
    (void)state;
    check_rows(rows, sizeof rows / sizeof rows[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(delimiters_strip_blanks_as_their_signs_say),
        cmocka_unit_test(raw_blocks_are_printed_as_they_are),
        cmocka_unit_test(values_print_as_python_prints_them),
        cmocka_unit_test(strings_have_pythons_escapes),
        cmocka_unit_test(arithmetic_follows_pythons_rules),
        cmocka_unit_test(comparisons_chain_and_mix_as_in_python),
        cmocka_unit_test(logic_yields_the_operand_that_decides),
        cmocka_unit_test(subscripts_and_slices_count_characters),
        cmocka_unit_test(for_loops_have_their_variables),
        cmocka_unit_test(set_stays_in_its_scope_and_namespaces_leave_it),
        cmocka_unit_test(macros_take_defaults_keywords_and_call_themselves),
        cmocka_unit_test(tests_ask_what_a_value_is),
        cmocka_unit_test(filters_shape_text),
        cmocka_unit_test(filters_work_on_lists_and_dicts),
        cmocka_unit_test(filters_convert_numbers),
        cmocka_unit_test(tojson_writes_what_json_dumps_writes),
        cmocka_unit_test(string_methods_are_pythons),
        cmocka_unit_test(lists_and_dicts_have_their_methods),
        cmocka_unit_test(the_clock_is_printed_by_strftime),
        cmocka_unit_test(safe_is_plain_text),
    };
    setenv("TZ", "UTC", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
