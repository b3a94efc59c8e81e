/* api_embeddings.c - POST /v1/embeddings: texts in, unit vectors out.
 *
 * A vector is the mean of the final hidden rows of the text (the engine's work), scaled to length 1 here.
 */
#include "base/json_write.h"
#include "server/api_call.h"
#include "server/api_intake.h"
#include "server/api_prompts.h"
#include "server/reply.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct embeddings_body {
    const json_t *input;
    struct body_text encoding_format;
    int64_t dimensions, priority;
    int add_special;
};

static const struct body_field fields[] = {
    { "input", BODY_ANY(struct embeddings_body, input),
      .schema = API_PROMPTS_SCHEMA,
      .help = "a text, an array of texts, an array of tokens, or an array of such arrays" },
    { "model", BODY_IGNORED, .schema = "\"type\":[\"string\",\"null\"]",
      .help = "must be a served name or absent; there is one model" },
    { "encoding_format", BODY_TEXT(struct embeddings_body, encoding_format),
      .schema = "\"enum\":[\"float\",\"base64\",null]", .help = "base64: little-endian 32-bit floats" },
    { "dimensions", BODY_INT(struct embeddings_body, dimensions), .min = 1, .max = INT32_MAX,
      .help = "must be the model's own width, if given" },
    { "add_special_tokens", BODY_FLAG(struct embeddings_body, add_special),
      .help = "put the tokenizer's special tokens around the text" },
    { "priority", BODY_INT(struct embeddings_body, priority), .min = -SCHEDULER_MAX_PRIORITY,
      .max = SCHEDULER_MAX_PRIORITY, .help = "smaller goes first, if the server's policy is priority" },
    { "user", BODY_IGNORED, .help = "a name for the end user" },
};
const struct body_table api_embeddings_fields = BODY_TABLE(fields);

/* ---- the output of the call ---- */

struct embeddings {
    const char *model;          /* the api's */
    int n, width;
    int is_base64;
    int32_t prompt_tokens;
    float *values;              /* [n][width] */
};

static enum status take_event(void *state, int prompt, const struct engine_event *event, struct buf *out,
                              struct error *err)
{
    struct embeddings *e = state;
    (void)out;
    if (event->kind == ENGINE_DONE)
        e->prompt_tokens += event->usage.prompt_tokens;
    if (event->kind != ENGINE_EMBEDDING)
        return STATUS_OK;
    if (event->position < 0 || event->n_values < 0 || event->n_values > e->width - event->position)
        return fail(err, STATUS_INTERNAL, "the embedding is wider than the model, %d", e->width);
    memcpy(e->values + (size_t)prompt * (size_t)e->width + event->position, event->values,
           (size_t)event->n_values * sizeof *event->values);
    return STATUS_OK;
}

/* To length 1; a vector of zeros stays one. */
static void normalise(float *values, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (double)values[i] * (double)values[i];
    double scale = sum > 0 ? 1 / sqrt(sum) : 0;
    for (int i = 0; i < n; i++)
        values[i] = (float)((double)values[i] * scale);
}

static enum status write_base64(const float *values, int n, struct buf *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t len = (size_t)n * sizeof *values;
    const unsigned char *bytes = (const unsigned char *)values;
    TRY(buf_add_char(out, '"'));
    for (size_t i = 0; i < len; i += 3) {
        unsigned three = (unsigned)bytes[i] << 16;
        three |= i + 1 < len ? (unsigned)bytes[i + 1] << 8 : 0;
        three |= i + 2 < len ? bytes[i + 2] : 0;
        char text[4] = { digits[three >> 18], digits[three >> 12 & 63], digits[three >> 6 & 63],
                         digits[three & 63] };
        if (i + 2 >= len)
            text[3] = '=';
        if (i + 1 >= len)
            text[2] = '=';
        TRY(buf_add(out, text, sizeof text));
    }
    return buf_add_char(out, '"');
}

static enum status write_floats(const float *values, int n, struct buf *out)
{
    TRY(buf_add_char(out, '['));
    for (int i = 0; i < n; i++) {
        if (i > 0)
            TRY(buf_add_char(out, ','));
        TRY(json_write_float(out, values[i]));
    }
    return buf_add_char(out, ']');
}

static enum status write_body(struct embeddings *e, struct buf *out)
{
    TRY(buf_add_text(out, "{\"object\":\"list\",\"data\":["));
    for (int i = 0; i < e->n; i++) {
        float *values = e->values + (size_t)i * (size_t)e->width;
        normalise(values, e->width);
        TRY(buf_printf(out, "%s{\"object\":\"embedding\",\"index\":%d,\"embedding\":", i > 0 ? "," : "", i));
        TRY(e->is_base64 ? write_base64(values, e->width, out) : write_floats(values, e->width, out));
        TRY(buf_add_char(out, '}'));
    }
    TRY(buf_add_text(out, "],\"model\":"));
    TRY(json_write_cstring(out, e->model));
    return buf_printf(out, ",\"usage\":{\"prompt_tokens\":%d,\"total_tokens\":%d}}", e->prompt_tokens,
                      e->prompt_tokens);
}

static enum status finish(void *state, struct buf *out, struct error *err)
{
    struct embeddings *e = state;
    enum status s = write_body(e, out);
    return s == STATUS_OK ? s : fail(err, s, "the reply is larger than %zu bytes", API_MAX_REPLY_BYTES);
}

static void destroy(void *state)
{
    struct embeddings *e = state;
    free(e->values);
    free(e);
}

static const struct call_output embeddings_output = { .take = take_event,
                                                      .finish = finish,
                                                      .destroy = destroy };

/* ---- the call ---- */

static enum status make_state(const struct api *api, const struct embeddings_body *b, int n_prompts,
                              struct embeddings **out, struct api_refusal *why)
{
    struct embeddings *e = calloc(1, sizeof *e);
    int width = model_config(api->options.model)->hidden;
    if (e != NULL)
        e->values = calloc((size_t)n_prompts * (size_t)width, sizeof *e->values);
    if (e == NULL || e->values == NULL) {
        free(e);
        return api_refuse(why, NULL, STATUS_NO_MEMORY, "no memory for %d embeddings", n_prompts);
    }
    e->model = api->options.model_name;
    e->n = n_prompts;
    e->width = width;
    e->is_base64 = b->encoding_format.bytes != NULL && strcmp(b->encoding_format.bytes, "base64") == 0;
    *out = e;
    return STATUS_OK;
}

static enum status fill_call(const struct embeddings_body *b, const struct api_prompts *prompts,
                             struct api_call *call, struct api_refusal *why)
{
    for (int i = 0; i < prompts->n; i++) {
        struct request *request;
        TRY(request_create(&request, &why->err));
        request->task = REQUEST_EMBED;
        request->priority = (int32_t)b->priority;
        api_call_set_request(call, i, request);
        TRY(request_set_prompt(request, prompts->prompts[i].ids, prompts->prompts[i].n, &why->err));
    }
    return STATUS_OK;
}

static enum status make_call(struct api *api, const struct embeddings_body *b, const struct api_prompts *prompts,
                             struct api_call **out, struct api_refusal *why)
{
    struct embeddings *state = NULL;
    struct api_call *call;
    TRY(make_state(api, b, prompts->n, &state, why));
    struct api_call_options options = { .api = api, .output = &embeddings_output,
                                        .state = state, .n_requests = prompts->n, .n_choices = 1 };
    enum status s = api_call_create(&call, &options, &why->err);
    if (s != STATUS_OK) {
        destroy(state);
        return s;
    }
    s = fill_call(b, prompts, call, why);
    if (s != STATUS_OK) {
        api_call_destroy(call);
        return s;
    }
    *out = call;
    return STATUS_OK;
}

static enum status check(const struct api *api, const struct embeddings_body *b, struct api_refusal *why)
{
    int width = model_config(api->options.model)->hidden;
    const char *format = b->encoding_format.bytes;
    if (format != NULL && strcmp(format, "float") != 0 && strcmp(format, "base64") != 0)
        return api_refuse(why, "encoding_format", STATUS_BAD_REQUEST,
                          "'encoding_format' must be \"float\" or \"base64\"");
    if (b->dimensions != 0 && b->dimensions != width)
        return api_refuse(why, "dimensions", STATUS_BAD_REQUEST,
                          "'dimensions' must be %d, the width of this model", width);
    return STATUS_OK;
}

static enum status read_embeddings(struct api *api, const json_t *object, struct api_intake_result *out,
                                   struct api_refusal *why)
{
    struct embeddings_body b = { .add_special = 1 };
    struct api_prompts prompts;
    TRY(body_fields_read(&api_embeddings_fields, object, &b, &why->param, &why->err));
    TRY(check(api, &b, why));
    struct api_prompts_rules rules = { .api = api, .field = "input", .add_special = b.add_special,
                                       .max_prompts = api->options.limits.max_prompts };
    TRY(api_prompts_read(&prompts, b.input, &rules, why));
    enum status s = make_call(api, &b, &prompts, &out->call, why);
    api_prompts_clear(&prompts);
    return s;
}

void api_handle_embeddings(void *context, struct http_exchange *ex)
{
    api_intake(context, ex, read_embeddings);
}
