#include "model/chat_template.h"

#include "base/file.h"
#include "base/json_read.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CONFIG_BYTES (16u << 20)    /* tokenizer_config.json lists every added token */

struct chat_template {
    struct jinja_template *plain;
    struct jinja_template *with_tools;  /* NULL: plain serves both */
    char *text;                         /* of plain */
    json_t *tokens;                     /* object of strings; only read after load */
    int is_builtin, takes_text, takes_parts;
    enum chat_arguments arguments;
};

/* For models that bring none: ChatML, tools as JSON in the system turn. */
static const char builtin_text[] =
    "{%- set turns = messages %}\n"
    "{%- set system = '' %}\n"
    "{%- if messages and messages[0].role == 'system' %}\n"
    "{%- set system = messages[0].content or '' %}\n"
    "{%- set turns = messages[1:] %}\n"
    "{%- endif %}\n"
    "{%- if tools %}\n"
    "{%- set system %}\n"
    "{{- system ~ '\\n\\n' if system else '' }}You can call these functions, one JSON object to a line:\n"
    "{% for tool in tools %}\n"
    "{{- tool | tojson ~ '\\n' }}\n"
    "{%- endfor %}To call one, write <tool_call>{\"name\": .., \"arguments\": {..}}</tool_call>.\n"
    "{%- endset %}\n"
    "{%- endif %}\n"
    "{%- if system %}\n"
    "{{- '<|im_start|>system\\n' ~ system ~ '<|im_end|>\\n' }}\n"
    "{%- endif %}\n"
    "{%- for message in turns %}\n"
    "{{- '<|im_start|>' ~ message.role ~ '\\n' ~ (message.content or '') }}\n"
    "{%- for call in message.tool_calls or [] %}\n"
    "{{- '\\n' if message.content or not loop.first else '' }}\n"
    "{{- '<tool_call>' ~ {'name': call.function.name, 'arguments': call.function.arguments} | tojson }}\n"
    "{{- '</tool_call>' }}\n"
    "{%- endfor %}\n"
    "{{- '<|im_end|>\\n' }}\n"
    "{%- endfor %}\n"
    "{%- if add_generation_prompt %}\n"
    "{{- '<|im_start|>assistant\\n' }}\n"
    "{%- endif %}\n";

int chat_template_is_builtin(const struct chat_template *template)
{
    return template->is_builtin;
}

const char *chat_template_text(const struct chat_template *template)
{
    return template->text;
}

int chat_template_takes_text(const struct chat_template *template)
{
    return template->takes_text;
}

int chat_template_takes_parts(const struct chat_template *template)
{
    return template->takes_parts;
}

enum chat_arguments chat_template_arguments(const struct chat_template *template)
{
    return template->arguments;
}

void chat_template_destroy(struct chat_template *template)
{
    if (template == NULL)
        return;
    jinja_destroy(template->plain);
    jinja_destroy(template->with_tools);
    json_decref(template->tokens);
    free(template->text);
    free(template);
}

static int has(const struct buf *text, const char *what)
{
    return text->len > 0 && memmem(text->data, text->len, what, strlen(what)) != NULL;
}

/* Render a conversation written as JSON, as it stands.  1 if the template prints
 * what it must and none of what shows that it misread the form. */
static int probe(const struct chat_template *template, const char *messages, const char *must,
                 const char *const must_not[2])
{
    struct jinja_options options = jinja_default_options();
    struct buf text;
    json_t *parsed = json_loads(messages, 0, NULL);
    options.max_steps = 200000;
    options.max_output_bytes = options.max_memory_bytes = 4u << 20;
    buf_init(&text, options.max_output_bytes);
    const struct chat_input input = { .messages = parsed, .add_generation_prompt = 1, .keep_messages = 1 };
    int good = parsed != NULL && chat_template_render(template, &input, &options, &text, NULL) == STATUS_OK &&
               has(&text, must);
    for (int i = 0; i < 2 && good; i++)
        good = must_not[i] == NULL || !has(&text, must_not[i]);
    buf_clear(&text);
    json_decref(parsed);
    return good;
}

#define PROBE_CALL(arguments)                                                                       \
    "[{\"role\": \"user\", \"content\": \"hi\"}, {\"role\": \"assistant\", \"content\": null,"      \
    " \"tool_calls\": [{\"id\": \"call00001\", \"type\": \"function\", \"function\": {\"name\": \"f\","  \
    " \"arguments\": " arguments "}}]}, {\"role\": \"tool\", \"tool_call_id\": \"call00001\","      \
    " \"name\": \"f\", \"content\": \"r\"}]"

/* Parts or arguments that are printed by str() or once too often as JSON show
 * by the quotes around their texts. */
static void run_probes(struct chat_template *template)
{
    static const char *const as_parts[2] = { "'probe_text'", "\"probe_text\"" }, *const as_text[2] = { NULL };
    static const char *const as_object[2] = { "'probe_key'" }, *const as_string[2] = { "\\\"probe_key" };
    template->takes_text = probe(template, "[{\"role\": \"user\", \"content\": \"probe_text\"}]",
                                 "probe_text",
                                 as_text);
    template->takes_parts = probe(template, "[{\"role\": \"user\", \"content\": [{\"type\": \"text\","
                                  " \"text\": \"probe_text\"}]}]", "probe_text", as_parts);
    int object = probe(template, PROBE_CALL("{\"probe_key\": \"probe_value\"}"), "probe_value", as_object);
    int text = probe(template, PROBE_CALL("\"{\\\"probe_key\\\": \\\"probe_value\\\"}\""), "probe_value",
                     as_string);
    template->arguments = text && !object ? CHAT_ARGUMENTS_TEXT : CHAT_ARGUMENTS_OBJECT;
    if (!template->takes_text && !template->takes_parts)
        template->takes_text = 1;
}

static enum status allocate(struct chat_template **out, struct error *err)
{
    *out = calloc(1, sizeof **out);
    if (*out != NULL)
        (*out)->tokens = json_object();
    if (*out != NULL && (*out)->tokens != NULL)
        return STATUS_OK;
    chat_template_destroy(*out);
    return fail(err, STATUS_NO_MEMORY, "no memory for a chat template");
}

static enum status compile_plain(struct chat_template *template, const char *text, size_t len, struct error *err)
{
    template->text = strndup(text, len);
    if (template->text == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for the text of a chat template");
    return jinja_compile(&template->plain, text, len, err);
}

static enum status compile_builtin(struct chat_template *template, struct error *err)
{
    template->is_builtin = 1;
    return compile_plain(template, builtin_text, sizeof builtin_text - 1, err);
}

enum status chat_template_create(struct chat_template **out, const char *text, size_t len,
                                 const json_t *special_tokens, struct error *err)
{
    struct chat_template *template;
    TRY(allocate(&template, err));
    enum status status = text == NULL ? compile_builtin(template, err)
                                      : compile_plain(template, text, len, err);
    if (status == STATUS_OK && special_tokens != NULL) {
        json_decref(template->tokens);
        template->tokens = json_deep_copy(special_tokens);
        if (!json_is_object(template->tokens))
            status = fail(err, STATUS_NO_MEMORY, "no memory for the special tokens of a chat template");
    }
    if (status != STATUS_OK) {
        chat_template_destroy(template);
        return status;
    }
    run_probes(template);
    *out = template;
    return STATUS_OK;
}

/* bos_token and its like: a string, or an object with the string in it. */
static enum status read_tokens(struct chat_template *template, const json_t *config, struct error *err)
{
    const char *field;
    json_t *value;
    json_object_foreach((json_t *)config, field, value) {
        size_t n = strlen(field);
        const json_t *text = json_is_object(value) ? json_object_get(value, "content") : value;
        if (n < 6 || strcmp(field + n - 6, "_token") != 0 || !json_is_string(text))
            continue;
        if (json_object_set_new(template->tokens, field, json_copy((json_t *)text)) != 0)
            return fail(err, STATUS_NO_MEMORY, "no memory for the special tokens of a chat template");
    }
    return STATUS_OK;
}

static enum status check_entry(const struct jinja_template *before, const json_t *text, const char *path,
                               struct error *err)
{
    if (before != NULL)
        return fail(err, STATUS_BAD_MODEL, "%s: chat_template has two entries of one name", path);
    if (!json_is_string(text))
        return fail(err, STATUS_BAD_MODEL, "%s: a chat_template is no string", path);
    return STATUS_OK;
}

static enum status read_plain(struct chat_template *template, const json_t *text, const char *path, struct error *err)
{
    TRY(check_entry(template->plain, text, path, err));
    return compile_plain(template, json_string_value(text), json_string_length(text), err);
}

static enum status read_with_tools(struct chat_template *template, const json_t *text, const char *path,
                                   struct error *err)
{
    TRY(check_entry(template->with_tools, text, path, err));
    return jinja_compile(&template->with_tools, json_string_value(text), json_string_length(text), err);
}

/* chat_template is text or a list of named texts; other names are for other uses. */
static enum status read_config_template(struct chat_template *template, const json_t *config,
                                        const char *path,
                                        struct error *err)
{
    const json_t *entry = json_object_get(config, "chat_template");
    if (template->plain != NULL || entry == NULL || json_is_null(entry))
        return STATUS_OK;
    if (!json_is_array(entry))
        return read_plain(template, entry, path, err);
    for (size_t i = 0; i < json_array_size(entry); i++) {
        const json_t *row = json_array_get(entry, i);
        const char *name = json_string_value(json_object_get(row, "name"));
        if (name != NULL && strcmp(name, "default") == 0)
            TRY(read_plain(template, json_object_get(row, "template"), path, err));
        else if (name != NULL && strcmp(name, "tool_use") == 0)
            TRY(read_with_tools(template, json_object_get(row, "template"), path, err));
    }
    if (template->plain == NULL)
        return fail(err, STATUS_BAD_MODEL, "%s: the list chat_template has no entry named default", path);
    return STATUS_OK;
}

static enum status read_config(struct chat_template *template, const char *path, struct error *err)
{
    json_t *config;
    if (!file_exists(path))
        return STATUS_OK;
    TRY(json_read_file(path, MAX_CONFIG_BYTES, STATUS_BAD_MODEL, &config, err));
    enum status status = json_is_object(config) ? STATUS_OK
                                                : fail(err, STATUS_BAD_MODEL, "%s holds no JSON object",
                                                       path);
    if (status == STATUS_OK)
        status = read_tokens(template, config, err);
    if (status == STATUS_OK)
        status = read_config_template(template, config, path, err);
    json_decref(config);
    return status;
}

static enum status read_template_file(struct chat_template *template, const char *path, struct error *err)
{
    struct buf text;
    if (!file_exists(path))
        return STATUS_OK;
    buf_init(&text, JINJA_MAX_SOURCE_BYTES);
    enum status status = file_read(path, &text, err);
    if (status == STATUS_OK)
        status = compile_plain(template, text.len == 0 ? "" : text.data, text.len, err);
    buf_clear(&text);
    return status;
}

static enum status path_of(char *path, const char *directory, const char *file, struct error *err)
{
    if (snprintf(path, PATH_MAX, "%s/%s", directory, file) >= PATH_MAX)
        return fail(err, STATUS_IO, "the path %.200s is too long", directory);
    return STATUS_OK;
}

static enum status read_directory(struct chat_template *template, const char *directory, struct error *err)
{
    char path[PATH_MAX];
    TRY(path_of(path, directory, "chat_template.jinja", err));
    TRY(read_template_file(template, path, err));
    TRY(path_of(path, directory, "tokenizer_config.json", err));
    TRY(read_config(template, path, err));
    return template->plain == NULL ? compile_builtin(template, err) : STATUS_OK;
}

enum status chat_template_load(struct chat_template **out, const char *directory, struct error *err)
{
    struct chat_template *template;
    TRY(allocate(&template, err));
    enum status status = read_directory(template, directory, err);
    if (status != STATUS_OK) {
        chat_template_destroy(template);
        return status;
    }
    run_probes(template);
    *out = template;
    return STATUS_OK;
}

/* Whether some message has its content as a list of parts. */
static int has_parts(const json_t *messages)
{
    for (size_t i = 0; i < json_array_size(messages); i++)
        if (json_is_array(json_object_get(json_array_get(messages, i), "content")))
            return 1;
    return 0;
}

/* Parts go to a template that reads parts, since it knows how to join them;
 * otherwise the form that it does read. */
static enum chat_content content_form(const struct chat_template *template, const json_t *messages)
{
    if (!template->takes_text)
        return CHAT_CONTENT_PARTS;
    return has_parts(messages) && !template->takes_parts ? CHAT_CONTENT_TEXT : CHAT_CONTENT_AS_IS;
}

/* A reference to value, or null: templates ask whether tools is none. */
static json_t *or_null(const json_t *value)
{
    return value == NULL ? json_null() : json_incref((json_t *)value);
}

static enum status check_variables(const json_t *variables, struct error *err)
{
    static const char *const taken[] = { "messages", "tools", "documents", "add_generation_prompt" };
    if (variables == NULL || json_is_null(variables))
        return STATUS_OK;
    if (!json_is_object(variables))
        return fail(err, STATUS_BAD_REQUEST, "chat_template_kwargs must be an object, not %s",
                    json_type_phrase(variables));
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        if (json_object_get(variables, taken[i]) != NULL)
            return fail(err, STATUS_BAD_REQUEST, "chat_template_kwargs may not set '%s'", taken[i]);
    return STATUS_OK;
}

/* The variables of the template.  tokens are copied, not shared: other threads
 * render at the same time. */
static json_t *make_context(const struct chat_template *template, const struct chat_input *input,
                            json_t *messages)
{
    json_t *context = json_deep_copy(template->tokens);
    int bad = context == NULL;
    if (json_is_object(input->variables))
        bad |= json_object_update(context, (json_t *)input->variables);
    bad |= json_object_set(context, "messages", messages);
    bad |= json_object_set_new(context, "tools", or_null(input->tools));
    bad |= json_object_set_new(context, "documents", or_null(input->documents));
    bad |= json_object_set_new(context, "add_generation_prompt", json_boolean(input->add_generation_prompt));
    if (!bad)
        return context;
    json_decref(context);
    return NULL;
}

enum status chat_template_render(const struct chat_template *template, const struct chat_input *input,
                                 const struct jinja_options *options, struct buf *out, struct error *err)
{
    json_t *messages;
    int keep = input->keep_messages;
    TRY(check_variables(input->variables, err));
    TRY(chat_messages_convert(input->messages,
                              keep ? CHAT_CONTENT_AS_IS : content_form(template, input->messages),
                              keep ? CHAT_ARGUMENTS_AS_IS : template->arguments, &messages, err));
    json_t *context = make_context(template, input, messages);
    const struct jinja_template *chosen = template->plain;
    if (template->with_tools != NULL && json_array_size(input->tools) > 0)
        chosen = template->with_tools;
    enum status status = STATUS_NO_MEMORY;
    if (context == NULL)
        fail(err, status, "no memory for the variables of a chat");
    else
        status = jinja_render(chosen, context, options, out, err);
    json_decref(context);
    json_decref(messages);
    return status;
}
