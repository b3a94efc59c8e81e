/* api_fixture.h - the endpoints on a real HTTP server, above an engine and a model that obey the test.
 *
 * This header defines the functions of engine.h and model.h that the endpoints call, so the program is linked
 * without the real ones.  The engine accepts requests and keeps them; the test sends events for them by hand.
 *
 *   test's thread: client_* ----> loop thread: http_server, api --engine_submit--> fake.requests
 *                  fake_event(..) --queue, wake--> api_on_events
 *
 * The fake's lock guards what is not atomic.
 */
#ifndef TESTS_SERVER_API_FIXTURE_H
#define TESTS_SERVER_API_FIXTURE_H

#include "base/queue.h"
#include "model/chat_template.h"
#include "server/access_log.h"
#include "server/api.h"
#include "tests/server/bytewise_tokenizer.h"
#include "tests/server/http_fixture.h"

#include "server/engine.h"

/* cmocka has a macro of the name `fail`; (fail) is status.h's function. */

enum { FAKE_MAX_REQUESTS = 64, FAKE_MAX_LENGTH = 128, FAKE_HIDDEN = 6 };

struct engine {
    pthread_mutex_t lock;
    struct queue *events;
    struct request *requests[FAKE_MAX_REQUESTS];    /* in order of submission; stay after their end */
    int n_requests;
    int room;                       /* submissions that are accepted; then OVERLOADED */
    atomic_int n_nudges, n_resets, is_draining;
    struct engine_state state;
};

struct model {
    struct model_config config;
    struct model_options options;
};

struct api_fixture {
    struct fixture http;            /* loop, server, port: for the client_ functions */
    struct engine engine;
    struct model model;
    struct tokenizer *tokenizer;
    struct chat_template *chat_template;
    struct access_log *access_log;
    struct api *api;
    struct loop_wake *events_wake;
    atomic_int fail_all;            /* 1: the loop thread calls api_fail_all */
    atomic_size_t n_active, n_held; /* as the loop thread saw them when it was last woken */
};

/* ---- the engine ------------------------------------------------------------------------ */

enum status engine_submit(struct engine *e, struct request *request, struct error *err)
{
    enum status s = STATUS_OK;
    pthread_mutex_lock(&e->lock);
    if (e->room-- <= 0)
        s = (fail)(err, STATUS_OVERLOADED, "the queue is full");
    else if (atomic_load(&e->is_draining))
        s = (fail)(err, STATUS_BUSY, "the server is shutting down");
    else
        e->requests[e->n_requests++] = request;
    pthread_mutex_unlock(&e->lock);
    return s;
}

int engine_next_event(struct engine *e, struct engine_event *out)
{
    return queue_pop(e->events, out, 0);
}

void engine_nudge(struct engine *e)
{
    atomic_fetch_add(&e->n_nudges, 1);
}

void engine_reset_prefixes(struct engine *e)
{
    atomic_fetch_add(&e->n_resets, 1);
}

int engine_is_draining(const struct engine *e)
{
    return atomic_load(&e->is_draining);
}

void engine_read_state(const struct engine *e, struct engine_state *out)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)&e->lock;
    pthread_mutex_lock(lock);
    *out = e->state;
    pthread_mutex_unlock(lock);
}

/* ---- the model -------------------------------------------------------------------------- */

const struct model_config *model_config(const struct model *model)
{
    return &model->config;
}

const struct model_options *model_options(const struct model *model)
{
    return &model->options;
}

void model_device_report(const struct model *model, int rank, struct device_report *out)
{
    (void)model;
    *out = (struct device_report){ .heads_begin = rank, .heads_end = rank + 1, .cache_bytes = 1000,
                                   .cache_bytes_per_token = 10, .busy_ns = 5000000 };
}

/* ---- the fixture -------------------------------------------------------------------------- */

static inline void api_fixture_on_wake(void *context)
{
    struct api_fixture *f = context;
    api_on_events(f->api);
    if (atomic_exchange(&f->fail_all, 0))
        api_fail_all(f->api, "the server is shutting down");
    atomic_store(&f->n_active, api_active_count(f->api));
    atomic_store(&f->n_held, api_held_count(f->api));
}

/* Wait up to ten seconds until the loop counts between least and most in n_active or n_held. */
static inline void api_fixture_await(struct api_fixture *f, const atomic_size_t *count, size_t least, size_t most)
{
    for (int i = 0; i < 10000; i++) {
        loop_wake_send(f->events_wake);
        usleep(1000);
        size_t n = atomic_load(count);
        if (n >= least && n <= most)
            return;
    }
    fail_msg("the loop counts %zu", atomic_load(count));
}

static inline void api_fixture_on_push(void *context)
{
    struct api_fixture *f = context;
    loop_wake_send(f->events_wake);
}

static inline void api_fixture_make_model(struct model *model)
{
    model->config = (struct model_config){ .n_layers = 1, .hidden = FAKE_HIDDEN, .vocab = BYTE_N_IDS,
                                           .n_usable_tokens = BYTE_N_IDS, .max_positions = FAKE_MAX_LENGTH,
                                           .bos_token = -1, .eos_tokens = { BYTE_END }, .n_eos_tokens = 1 };
    model->config.attention.causal = 1;
    model->config.attention.n_heads = 2;
    strcpy(model->config.attention.label, "mlra");
    model->options = (struct model_options){ .n_ranks = 2, .block_size = 16, .n_blocks = 1000,
                                             .max_length = FAKE_MAX_LENGTH, .max_rows = FAKE_MAX_LENGTH };
}

static inline void api_fixture_make_api(struct api_fixture *f, const struct http_limits *limits,
                                        int64_t ping_ns)
{
    struct error err = { .text = "" };
    struct queue_options queue = { .item_bytes = sizeof(struct engine_event), .max_items = 4096,
                                   .on_push = api_fixture_on_push, .context = f };
    struct api_options api = {
        .loop = f->http.loop, .engine = &f->engine, .model = &f->model, .tokenizer = f->tokenizer,
        .chat_template = f->chat_template, .access_log = f->access_log, .model_name = "fake",
        .limits = api_limits_default(), .defaults = api_defaults_openai(), .heartbeat_ns = 1000000000,
        .ping_ns = ping_ns, .high_water_bytes = limits->high_water_bytes,
    };
    assert_int_equal(queue_create(&f->engine.events, &queue, &err), STATUS_OK);
    if (api_create(&f->api, &api, &err) != STATUS_OK)
        fail_msg("%s", err.text);
}

/* limits NULL: the defaults; ping_ns 0: never; log_path NULL: no access log. */
static inline struct api_fixture *api_fixture_start(const struct http_limits *limits, int64_t ping_ns,
                                                    const char *log_path)
{
    struct http_limits chosen = limits != NULL ? *limits : http_limits_default();
    struct api_fixture *f = calloc(1, sizeof *f);
    struct error err;
    assert_non_null(f);
    pthread_mutex_init(&f->engine.lock, NULL);
    f->engine.room = FAKE_MAX_REQUESTS;
    api_fixture_make_model(&f->model);
    f->tokenizer = bytewise_tokenizer_create();
    assert_int_equal(chat_template_create(&f->chat_template, NULL, 0, NULL, &err), STATUS_OK);
    if (log_path != NULL)
        assert_int_equal(access_log_create(&f->access_log, log_path, &f->model, &err), STATUS_OK);
    assert_int_equal(loop_create(&f->http.loop, &err), STATUS_OK);
    assert_int_equal(loop_wake_create(&f->events_wake, f->http.loop, api_fixture_on_wake, f, &err),
                     STATUS_OK);
    assert_int_equal(loop_wake_create(&f->http.wake, f->http.loop, fixture_on_wake, &f->http, &err),
                     STATUS_OK);
    api_fixture_make_api(f, &chosen, ping_ns);
    struct http_server_options options = { .loop = f->http.loop, .limits = chosen, .handle = api_handle,
                                           .admit = api_admit, .context = f->api, .log = api_log,
                                           .log_context = f->api };
    struct http_address address = { .host = "127.0.0.1" };
    assert_int_equal(http_server_create(&f->http.server, &options, &err), STATUS_OK);
    assert_int_equal(http_server_listen(f->http.server, &address, &err), STATUS_OK);
    f->http.port = http_server_port(f->http.server);
    assert_int_equal(pthread_create(&f->http.thread, NULL, fixture_thread, &f->http), 0);
    return f;
}

/* Every request must have been given its last event.  A long body may still be read. */
static inline void api_fixture_stop(struct api_fixture *f)
{
    fixture_do(&f->http, ORDER_STOP);
    pthread_join(f->http.thread, NULL);
    http_server_destroy(f->http.server);
    assert_int_equal(api_active_count(f->api), 0);
    api_destroy(f->api);
    loop_wake_destroy(f->events_wake);
    loop_wake_destroy(f->http.wake);
    loop_destroy(f->http.loop);
    access_log_destroy(f->access_log);
    chat_template_destroy(f->chat_template);
    tokenizer_destroy(f->tokenizer);
    queue_destroy(f->engine.events);
    pthread_mutex_destroy(&f->engine.lock);
    free(f);
}

/* Request number i, once it was submitted (two seconds of patience). */
static inline struct request *fake_request(struct api_fixture *f, int i)
{
    for (int k = 0; k < 2000; k++) {
        pthread_mutex_lock(&f->engine.lock);
        struct request *request = i < f->engine.n_requests ? f->engine.requests[i] : NULL;
        pthread_mutex_unlock(&f->engine.lock);
        if (request != NULL)
            return request;
        usleep(1000);
    }
    fail_msg("request %d does not come", i);
    return NULL;
}

static inline void fake_event(struct api_fixture *f, struct request *request, struct engine_event event)
{
    event.request = request;
    assert_true(queue_push(f->engine.events, &event));
}

static inline void fake_token(struct api_fixture *f, struct request *request, int choice, const char *text)
{
    struct engine_event e = { .kind = ENGINE_TOKEN, .choice = choice, .token = (unsigned char)text[0],
                              .n_text = (int32_t)strlen(text) };
    memcpy(e.text, text, strlen(text));
    fake_event(f, request, e);
}

static inline void fake_end(struct api_fixture *f, struct request *request, int choice)
{
    fake_event(f, request,
               (struct engine_event){ .kind = ENGINE_CHOICE_END,
                                      .choice = choice,
                                      .finish = FINISH_LENGTH,
                                      .stop_index = -1,
                                      .stop_token = -1 });
}

static inline void fake_done(struct api_fixture *f, struct request *request)
{
    fake_event(f, request, (struct engine_event){ .kind = ENGINE_DONE,
        .usage = { .prompt_tokens = 3, .output_tokens = 2, .queue_ns = 1000, .prefill_ns = 2000 } });
}

static inline void fake_failure(struct api_fixture *f, struct request *request, enum status code)
{
    struct engine_event e = { .kind = ENGINE_FAILED };
    (fail)(&e.failure, code, "a logit is not finite");
    fake_event(f, request, e);
}

/* Wait up to two seconds for a flag of a request that was not given back yet. */
static inline void await_flag(_Atomic int *flag, int value)
{
    for (int i = 0; i < 2000 && atomic_load(flag) != value; i++)
        usleep(1000);
    assert_int_equal(atomic_load(flag), value);
}

static inline void fake_set_state(struct api_fixture *f, struct engine_state engine)
{
    pthread_mutex_lock(&f->engine.lock);
    f->engine.state = engine;
    pthread_mutex_unlock(&f->engine.lock);
}

/* Send a POST; the reply is the caller's to read. */
static inline int client_post(const struct api_fixture *f, const char *path, const char *body)
{
    char head[256];
    int fd = client_connect(&f->http);
    snprintf(head, sizeof head, "POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n", path,
             strlen(body));
    client_send(fd, head);
    client_send(fd, body);
    return fd;
}

static inline struct reply *client_get(const struct api_fixture *f, const char *path)
{
    char head[256];
    snprintf(head, sizeof head, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", path);
    return client_ask(&f->http, head);
}

#endif
