#include "bench/load_chunk.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

static const char *const text_fields[] = { "content", "reasoning_content", "reasoning" };

static size_t message_bytes(const json_t *message)
{
    size_t bytes = 0;
    for (size_t i = 0; i < sizeof text_fields / sizeof text_fields[0]; i++)
        bytes += json_string_length(json_object_get(message, text_fields[i]));
    return bytes;
}

static void read_choice(struct load_chunk *out, const json_t *choice)
{
    out->text_bytes += json_string_length(json_object_get(choice, "text"));
    out->text_bytes += message_bytes(json_object_get(choice, "delta"));
    out->text_bytes += message_bytes(json_object_get(choice, "message"));
    out->n_token_ids += json_array_size(json_object_get(choice, "token_ids"));
    if (json_is_string(json_object_get(choice, "finish_reason")))
        out->is_finished = 1;
}

static int64_t count_field(const json_t *object, const char *field)
{
    json_int_t value = json_integer_value(json_object_get(object, field));
    return value > 0 ? (int64_t)value : 0;
}

static void read_usage(struct load_chunk *out, const json_t *usage)
{
    if (!json_is_object(usage))
        return;
    out->has_usage = 1;
    out->prompt_tokens = count_field(usage, "prompt_tokens");
    out->completion_tokens = count_field(usage, "completion_tokens");
    out->cached_tokens = count_field(json_object_get(usage, "prompt_tokens_details"), "cached_tokens");
}

/* {"error": {"message": ..}}, {"error": ".."} and {"message": ..} beside it are
 * all in use. */
static void read_error(struct load_chunk *out, const json_t *root)
{
    const json_t *error = json_object_get(root, "error");
    if (error == NULL || json_is_null(error) || json_is_false(error))
        return;
    out->has_error = 1;
    const char *text = json_string_value(error);
    if (text == NULL)
        text = json_string_value(json_object_get(error, "message"));
    if (text == NULL)
        text = json_string_value(json_object_get(root, "message"));
    snprintf(out->error_text, sizeof out->error_text, "%s", text != NULL ? text : "no message");
}

enum status load_chunk_parse(struct load_chunk *out, const char *data, size_t len, struct error *err)
{
    *out = (struct load_chunk){ 0 };
    if (len >= 6 && memcmp(data, "[DONE]", 6) == 0) {
        out->is_done = 1;
        return STATUS_OK;
    }
    json_error_t why;
    json_t *root = json_loadb(data, len, JSON_ALLOW_NUL, &why);
    if (root == NULL)
        return fail(err, STATUS_BAD_REQUEST, "the reply is not JSON at byte %d: %s", why.position, why.text);
    if (!json_is_object(root)) {
        json_decref(root);
        return fail(err, STATUS_BAD_REQUEST, "the reply is JSON but not an object");
    }
    const json_t *choices = json_object_get(root, "choices");
    for (size_t i = 0; i < json_array_size(choices); i++)
        read_choice(out, json_array_get(choices, i));
    read_usage(out, json_object_get(root, "usage"));
    read_error(out, root);
    json_decref(root);
    return STATUS_OK;
}
