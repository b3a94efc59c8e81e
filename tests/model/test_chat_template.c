/* test_chat_template - chat templates of model directories print the prompt that other renderers print. */
#include "base/file.h"
#include "base/json_read.h"
#include "model/chat_template.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DATA "tests/model/data/"
#define FIXED_NOW 1767225600    /* 2026-01-01 00:00 UTC */

static struct jinja_options test_options(void)
{
    struct jinja_options options = jinja_default_options();
    options.now = FIXED_NOW;
    return options;
}

static json_t *parse(const char *text)
{
    json_t *json = json_loads(text, 0, NULL);
    assert_non_null(json);
    return json;
}

static void write_file(const char *directory, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    assert_int_equal(file_replace(path, text, strlen(text), NULL), STATUS_OK);
}

static void remove_directory(const char *directory)
{
    static const char *const names[] = { "chat_template.jinja", "tokenizer_config.json" };
    char path[256];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        unlink(path);
    }
    rmdir(directory);
}

/* A model directory with these files; NULL: no such file.  Result of the load. */
static enum status load(const char *jinja, const char *config, struct chat_template **out, struct error *err)
{
    char directory[] = "/tmp/test_chat_template_XXXXXX";
    assert_non_null(mkdtemp(directory));
    if (jinja != NULL)
        write_file(directory, "chat_template.jinja", jinja);
    if (config != NULL)
        write_file(directory, "tokenizer_config.json", config);
    enum status status = chat_template_load(out, directory, err);
    remove_directory(directory);
    return status;
}

/* The prompt, which the caller frees; a sentence beginning with "error: " if it fails. */
static char *prompt(const struct chat_template *template, const struct chat_input *input)
{
    const struct jinja_options options = test_options();
    struct error err = { 0 };
    struct buf out;
    buf_init(&out, 1u << 20);
    if (chat_template_render(template, input, &options, &out, &err) != STATUS_OK)
        assert_int_equal(buf_printf(&out, "error: %s", err.text), STATUS_OK);
    char *text = strdup(out.data == NULL ? "" : out.data);
    buf_clear(&out);
    return text;
}

static void expect_prompt(const struct chat_template *template, const char *messages, const char *expected)
{
    json_t *parsed = parse(messages);
    const struct chat_input input = { .messages = parsed, .add_generation_prompt = 1 };
    char *text = prompt(template, &input);
    assert_string_equal(text, expected);
    free(text);
    json_decref(parsed);
}

/* Whether the case prints its text, or is refused with its sentence. */
static int case_holds(const json_t *entry, const json_t *context)
{
    const struct jinja_options options = test_options();
    const char *name = json_string_value(json_object_get(entry, "template"));
    const char *refusal = json_string_value(json_object_get(entry, "error"));
    const char *expected = refusal != NULL ? refusal : json_string_value(json_object_get(entry, "text"));
    struct jinja_template *template = NULL;
    struct error err = { 0 };
    struct buf source, out;
    char path[256];
    snprintf(path, sizeof path, DATA "chat/%s", name);
    buf_init(&source, 1u << 20);
    buf_init(&out, 1u << 20);
    assert_int_equal(file_read(path, &source, &err), STATUS_OK);
    assert_int_equal(jinja_compile(&template, source.data, source.len, &err), STATUS_OK);
    enum status status = jinja_render(template, context, &options, &out, &err);
    const char *got = status == STATUS_OK ? (out.data == NULL ? "" : out.data) : err.text;
    int holds = (status == STATUS_OK) == (refusal == NULL) && strcmp(got, expected) == 0;
    if (!holds)
        print_error("%s, %s\n  expected %s\n  got      %s\n", name,
                    json_string_value(json_object_get(entry, "context")), expected, got);
    jinja_destroy(template);
    buf_clear(&source);
    buf_clear(&out);
    return holds;
}

static void templates_of_seven_families_print_what_two_other_renderers_print(void **state)
{
    json_t *file;
    struct error err = { 0 };
    size_t n_bad = 0;
    (void)state;
    assert_int_equal(json_read_file(DATA "chat_cases.json", 1u << 20, STATUS_BAD_MODEL, &file, &err),
                     STATUS_OK);
    const json_t *cases = json_object_get(file, "cases"), *contexts = json_object_get(file, "contexts");
    assert_true(json_array_size(cases) > 100);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *entry = json_array_get(cases, i);
        const char *name = json_string_value(json_object_get(entry, "context"));
        n_bad += !case_holds(entry, json_object_get(contexts, name));
    }
    assert_int_equal(n_bad, 0);
    json_decref(file);
}

static void the_file_comes_before_the_config(void **state)
{
    struct chat_template *template;
    struct error err = { 0 };
    (void)state;
    assert_int_equal(load("file {{ messages[0].content }}", "{\"chat_template\": \"config\"}", &template,
                          &err),
                     STATUS_OK);
    assert_false(chat_template_is_builtin(template));
    expect_prompt(template, "[{\"role\": \"user\", \"content\": \"x\"}]", "file x");
    chat_template_destroy(template);
}

static void the_config_may_hold_text_and_tokens_in_both_forms(void **state)
{
    struct chat_template *template;
    struct error err = { 0 };
    (void)state;
    assert_int_equal(load(NULL,
                          "{\"chat_template\": \"{{ bos_token }}{{ messages[0].content }}{{ eos_token }}"
                          "{{ tools is none }}\", \"bos_token\": \"<s>\","
                          " \"eos_token\": {\"content\": \"</s>\"}, \"pad_token\": null}", &template, &err),
                     STATUS_OK);
    expect_prompt(template, "[{\"role\": \"user\", \"content\": \"x\"}]", "<s>x</s>True");
    chat_template_destroy(template);
}

static void a_list_of_templates_has_one_for_tools(void **state)
{
    struct chat_template *template;
    struct error err = { 0 };
    json_t *messages = parse("[{\"role\": \"user\", \"content\": \"x\"}]");
    json_t *tools = parse("[{\"type\": \"function\"}]");
    (void)state;
    assert_int_equal(load(NULL, "{\"chat_template\": [{\"name\": \"default\", \"template\": \"plain\"},"
                          " {\"name\": \"rag\", \"template\": \"{% never read %}\"},"
                          " {\"name\": \"tool_use\", \"template\": \"tools {{ tools | length }}\"}]}",
                          &template, &err), STATUS_OK);
    struct chat_input input = { .messages = messages };
    char *without = prompt(template, &input);
    input.tools = tools;
    char *with = prompt(template, &input);
    assert_string_equal(without, "plain");
    assert_string_equal(with, "tools 1");
    free(without);
    free(with);
    json_decref(messages);
    json_decref(tools);
    chat_template_destroy(template);
}

static void what_is_no_template_is_refused_at_load(void **state)
{
    static const struct { const char *jinja, *config, *expected; } rows[] = {
        { "{% if %}", NULL, "line 1" },
        { NULL, "{\"chat_template\": 5}", "is no string" },
        { NULL, "{\"chat_template\": \"{{\"}", "line 1" },
        { NULL, "{\"chat_template\": []}", "no entry named default" },
        { NULL, "{\"chat_template\": [{\"name\": \"default\", \"template\": \"a\"},"
                " {\"name\": \"default\", \"template\": \"b\"}]}", "two entries of one name" },
        { NULL, "[]", "no JSON object" },
        { NULL, "{", "tokenizer_config.json" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct chat_template *template = NULL;
        struct error err = { 0 };
        assert_int_equal(load(rows[i].jinja, rows[i].config, &template, &err), STATUS_BAD_MODEL);
        if (strstr(err.text, rows[i].expected) == NULL)
            fail_msg("expected %s, got %s", rows[i].expected, err.text);
        assert_null(template);
    }
}

static void a_model_without_template_gets_chatml(void **state)
{
    struct chat_template *template;
    struct error err = { 0 };
    json_t *tools = parse("[{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]");
    json_t *messages = parse("[{\"role\": \"system\", \"content\": \"S\"},"
                             " {\"role\": \"user\", \"content\": \"U\"},"
                             " {\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"function\":"
                             " {\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}}]},"
                             " {\"role\": \"tool\", \"content\": \"R\"}]");
    (void)state;
    assert_int_equal(load(NULL, NULL, &template, &err), STATUS_OK);
    assert_true(chat_template_is_builtin(template));
    expect_prompt(template, "[{\"role\": \"user\", \"content\": \"hi\"}]",
                  "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
    const struct chat_input input = { .messages = messages, .tools = tools };
    char *text = prompt(template, &input);
    assert_string_equal(text,
                        "<|im_start|>system\nS\n\nYou can call these functions, one JSON object to a line:\n"
                        "{\"type\": \"function\", \"function\": {\"name\": \"f\"}}\n"
                        "To call one, write <tool_call>{\"name\": .., \"arguments\": {..}}</tool_call>."
                        "<|im_end|>\n"
                        "<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n"
                        "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call><|im_end|>\n"
                        "<|im_start|>tool\nR<|im_end|>\n");
    free(text);
    json_decref(messages);
    json_decref(tools);
    chat_template_destroy(template);
}

static struct chat_template *create(const char *text)
{
    struct chat_template *template = NULL;
    struct error err = { 0 };
    assert_int_equal(chat_template_create(&template, text, strlen(text), NULL, &err), STATUS_OK);
    return template;
}

static void content_is_given_in_the_form_the_template_reads(void **state)
{
    static const char parts[] = "[{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"},"
                                " {\"type\": \"text\", \"text\": \"b\"}]}]";
    static const char plain[] = "[{\"role\": \"user\", \"content\": \"ab\"}]";
    struct chat_template *text = create("{{ messages[0].content }}");
    struct chat_template *both = create("{% set c = messages[0].content %}"
                                        "{% if c is string %}{{ c }}{% else %}"
                                        "{% for p in c %}{{ p.text }}{% endfor %}{% endif %}");
    struct chat_template *only_parts = create("{% for p in messages[0].content %}<{{ p.text }}>{% endfor %}");
    (void)state;
    assert_true(chat_template_takes_text(text) && !chat_template_takes_parts(text));
    assert_true(chat_template_takes_text(both) && chat_template_takes_parts(both));
    assert_true(!chat_template_takes_text(only_parts) && chat_template_takes_parts(only_parts));
    expect_prompt(text, parts, "a\nb");
    expect_prompt(text, plain, "ab");
    expect_prompt(both, parts, "ab");
    expect_prompt(both, plain, "ab");
    expect_prompt(only_parts, parts, "<a><b>");
    expect_prompt(only_parts, plain, "<ab>");
    expect_prompt(text, "[{\"role\": \"user\", \"content\": [{\"type\": \"image_url\"}]}]",
                  "error: messages[0].content[0] has no text, and this model reads only text");
    chat_template_destroy(text);
    chat_template_destroy(both);
    chat_template_destroy(only_parts);
}

#define CALL(arguments) "[{\"role\": \"assistant\", \"tool_calls\": [{\"function\": {\"name\": \"f\"," \
                        " \"arguments\": " arguments "}}]}]"
#define EACH_CALL(print) "{% for m in messages %}{% for c in m.tool_calls %}" print "{% endfor %}{% endfor %}"

static void arguments_are_given_in_the_form_the_template_reads(void **state)
{
    struct chat_template *object = create(EACH_CALL("{{ c.function.arguments | tojson }}"));
    struct chat_template *text = create(EACH_CALL("{{ '>' + c.function.arguments }}"));
    (void)state;
    assert_int_equal(chat_template_arguments(object), CHAT_ARGUMENTS_OBJECT);
    assert_int_equal(chat_template_arguments(text), CHAT_ARGUMENTS_TEXT);
    expect_prompt(object, CALL("{\"a\": [1]}"), "{\"a\": [1]}");
    expect_prompt(object, CALL("\"{\\\"a\\\":[1]}\""), "{\"a\": [1]}");
    expect_prompt(object, CALL("\"no json\""), "\"no json\"");
    expect_prompt(text, CALL("{\"a\": [1]}"), ">{\"a\": [1]}");
    expect_prompt(text, CALL("\"{\\\"a\\\":[1]}\""), ">{\"a\":[1]}");
    chat_template_destroy(object);
    chat_template_destroy(text);
}

static void extra_variables_reach_the_template_but_replace_no_input(void **state)
{
    struct chat_template *template = create("{{ enable_thinking }}"
                                            "{{ documents | length if documents else 'none' }}");
    json_t *messages = parse("[]"), *documents = parse("[{}, {}]");
    json_t *good = parse("{\"enable_thinking\": false}"), *bad = parse("{\"messages\": []}");
    struct chat_input input = { .messages = messages, .variables = good };
    (void)state;
    char *first = prompt(template, &input);
    input.documents = documents;
    char *second = prompt(template, &input);
    input.variables = bad;
    char *third = prompt(template, &input);
    input.variables = messages;
    char *fourth = prompt(template, &input);
    assert_string_equal(first, "Falsenone");
    assert_string_equal(second, "False2");
    assert_string_equal(third, "error: chat_template_kwargs may not set 'messages'");
    assert_string_equal(fourth, "error: chat_template_kwargs must be an object, not an array");
    free(first);
    free(second);
    free(third);
    free(fourth);
    json_decref(messages);
    json_decref(good);
    json_decref(bad);
    json_decref(documents);
    chat_template_destroy(template);
}

static void messages_that_are_none_are_refused(void **state)
{
    struct chat_template *template = create("x");
    (void)state;
    expect_prompt(template, "{}", "error: messages must be an array, not an object");
    expect_prompt(template, "[{\"role\": \"user\"}, 5]",
                  "error: messages[1] must be an object, not an integer");
    chat_template_destroy(template);
}

static void a_conversation_is_refused_in_the_templates_own_words(void **state)
{
    static const char text[] = "{{ raise_exception('Roles must alternate: ' ~ messages[0].role) }}";
    struct chat_template *template = create(text);
    (void)state;
    expect_prompt(template, "[{\"role\": \"x\"}]", "error: Roles must alternate: x");
    chat_template_destroy(template);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(templates_of_seven_families_print_what_two_other_renderers_print),
        cmocka_unit_test(the_file_comes_before_the_config),
        cmocka_unit_test(the_config_may_hold_text_and_tokens_in_both_forms),
        cmocka_unit_test(a_list_of_templates_has_one_for_tools),
        cmocka_unit_test(what_is_no_template_is_refused_at_load),
        cmocka_unit_test(a_model_without_template_gets_chatml),
        cmocka_unit_test(content_is_given_in_the_form_the_template_reads),
        cmocka_unit_test(arguments_are_given_in_the_form_the_template_reads),
        cmocka_unit_test(extra_variables_reach_the_template_but_replace_no_input),
        cmocka_unit_test(messages_that_are_none_are_refused),
        cmocka_unit_test(a_conversation_is_refused_in_the_templates_own_words),
    };
    setenv("TZ", "UTC", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
