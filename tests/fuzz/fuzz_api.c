/* fuzz_api - any bytes as the body of any endpoint.
 *
 *   byte 0      the endpoint
 *   byte 1      how the engine answers: tokens, then an end, or a failure
 *   the rest    the body
 *
 * The handlers run as they are; HTTP, engine and model below them are these few functions.  For every input:
 * exactly one reply, with a status that is no accident, in JSON or in well-framed events; all of it with the
 * sanitizers on.
 */
#include "server/api_call.h"
#include "server/api_intake.h"
#include "server/http_exchange.h"
#include "server/http_exchange_private.h"
#include "server/loop.h"
#include "tests/server/bytewise_tokenizer.h"

#include "base/clock.h"
#include "model/chat_template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(what) ((what) ? (void)0 : give_up(#what))

static void give_up(const char *what)
{
    fprintf(stderr, "not so: %s\n", what);
    abort();
}

/* ---- HTTP: one exchange after the other ---- */

struct exchange {
    char *body;                     /* [len + 1] exactly, so that the sanitizer sees a read behind it */
    size_t len;
    int status, has_begun, has_ended;
    struct buf reply;
    void (*on_close)(void *context);
    void *close_context;
};

static struct exchange *exchange_of(struct http_exchange *ex)
{
    return (struct exchange *)(void *)ex;
}

static const struct exchange *const_exchange_of(const struct http_exchange *ex)
{
    return (const struct exchange *)(const void *)ex;
}

const char *http_exchange_method(const struct http_exchange *ex) { (void)ex; return "POST"; }
const char *http_exchange_path(const struct http_exchange *ex) { (void)ex; return "/"; }
const char *http_exchange_header(const struct http_exchange *ex, const char *name)
{
    (void)ex;
    return strcmp(name, "traceparent") == 0 ? "00-00-00-00" : NULL;
}
const char *http_exchange_body(const struct http_exchange *ex) { return const_exchange_of(ex)->body; }
size_t http_exchange_body_bytes(const struct http_exchange *ex) { return const_exchange_of(ex)->len; }
void http_exchange_take_body(struct http_exchange *ex, struct buf *out)
{
    (void)ex, (void)out;
    REQUIRE(0);                     /* long bodies are read by the same code, on another thread */
}
const char *http_exchange_id(const struct http_exchange *ex) { return const_exchange_of(ex)->body; }
const char *http_exchange_request_id(const struct http_exchange *ex) { (void)ex; return "id"; }
const char *http_exchange_peer(const struct http_exchange *ex) { (void)ex; return "peer"; }
int64_t http_exchange_arrival_ns(const struct http_exchange *ex) { (void)ex; return clock_now_ns(); }
size_t http_pending_bytes(const struct http_exchange *ex) { return const_exchange_of(ex)->reply.len; }
int http_stream_has_begun(const struct http_exchange *ex) { return const_exchange_of(ex)->has_begun; }
void http_on_drain(struct http_exchange *ex, void (*on_drain)(void *), void *context)
{
    (void)ex, (void)on_drain, (void)context;
}
void http_on_close(struct http_exchange *ex, void (*on_close)(void *), void *context)
{
    exchange_of(ex)->on_close = on_close;
    exchange_of(ex)->close_context = context;
}
void http_reply_header(struct http_exchange *ex, const char *name, const char *value)
{
    REQUIRE(!exchange_of(ex)->has_begun && strpbrk(name, "\r\n") == NULL && strpbrk(value, "\r\n") == NULL);
}
enum status http_exchange_set_id(struct http_exchange *ex, const char *text, size_t len)
{
    (void)ex, (void)text, (void)len;
    return STATUS_OK;
}

void http_reply(struct http_exchange *ex, int status, const char *content_type, const void *body, size_t len)
{
    struct exchange *e = exchange_of(ex);
    REQUIRE(!e->has_begun && !e->has_ended && content_type != NULL && len > 0);
    e->status = status;
    e->has_begun = e->has_ended = 1;
    REQUIRE(buf_add(&e->reply, body, len) == STATUS_OK);
}

void http_stream_begin(struct http_exchange *ex, const char *content_type)
{
    struct exchange *e = exchange_of(ex);
    REQUIRE(!e->has_begun && strcmp(content_type, HTTP_EVENTS) == 0);
    e->status = 200;
    e->has_begun = 1;
}

void http_stream_write(struct http_exchange *ex, const void *bytes, size_t len)
{
    struct exchange *e = exchange_of(ex);
    REQUIRE(e->has_begun && !e->has_ended);
    REQUIRE(buf_add(&e->reply, bytes, len) == STATUS_OK);
}

void http_stream_end(struct http_exchange *ex)
{
    REQUIRE(exchange_of(ex)->has_begun && !exchange_of(ex)->has_ended);
    exchange_of(ex)->has_ended = 1;
}

/* ---- engine and model ---- */

enum { MAX_REQUESTS = 1024 };

struct engine {
    struct request *requests[MAX_REQUESTS];
    int n_requests;
};

struct model {
    struct model_config config;
    struct model_options options;
};

enum status engine_submit(struct engine *e, struct request *request, struct error *err)
{
    REQUIRE(request->n_prompt >= 1 && request->n_choices >= 1 && request->max_new_tokens >= 0);
    REQUIRE(request->n_prompt + request->max_new_tokens <= 512);
    for (int32_t i = 0; i < request->n_prompt; i++)
        REQUIRE(request->prompt[i] >= 0 && request->prompt[i] < BYTE_N_IDS);
    REQUIRE(sampling_params_check(&request->sampling, BYTE_N_IDS, err) == STATUS_OK);
    REQUIRE(stop_strings_check(request->stops, request->n_stops, &STOP_LIMITS_DEFAULT, err) == STATUS_OK);
    REQUIRE(e->n_requests < MAX_REQUESTS);
    e->requests[e->n_requests++] = request;
    return STATUS_OK;
}

int engine_next_event(struct engine *e, struct engine_event *out) { (void)e, (void)out; return 0; }
void engine_nudge(struct engine *e) { (void)e; }
void engine_reset_prefixes(struct engine *e) { (void)e; }
int engine_is_draining(const struct engine *e) { (void)e; return 0; }
void engine_read_state(const struct engine *e, struct engine_state *out)
{
    (void)e;
    *out = (struct engine_state){ .n_blocks = 1 };
}
const struct model_config *model_config(const struct model *model) { return &model->config; }
const struct model_options *model_options(const struct model *model) { return &model->options; }
void model_device_report(const struct model *model, int rank, struct device_report *out)
{
    (void)model, (void)rank;
    *out = (struct device_report){ .heads_end = 1 };
}

/* ---- one input ---- */

static void send_event(struct request *request, struct engine_event event)
{
    event.request = request;
    event.stop_index = event.stop_token = -1;
    api_call_take(request->owner, &event, clock_now_ns());
}

static void answer(struct request *request, uint8_t how)
{
    for (int choice = 0; request->task == REQUEST_GENERATE && choice < request->n_choices; choice++) {
        for (int i = 0; i < (how & 3); i++)
            send_event(request, (struct engine_event){ .kind = ENGINE_TOKEN, .choice = choice,
                                                       .token = (how * 7 + i) % BYTE_N_IDS,
                                                       .n_text = 1, .text = "x" });
        if ((how & 4) == 0)
            send_event(request, (struct engine_event){ .kind = ENGINE_CHOICE_END, .choice = choice });
    }
    struct engine_event last = { .kind = (how & 4) != 0 ? ENGINE_FAILED : ENGINE_DONE };
    fail(&last.failure, STATUS_INTERNAL, "a device failed");
    send_event(request, last);
}

/* What every reply keeps. */
static void check_reply(const struct exchange *e)
{
    static const char end[] = "data: [DONE]\n\n";
    REQUIRE(e->has_ended);
    REQUIRE(e->status == 200 || (e->status >= 400 && e->status <= 413) || e->status == 500 ||
            e->status == 501);
    if (strncmp(e->reply.data, "data: ", 6) == 0) {
        REQUIRE(e->reply.len >= sizeof end - 1);
        REQUIRE(strcmp(e->reply.data + e->reply.len - (sizeof end - 1), end) == 0);
        return;
    }
    /* A token's text may be a name in top_logprobs, also that of the byte 0, which jansson refuses. */
    json_error_t where;
    json_t *json = json_loadb(e->reply.data, e->reply.len, JSON_ALLOW_NUL, &where);
    REQUIRE(json != NULL || json_error_code(&where) == json_error_null_byte_in_key);
    REQUIRE(e->status == 200 || json_is_object(json_object_get(json, "error")));
    json_decref(json);
}

static struct api *make_api(struct engine *engine, struct model *model)
{
    static const char *const aliases[] = { "other" };
    struct api_options options = {
        .engine = engine, .model = model, .tokenizer = bytewise_tokenizer_create(), .model_name = "fuzz",
        .aliases = aliases, .n_aliases = 1, .limits = api_limits_default(), .defaults = api_defaults_openai(),
        .high_water_bytes = 1 << 20,
    };
    struct chat_template *template = NULL;
    struct loop *loop = NULL;
    struct api *api = NULL;
    /* Small bounds: what is looked for is not slowness. */
    options.limits.grammar.max_code = 20000;
    options.limits.grammar.max_states = 256;
    options.limits.max_choices = 4;
    options.limits.max_prompts = 8;
    *model = (struct model){
        .config = { .vocab = BYTE_N_IDS, .n_usable_tokens = BYTE_N_IDS, .hidden = 4, .n_layers = 1,
                    .eos_tokens = { BYTE_END }, .n_eos_tokens = 1,
                    .attention = { .causal = 1, .label = "mla" } },
        .options = { .n_ranks = 1, .block_size = 16, .n_blocks = 100, .max_length = 512, .max_rows = 512 },
    };
    REQUIRE(chat_template_create(&template, NULL, 0, NULL, NULL) == STATUS_OK);
    REQUIRE(loop_create(&loop, NULL) == STATUS_OK);
    options.chat_template = template;
    options.loop = loop;
    REQUIRE(api_create(&api, &options, NULL) == STATUS_OK);
    return api;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const handlers[])(void *context, struct http_exchange *ex) = {
        api_handle_completions, api_handle_chat, api_handle_embeddings, api_handle_tokenize,
        api_handle_detokenize, api_handle_model,
    };
    static struct api *api;
    static struct engine engine;
    static struct model model;
    if (size < 2 || size > API_INTAKE_SHORT_BYTES)
        return 0;
    if (api == NULL)
        api = make_api(&engine, &model);
    struct exchange e = { .len = size - 2, .body = malloc(size - 1) };
    REQUIRE(e.body != NULL);
    memcpy(e.body, data + 2, e.len);
    e.body[e.len] = '\0';
    buf_init(&e.reply, 1 << 28);
    engine.n_requests = 0;
    handlers[data[0] % (sizeof handlers / sizeof handlers[0])](api, (struct http_exchange *)(void *)&e);
    if (engine.n_requests > 0 && (data[1] & 8) != 0)
        e.on_close(e.close_context);        /* the client leaves before the first event */
    for (int i = 0; i < engine.n_requests; i++)
        answer(engine.requests[i], data[1]);
    if (engine.n_requests == 0 || (data[1] & 8) == 0)
        check_reply(&e);
    REQUIRE(api_held_count(api) == 0 && api_active_count(api) == 0);
    free(e.body);
    buf_clear(&e.reply);
    return 0;
}
