#include "server/api_intake.h"

#include "base/json_read.h"
#include "server/api_call.h"
#include "server/api_error.h"
#include "server/body_fields.h"
#include "server/http_exchange.h"
#include "server/loop.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct api_intake {
    struct api *api;
    struct http_exchange *exchange;     /* NULL once the client has its reply or has left */
    struct api_intake *next;            /* in order of arrival */
    struct loop_work *work;             /* NULL: it waits */
    api_reader read;
    struct buf body;                    /* taken from the exchange */
    /* made by the worker */
    enum status status;
    struct api_intake_result result;
    struct api_refusal why;
};

/* ---- reading: any thread ---- */

static enum status check_model(const struct api *api, const json_t *object, struct api_refusal *why)
{
    struct json_reader r = { .object = object, .where = "", .code = STATUS_BAD_REQUEST };
    const char *name = NULL;
    size_t len = 0;
    why->param = "model";
    TRY(json_read_string(&r, "model", &name, &len, &why->err));
    why->param = NULL;
    if (name == NULL || len == 0 || api_serves_model(api, name, len))
        return STATUS_OK;
    why->code = "model_not_found";
    return api_refuse(why, "model", STATUS_NOT_FOUND,
                      "no model of that name is served here; /v1/models lists what is");
}

static enum status read_parsed(struct api *api, const json_t *body, api_reader read,
                               struct api_intake_result *out, struct api_refusal *why)
{
    *out = (struct api_intake_result){ .call = NULL };
    buf_init(&out->reply, API_MAX_REPLY_BYTES);
    TRY(check_model(api, body, why));
    return read(api, body, out, why);
}

static enum status read_body(struct api *api, const char *bytes, size_t len, api_reader read,
                             struct api_intake_result *out, struct api_refusal *why)
{
    json_t *body;
    TRY(body_parse(bytes, len, &body, &why->err));
    enum status s = read_parsed(api, body, read, out, why);
    json_decref(body);
    return s;
}

/* ---- what comes of it: the loop thread ---- */

static void conclude(struct http_exchange *ex, enum status s, struct api_intake_result *result,
                     const struct api_refusal *why)
{
    if (s != STATUS_OK)
        api_refusal_reply(ex, why);
    else if (result->call != NULL)
        api_call_submit(result->call, ex);
    else
        http_reply(ex, 200, HTTP_JSON, result->reply.data, result->reply.len);
    result->call = NULL;
    buf_clear(&result->reply);
}

static void drop(struct api_intake *intake)
{
    if (intake->status == STATUS_OK && intake->result.call != NULL)
        api_call_destroy(intake->result.call);
    buf_clear(&intake->result.reply);
    buf_clear(&intake->body);
    free(intake);
}

static void unlink_intake(struct api_intake *intake)
{
    struct api_intake **at = &intake->api->intakes;
    while (*at != intake)
        at = &(*at)->next;
    *at = intake->next;
}

static void run(void *context)
{
    struct api_intake *intake = context;
    intake->status = read_body(intake->api, intake->body.data, intake->body.len, intake->read, &intake->result,
                               &intake->why);
    buf_clear(&intake->body);
}

static void start_waiting(struct api *api);

static void done(void *context)
{
    struct api_intake *intake = context;
    struct api *api = intake->api;
    unlink_intake(intake);
    if (intake->exchange != NULL)
        conclude(intake->exchange, intake->status, &intake->result, &intake->why);
    drop(intake);
    start_waiting(api);
}

/* The reply is given by someone else, or nobody waits for it. */
static void let_go(struct api_intake *intake)
{
    intake->exchange = NULL;
    if (intake->work != NULL)
        return;
    unlink_intake(intake);
    drop(intake);
}

static void on_close(void *context)
{
    let_go(context);
}

/* Hand the first that wait to workers, as far as there are any. */
static void start_waiting(struct api *api)
{
    int n_read = 0;
    struct api_intake *next;
    for (struct api_intake *intake = api->intakes; intake != NULL && n_read < API_INTAKE_WORKERS; intake = next) {
        struct error err;
        next = intake->next;
        if (intake->work == NULL &&
            loop_work_start(&intake->work, api->options.loop, run, done, intake, &err) != STATUS_OK) {
            api_error_reply_failure(intake->exchange, &err, NULL, NULL);
            let_go(intake);
            continue;
        }
        n_read++;
    }
}

static void read_beside(struct api *api, struct http_exchange *ex, api_reader read)
{
    struct api_intake *intake = calloc(1, sizeof *intake);
    if (intake == NULL) {
        api_error_reply(ex, &(struct api_error){ .status = 500, .message = "no memory for the request" });
        return;
    }
    *intake = (struct api_intake){ .api = api, .exchange = ex, .read = read, .why = API_REFUSAL_NONE };
    http_exchange_take_body(ex, &intake->body);
    http_on_close(ex, on_close, intake);
    struct api_intake **last = &api->intakes;
    while (*last != NULL)
        last = &(*last)->next;
    *last = intake;
    start_waiting(api);
}

/* ---- the whole ---- */

/* JSON, nothing, or what curl -d says when it is told nothing. */
static int is_json_type(const char *type)
{
    static const char *const types[] = { "application/json", "application/x-www-form-urlencoded" };
    if (type == NULL)
        return 1;
    size_t len = strcspn(type, "; \t");
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (len == strlen(types[i]) && strncasecmp(type, types[i], len) == 0)
            return 1;
    return len == 0;
}

/* Every prompt is tokenised and has biases and stops of its own. */
static int has_many_prompts(const json_t *body)
{
    static const char *const names[] = { "prompt", "input" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const json_t *prompts = json_object_get(body, names[i]);
        if (json_array_size(prompts) > API_INTAKE_FEW_PROMPTS && !json_is_integer(json_array_get(prompts, 0)))
            return 1;
    }
    return 0;
}

/* 0: the body is better read beside the loop. */
static int read_here(struct api *api, struct http_exchange *ex, api_reader read)
{
    struct api_refusal why = API_REFUSAL_NONE;
    struct api_intake_result result = { .call = NULL };
    json_t *body = NULL;
    size_t len = http_exchange_body_bytes(ex);
    if (len > API_INTAKE_SHORT_BYTES)
        return 0;
    enum status s = body_parse(http_exchange_body(ex), len, &body, &why.err);
    int is_here = s != STATUS_OK || !has_many_prompts(body);
    if (is_here && s == STATUS_OK)
        s = read_parsed(api, body, read, &result, &why);
    if (is_here)
        conclude(ex, s, &result, &why);
    json_decref(body);
    return is_here;
}

void api_intake(struct api *api, struct http_exchange *ex, api_reader read)
{
    if (!is_json_type(http_exchange_header(ex, "content-type"))) {
        api_error_reply(
            ex, &(struct api_error){ .status = 415, .message = "the body must be application/json" });
        return;
    }
    if (!read_here(api, ex, read))
        read_beside(api, ex, read);
}

void api_intakes_fail(struct api *api, const struct error *failure)
{
    struct api_intake *next;
    for (struct api_intake *intake = api->intakes; intake != NULL; intake = next) {
        next = intake->next;
        if (intake->exchange == NULL)
            continue;
        api_error_reply_failure(intake->exchange, failure, NULL, NULL);
        let_go(intake);
    }
}

void api_intakes_join(struct api *api)
{
    struct api_intake *next;
    for (struct api_intake *intake = api->intakes; intake != NULL; intake = next) {
        next = intake->next;
        if (intake->work != NULL)
            loop_work_join(intake->work);
        drop(intake);
    }
    api->intakes = NULL;
}

size_t api_intakes_count(const struct api *api, int with_client)
{
    size_t n = 0;
    for (const struct api_intake *intake = api->intakes; intake != NULL; intake = intake->next)
        n += !with_client || intake->exchange != NULL;
    return n;
}
