#include "model/chat_messages.h"

#include "base/json_read.h"

#include <stdlib.h>
#include <string.h>

static enum status no_memory(struct error *err)
{
    return fail(err, STATUS_NO_MEMORY, "no memory for the messages of a chat");
}

/* Gives value to object, or frees it. */
static enum status put(json_t *object, const char *field, json_t *value, struct error *err)
{
    if (value == NULL || json_object_set_new(object, field, value) != 0)
        return no_memory(err);
    return STATUS_OK;
}

static enum status join_parts(const json_t *parts, size_t message, char *text, size_t *len, struct error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *part = json_array_get(parts, i);
        const json_t *piece = json_is_string(part) ? part : json_object_get(part, "text");
        if (!json_is_string(piece))
            return fail(err, STATUS_BAD_REQUEST,
                        "messages[%zu].content[%zu] has no text, and this model reads only text",
                        message, i);
        if (i > 0 && text != NULL)
            text[n] = '\n';
        n += i > 0;
        if (text != NULL)
            memcpy(text + n, json_string_value(piece), json_string_length(piece));
        n += json_string_length(piece);
    }
    *len = n;
    return STATUS_OK;
}

/* parts as one string, measured first. */
static enum status text_of_parts(const json_t *parts, size_t message, json_t **out, struct error *err)
{
    size_t len;
    TRY(join_parts(parts, message, NULL, &len, err));
    char *text = malloc(len + 1);
    if (text == NULL)
        return no_memory(err);
    enum status status = join_parts(parts, message, text, &len, err);
    *out = status == STATUS_OK ? json_stringn_nocheck(text, len) : NULL;
    free(text);
    return status;
}

static enum status convert_content(json_t *message, size_t index, enum chat_content form, struct error *err)
{
    json_t *content = json_object_get(message, "content"), *text = NULL;
    if (form == CHAT_CONTENT_TEXT && json_is_array(content)) {
        TRY(text_of_parts(content, index, &text, err));
        return put(message, "content", text, err);
    }
    if (form == CHAT_CONTENT_PARTS && json_is_string(content))
        return put(message, "content", json_pack("[{s:s, s:O}]", "type", "text", "text", content), err);
    return STATUS_OK;
}

/* The arguments in the form wanted, a new reference; NULL: as they are. */
static json_t *converted_arguments(json_t *arguments, enum chat_arguments form)
{
    if (form == CHAT_ARGUMENTS_OBJECT && json_is_string(arguments)) {
        json_t *parsed = json_loadb(json_string_value(arguments), json_string_length(arguments), 0, NULL);
        return json_is_object(parsed) ? parsed : (json_decref(parsed), NULL);
    }
    if (form == CHAT_ARGUMENTS_TEXT && json_is_object(arguments)) {
        char *dumped = json_dumps(arguments, 0);
        json_t *text = dumped == NULL ? NULL : json_string_nocheck(dumped);
        free(dumped);
        return text;
    }
    return NULL;
}

/* A copy of a tool call with other arguments, or the call itself. */
static json_t *converted_call(json_t *call, enum chat_arguments form)
{
    json_t *function = json_object_get(call, "function");
    json_t *arguments = converted_arguments(json_object_get(function, "arguments"), form);
    if (arguments == NULL)
        return json_incref(call);
    json_t *copy = json_copy(call), *inner = json_copy(function);
    if (copy == NULL || inner == NULL || json_object_set(inner, "arguments", arguments) != 0 ||
        json_object_set(copy, "function", inner) != 0) {
        json_decref(copy);
        copy = NULL;
    }
    json_decref(inner);
    json_decref(arguments);
    return copy;
}

static enum status convert_calls(json_t *message, enum chat_arguments form, struct error *err)
{
    const json_t *calls = json_object_get(message, "tool_calls");
    if (!json_is_array(calls) || form == CHAT_ARGUMENTS_AS_IS)
        return STATUS_OK;
    json_t *copies = json_array();
    for (size_t i = 0; i < json_array_size(calls); i++) {
        json_t *copy = converted_call(json_array_get(calls, i), form);
        if (copy == NULL || json_array_append_new(copies, copy) != 0) {
            json_decref(copies);
            return no_memory(err);
        }
    }
    return put(message, "tool_calls", copies, err);
}

/* A copy of messages[index] in the wanted forms, appended to copies. */
static enum status convert_one(const json_t *messages, size_t index, enum chat_content content,
                               enum chat_arguments arguments, json_t *copies, struct error *err)
{
    json_t *message = json_array_get(messages, index);
    if (!json_is_object(message))
        return fail(err, STATUS_BAD_REQUEST, "messages[%zu] must be an object, not %s", index,
                    json_type_phrase(message));
    json_t *copy = json_copy(message);
    if (copy == NULL || json_array_append_new(copies, copy) != 0)
        return no_memory(err);
    TRY(convert_content(copy, index, content, err));
    return convert_calls(copy, arguments, err);
}

enum status chat_messages_convert(const json_t *messages, enum chat_content content,
                                  enum chat_arguments arguments, json_t **out, struct error *err)
{
    if (!json_is_array(messages))
        return fail(err, STATUS_BAD_REQUEST, "messages must be an array, not %s",
                    messages == NULL ? "missing" : json_type_phrase(messages));
    json_t *copies = json_array();
    enum status status = copies == NULL ? no_memory(err) : STATUS_OK;
    for (size_t i = 0; i < json_array_size(messages) && status == STATUS_OK; i++)
        status = convert_one(messages, i, content, arguments, copies, err);
    if (status == STATUS_OK)
        *out = copies;
    else
        json_decref(copies);
    return status;
}
