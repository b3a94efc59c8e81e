/* cmd_generate.c - `latentd generate`: one completion on the terminal, streamed. */
#include "base/clock.h"
#include "base/log.h"
#include "server/commands.h"
#include "server/serving.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

struct generate_options {
    struct serving_options serving;
    const char *prompt;
    int max_tokens;
    double temperature;
    double top_p;
    int64_t seed;
    int timing;
};

static const struct option_row rows[] = {
    SERVING_OPTION_ROWS(struct generate_options),
    { .heading = "Text" },
    { "prompt", OPTION_STRING(struct generate_options, prompt), .fallback = "", .help = "text to continue" },
    { "max-tokens", OPTION_INT(struct generate_options, max_tokens), .fallback = "128", .min = 1, .max = 1 << 24,
      .help = "tokens to generate at most" },
    { "temperature", OPTION_DOUBLE(struct generate_options, temperature), .fallback = "0.8", .low = 0,
      .high = 1e9, .help = "0 takes the likeliest token" },
    { "top-p", OPTION_DOUBLE(struct generate_options, top_p), .fallback = "0.95", .low = 0, .high = 1,
      .help = "keep the likeliest tokens up to this probability" },
    { "seed", OPTION_INT(struct generate_options, seed), .fallback = "-1", .min = -1, .max = INT64_MAX,
      .help = "of the random numbers; -1: another one each time" },
    { "timing", OPTION_FLAG(struct generate_options, timing), .fallback = "off",
      .help = "print tokens per second at the end" },
};

const struct option_table cmd_generate_options = {
    .command = "generate",
    .help = "one completion on the terminal, streamed",
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .family = command_tables,
};

/* The engine's wake-up of this thread. */
struct signal {
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

static void on_event(void *context)
{
    struct signal *signal = context;
    pthread_mutex_lock(&signal->lock);
    pthread_cond_signal(&signal->changed);
    pthread_mutex_unlock(&signal->lock);
}

static void wait_event(struct engine *engine, struct signal *signal, struct engine_event *event)
{
    pthread_mutex_lock(&signal->lock);
    while (!engine_next_event(engine, event))
        pthread_cond_wait(&signal->changed, &signal->lock);
    pthread_mutex_unlock(&signal->lock);
}

static enum status make_request(const struct generate_options *o, const struct serving *s,
                                struct request **out, struct error *err)
{
    int32_t max = model_options(s->model)->max_length;
    int32_t *tokens = malloc((size_t)max * sizeof *tokens);
    if (tokens == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for a prompt");
    struct token_array array = { .ids = tokens, .max = (size_t)max };
    struct tokenizer_input input = { .text = o->prompt, .len = strlen(o->prompt), .add_special = 1 };
    enum status status = tokenizer_encode(s->tokenizer, &input, &array, err);
    int bos = model_config(s->model)->bos_token;
    if (status == STATUS_OK && array.n == 0 && bos >= 0)
        token_array_push(&array, bos);
    if (status == STATUS_OK && array.n == 0)
        status = fail(err, STATUS_BAD_REQUEST, "the prompt is empty and the model has no token to begin with");
    if (status == STATUS_OK)
        status = request_create(out, err);
    if (status == STATUS_OK)
        status = request_set_prompt(*out, tokens, (int32_t)array.n, err);
    free(tokens);
    TRY(status);
    struct request *r = *out;
    int32_t room = max - r->n_prompt;
    r->max_new_tokens = o->max_tokens < room ? o->max_tokens : room;
    r->sampling.temperature = o->temperature;
    r->sampling.top_p = o->top_p;
    r->sampling.seed = (uint64_t)o->seed;
    if (o->seed < 0 && getrandom(&r->sampling.seed, sizeof r->sampling.seed, 0) < 0)
        return fail(err, STATUS_IO, "the system gave no random numbers");
    r->arrival_ns = clock_now_ns();
    return STATUS_OK;
}

static void print_timing(const struct engine_usage *u)
{
    double prefill = (double)u->prefill_ns / 1e9, decode = (double)u->decode_ns / 1e9;
    fprintf(stderr, "%d prompt tokens, %.1f tokens/s; %d output tokens, %.1f tokens/s\n", u->prompt_tokens,
            prefill > 0 ? u->prompt_tokens / prefill : 0, u->output_tokens,
            decode > 0 ? (u->output_tokens - 1) / decode : 0);
}

static enum status stream(const struct generate_options *o, struct serving *s, struct signal *signal,
                          struct error *err)
{
    struct request *request = NULL;
    enum status status = make_request(o, s, &request, err);
    if (status == STATUS_OK)
        status = engine_submit(s->engine, request, err);
    struct engine_event event = { .kind = ENGINE_TOKEN };
    while (status == STATUS_OK && event.kind != ENGINE_DONE) {
        wait_event(s->engine, signal, &event);
        fwrite(event.text, 1, (size_t)event.n_text, stdout);
        fflush(stdout);
        if (event.kind == ENGINE_FAILED)
            status = fail(err, event.failure.code, "%s", event.failure.text);
    }
    if (status == STATUS_OK)
        printf("\n");
    if (status == STATUS_OK && o->timing)
        print_timing(&event.usage);
    request_destroy(request);
    return status;
}

static enum status generate(const struct generate_options *o, struct error *err)
{
    struct signal signal;
    pthread_mutex_init(&signal.lock, NULL);
    pthread_cond_init(&signal.changed, NULL);
    struct serving_hooks hooks = { .on_event = on_event, .context = &signal };
    struct serving s;
    TRY(serving_open(&s, &o->serving, &hooks, err));
    enum status status = engine_start(s.engine, err);
    if (status == STATUS_OK)
        status = stream(o, &s, &signal, err);
    engine_stop(s.engine, "done");
    engine_join(s.engine, (int64_t)60 * 1000000000);
    serving_close(&s);
    return status;
}

int cmd_generate(int argc, char **argv)
{
    struct generate_options values = { 0 };
    struct options *options;
    int done = options_begin(&options, &cmd_generate_options, argc, argv, &values);
    if (done >= 0)
        return done;
    log_set_level(LOG_WARN);
    struct error err;
    enum status status = generate(&values, &err);
    if (status != STATUS_OK)
        fprintf(stderr, "latentd: %s\n", err.text);
    options_destroy(options);
    return status == STATUS_OK ? EXIT_SUCCESS : status == STATUS_BAD_OPTION ? EXIT_USAGE : EXIT_FAILURE;
}
