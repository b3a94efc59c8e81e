/* api_chat.c - POST /v1/chat/completions: messages through the model's template, then as a completion. */
#include "base/json_read.h"
#include "model/chat_template.h"
#include "server/api_error.h"
#include "server/api_generate.h"
#include "server/api_intake.h"

#include <string.h>

#define MAX_CHAT_BYTES ((size_t)16 << 20)
enum { MAX_ROLE_BYTES = 64 };

struct chat_body {
    struct generate_body g;
    const json_t *messages, *tools, *tool_choice, *documents, *variables;
    int64_t top_logprobs;
    int want_logprobs, add_generation_prompt;
};

static const struct body_field fields[] = {
    { "messages", BODY_ARRAY(struct chat_body, messages),
      .schema =
          "\"type\":\"array\",\"minItems\":1,\"items\":{\"type\":\"object\",\"required\":[\"role\"],"
          "\"properties\":{\"role\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":64},"
          "\"content\":{\"oneOf\":[{\"type\":\"string\"},{\"type\":\"array\",\"items\":{\"type\":\"object\"}},"
          "{\"type\":\"null\"}]}}}",
      .help = "the conversation; content is a text or an array of text parts" },
    GENERATE_FIELDS(struct chat_body),
    { "max_completion_tokens", BODY_INT(struct chat_body, g.max_tokens), .min = -1,
      .max = GENERATE_MAX_TOKENS, .help = "the newer name of max_tokens" },
    { "logprobs", BODY_FLAG(struct chat_body, want_logprobs), .help = "log-probabilities of the tokens" },
    { "top_logprobs", BODY_INT(struct chat_body, top_logprobs), .min = 0, .max = SAMPLING_MAX_TOP,
      .help = "and of so many likeliest ones; needs logprobs" },
    { "tools", BODY_ARRAY(struct chat_body, tools),
      .schema = "\"type\":[\"array\",\"null\"],\"items\":{\"type\":\"object\"}",
      .help = "given to the template; a call of one comes back as text" },
    { "tool_choice", BODY_ANY(struct chat_body, tool_choice), .schema = "\"enum\":[\"none\",\"auto\",null]",
      .help = "none: the template is given no tools" },
    { "documents", BODY_ARRAY(struct chat_body, documents), .help = "given to the template" },
    { "chat_template_kwargs", BODY_OBJECT(struct chat_body, variables),
      .help = "variables of the template" },
    { "add_generation_prompt", BODY_FLAG(struct chat_body, add_generation_prompt),
      .help = "end the prompt with the beginning of the assistant's turn" },
    { "add_special_tokens", BODY_FLAG(struct chat_body, g.add_special),
      .help = "add the tokenizer's special tokens to those of the template" },
    { "chat_template", BODY_REFUSED, .help = "the template is the model's" },
    { "continue_final_message", BODY_REFUSED, .help = "use /v1/completions" },
    { "functions", BODY_REFUSED, .help = "use tools" },
    { "echo", BODY_REFUSED, .help = "use /v1/completions" },
    { "parallel_tool_calls", BODY_IGNORED, .help = "calls come back as text" },
};
const struct body_table api_chat_fields = BODY_TABLE(fields);

/* ---- the conversation, checked ---- */

static enum status check_part(const json_t *part, size_t at, struct api_refusal *why)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    if (!json_is_object(part) || type == NULL)
        return api_refuse(why, "messages", STATUS_BAD_REQUEST,
                          "a content part of message %zu in 'messages' must be an "
                          "object with a \"type\"",
                          at);
    if (strcmp(type, "text") != 0)
        return api_refuse(why, "messages", STATUS_BAD_REQUEST,
                          "message %zu in 'messages' has a content part that is no "
                          "text; this model reads text only",
                          at);
    if (!json_is_string(json_object_get(part, "text")))
        return api_refuse(why, "messages", STATUS_BAD_REQUEST,
                          "a text part of message %zu in 'messages' needs a string "
                          "\"text\"",
                          at);
    return STATUS_OK;
}

static enum status check_message(const json_t *message, size_t at, struct api_refusal *why)
{
    const json_t *role = json_object_get(message, "role");
    const json_t *content = json_object_get(message, "content");
    if (!json_is_object(message))
        return api_refuse(why, "messages", STATUS_BAD_REQUEST,
                          "message %zu in 'messages' must be an object, got %s", at,
                          json_type_phrase(message));
    if (!json_is_string(role) || json_string_length(role) == 0 || json_string_length(role) > MAX_ROLE_BYTES)
        return api_refuse(why, "messages", STATUS_BAD_REQUEST,
                          "message %zu in 'messages' needs a string \"role\" of at "
                          "most %d bytes",
                          at, MAX_ROLE_BYTES);
    if (content != NULL && !json_is_null(content) && !json_is_string(content) && !json_is_array(content))
        return api_refuse(why, "messages", STATUS_BAD_REQUEST,
                          "the content of message %zu in 'messages' must be a string "
                          "or an array of parts, got %s",
                          at, json_type_phrase(content));
    for (size_t i = 0; json_is_array(content) && i < json_array_size(content); i++)
        TRY(check_part(json_array_get(content, i), at, why));
    return STATUS_OK;
}

static enum status check_messages(const json_t *messages, struct api_refusal *why)
{
    if (json_array_size(messages) == 0)
        return api_refuse(why, "messages", STATUS_BAD_REQUEST,
                          "'messages' must be an array with at least one message");
    for (size_t i = 0; i < json_array_size(messages); i++)
        TRY(check_message(json_array_get(messages, i), i, why));
    return STATUS_OK;
}

/* "none" hides the tools from the template; a call that must happen cannot be promised. */
static enum status check_tools(struct chat_body *b, struct api_refusal *why)
{
    for (size_t i = 0; i < json_array_size(b->tools); i++)
        if (!json_is_object(json_array_get(b->tools, i)))
            return api_refuse(why, "tools", STATUS_BAD_REQUEST,
                              "tool %zu in 'tools' must be an object, got %s", i,
                              json_type_phrase(json_array_get(b->tools, i)));
    if (json_array_size(b->tools) == 0)
        b->tools = NULL;
    if (b->tool_choice == NULL)
        return STATUS_OK;
    const char *choice = json_string_value(b->tool_choice);
    if (choice == NULL || (strcmp(choice, "none") != 0 && strcmp(choice, "auto") != 0))
        return api_refuse(why, "tool_choice", STATUS_BAD_REQUEST,
                          "'tool_choice' must be \"none\" or \"auto\": a call "
                          "cannot be forced here");
    if (strcmp(choice, "none") == 0)
        b->tools = NULL;
    return STATUS_OK;
}

static enum status check(struct chat_body *b, struct api_refusal *why)
{
    TRY(check_messages(b->messages, why));
    TRY(check_tools(b, why));
    if (b->top_logprobs > 0 && !b->want_logprobs)
        return api_refuse(why, "top_logprobs", STATUS_BAD_REQUEST,
                          "'top_logprobs' needs 'logprobs' to be true");
    return STATUS_OK;
}

/* ---- the prompt ---- */

/* Messages of the role "developer" as "system", for templates that would drop them; a new array. */
static json_t *rename_developer(const json_t *messages)
{
    json_t *renamed = json_array();
    for (size_t i = 0; renamed != NULL && i < json_array_size(messages); i++) {
        json_t *message = json_copy(json_array_get(messages, i));
        const char *role = json_string_value(json_object_get(message, "role"));
        if (message == NULL ||
            (strcmp(role, "developer") == 0 &&
             json_object_set_new(message, "role", json_string("system")) != 0) ||
            json_array_append_new(renamed, message) != 0) {
            json_decref(renamed);
            return NULL;
        }
    }
    return renamed;
}

static enum status render(const struct api *api, const struct chat_body *b, struct buf *out,
                          struct api_refusal *why)
{
    struct jinja_options options = jinja_default_options();
    struct chat_input input = { .messages = b->messages,
                                .tools = b->tools,
                                .documents = b->documents,
                                .variables = b->variables,
                                .add_generation_prompt = b->add_generation_prompt };
    json_t *renamed = NULL;
    why->param = "messages";
    if (!api->takes_developer) {
        renamed = rename_developer(b->messages);
        if (renamed == NULL)
            return api_refuse(why, NULL, STATUS_NO_MEMORY, "no memory for the messages");
        input.messages = renamed;
    }
    enum status s = chat_template_render(api->options.chat_template, &input, &options, out, &why->err);
    json_decref(renamed);
    return s;
}

int api_chat_takes_developer(const struct chat_template *template)
{
    static const char mark[] = "developer's word";
    struct jinja_options options = jinja_default_options();
    struct buf out;
    json_t *messages = json_pack("[{s:s,s:s},{s:s,s:s}]", "role", "developer", "content", mark,
                                 "role", "user", "content", "hello");
    struct chat_input input = { .messages = messages, .add_generation_prompt = 1 };
    buf_init(&out, MAX_CHAT_BYTES);
    int takes = chat_template_render(template, &input, &options, &out, NULL) == STATUS_OK && out.len > 0 &&
                strstr(out.data, mark) != NULL;
    buf_clear(&out);
    json_decref(messages);
    return takes;
}

static enum status read_prompt(const struct api *api, const struct chat_body *b, struct api_prompt *prompt,
                               struct buf *text, struct api_refusal *why)
{
    struct api_prompts_rules rules = { .api = api, .field = "messages", .add_special = b->g.add_special };
    TRY(render(api, b, text, why));
    enum status s = api_prompt_encode(prompt, text->len > 0 ? text->data : "", text->len, &rules, why);
    prompt->text = NULL;
    return s;
}

/* ---- the endpoint ---- */

static enum status make_call(struct api *api, const struct chat_body *b, struct api_prompt *prompt,
                             struct api_call **out, struct api_refusal *why)
{
    struct api_prompts prompts = { .prompts = prompt, .n = 1 };
    struct generate_extra extra = {
        .param = "messages", .n_choices = (int)b->g.n, .default_max_tokens = -1,
        .want_logprob = b->want_logprobs, .n_top = (int)b->top_logprobs,
    };
    struct api_generate_options options = {
        .api = api, .body = &b->g, .prompts = &prompts, .extra = &extra, .shape = REPLY_CHAT,
        .id_prefix = "chatcmpl-", .n_returned = (int)b->g.n, .want_logprobs = b->want_logprobs,
    };
    return api_generate_make(&options, out, why);
}

static enum status read_fields(struct api *api, const json_t *object, struct chat_body *b, struct api_call **out,
                               struct api_refusal *why)
{
    struct api_prompt prompt = { .ids = NULL };
    struct buf text;
    TRY(body_fields_read(&api_chat_fields, object, b, &why->param, &why->err));
    TRY(check(b, why));
    TRY(generate_check(&b->g, api, 1, (int)b->g.n, why));
    buf_init(&text, MAX_CHAT_BYTES);
    enum status s = read_prompt(api, b, &prompt, &text, why);
    buf_clear(&text);
    if (s == STATUS_OK)
        s = make_call(api, b, &prompt, out, why);
    api_prompt_clear(&prompt);
    return s;
}

static enum status read_chat(struct api *api, const json_t *object, struct api_intake_result *out,
                             struct api_refusal *why)
{
    struct chat_body body = { .add_generation_prompt = 1 };
    generate_body_init(&body.g, api);
    body.g.add_special = 0;
    enum status s = read_fields(api, object, &body, &out->call, why);
    generate_body_clear(&body.g);
    return s;
}

void api_handle_chat(void *context, struct http_exchange *ex)
{
    struct api *api = context;
    if (api->options.chat_template == NULL)
        api_error_reply(ex, &(struct api_error){ .status = 501, .message = "this model has no chat format" });
    else
        api_intake(api, ex, read_chat);
}

/* For /tokenize, which shows the prompt that a conversation becomes. */
enum status api_chat_encode(const struct api *api, const json_t *object, struct api_prompt *prompt,
                            struct api_refusal *why)
{
    struct chat_body body = { .add_generation_prompt = 1 };
    struct buf text;
    *prompt = (struct api_prompt){ .ids = NULL };
    if (api->options.chat_template == NULL)
        return api_refuse(why, "messages", STATUS_UNSUPPORTED, "this model has no chat format");
    generate_body_init(&body.g, api);
    body.g.add_special = 0;
    TRY(body_fields_read(&api_chat_fields, object, &body, &why->param, &why->err));
    TRY(check(&body, why));
    buf_init(&text, MAX_CHAT_BYTES);
    enum status s = read_prompt(api, &body, prompt, &text, why);
    buf_clear(&text);
    return s;
}
