/* model_fixture.h - tiny synthetic models of every formulation, and an engine that runs one of them, for tests. */
#ifndef TESTS_SERVER_MODEL_FIXTURE_H
#define TESTS_SERVER_MODEL_FIXTURE_H

#include "model/synth.h"
#include "server/engine.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    FIXTURE_VOCAB = 320, FIXTURE_HEADS = 8, FIXTURE_HEAD_DIM = 8, FIXTURE_HIDDEN = FIXTURE_HEADS * FIXTURE_HEAD_DIM
};

/* "KIND_gated" and "KIND_bitnet" are KIND with that flag; kind: the KIND alone. */
static inline void fixture_flags(const char *name, struct synth_spec *spec, char kind[static 32])
{
    static const char *const suffixes[] = { "_gated", "_bitnet" };
    int *flags[] = { &spec->attention.gated, &spec->attention.bitnet };
    snprintf(kind, 32, "%s", name);
    for (int i = 0; i < 2; i++) {
        char *suffix = strstr(kind, suffixes[i]);
        if (suffix == NULL)
            continue;
        *suffix = '\0';
        *flags[i] = 1;
    }
}

/* Where the tests of this process put models; made once, removed by nobody (it
 * lies in the build folder, or in the temporary one without a build). */
static inline const char *fixture_model_of(const char *name, int heads)
{
    static char dir[512];
    const char *build = getenv("LATENTD_BUILD");
    snprintf(dir, sizeof dir, "%s/tests/models", build != NULL ? build : "/tmp");
    for (char *c = dir + 1; *c != '\0'; c++)
        if (*c == '/') {
            *c = '\0';
            mkdir(dir, 0755);
            *c = '/';
        }
    mkdir(dir, 0755);
    size_t n = strlen(dir);
    snprintf(dir + n, sizeof dir - n, "/%s-%d-%ld", name, heads, (long)getpid());
    char config[600];
    snprintf(config, sizeof config, "%s/config.json", dir);
    if (access(config, R_OK) == 0)
        return dir;

    struct synth_spec spec;
    char kind[32];
    synth_spec_init(&spec);
    fixture_flags(name, &spec, kind);
    spec.kind = kind;
    spec.layers = 2;
    spec.hidden = heads * FIXTURE_HEAD_DIM;
    spec.heads = heads;
    spec.intermediate = 96;
    spec.vocab = FIXTURE_VOCAB;
    spec.max_positions = 256;
    spec.dtype = DTYPE_F32;
    spec.seed = 3;
    /* KV heads that several query heads share, where the kind has them. */
    if (strcmp(kind, "gqa") == 0)
        spec.attention.kv_heads = heads / 4;
    if (strcmp(kind, "ccgqa") == 0) {
        /* An even number of KV heads, as wide as the query heads of half the residual. */
        spec.attention.kv_heads = heads % 8 == 0 ? heads / 4 : heads / 2;
        spec.attention.latent = spec.attention.kv_heads * FIXTURE_HEAD_DIM / 2;
    }
    if (strcmp(kind, "mlra") == 0 && heads % 8 != 0)
        spec.attention.latents = 3;
    int is_paper = strcmp(kind, "mla_paper") == 0 || strncmp(kind, "mlra_", 5) == 0 || strncmp(kind, "gla_", 4) == 0;
    if (is_paper || strcmp(kind, "mla") == 0) {
        spec.attention.latent = 32;
        spec.attention.query_latent = 24;
        spec.attention.rope_dim = 8;
    }
    if (is_paper)
        spec.attention.nope_dim = 8;
    struct synth_output output = { .dir = dir };
    struct error err;
    if (synth_complete(&spec, &err) != STATUS_OK || synth_write(&spec, &output, &err) != STATUS_OK)
        fail_msg("synth %s: %s", name, err.text);
    return dir;
}

static inline const char *fixture_model(const char *kind)
{
    return fixture_model_of(kind, FIXTURE_HEADS);
}

struct running_model {
    struct model *model;
    struct tokenizer *tokenizer;
    struct engine *engine;
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

static inline void running_model_on_event(void *context)
{
    struct running_model *m = context;
    pthread_mutex_lock(&m->lock);
    pthread_cond_signal(&m->changed);
    pthread_mutex_unlock(&m->lock);
}

static inline void running_model_open(struct running_model *m, const char *dir, const struct model_options *model,
                                      const struct scheduler_options *scheduler)
{
    struct error err;
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->changed, NULL);
    if (model_load(&m->model, dir, model, &err) != STATUS_OK)
        fail_msg("load %s: %s", dir, err.text);
    if (tokenizer_load(&m->tokenizer, dir, &err) != STATUS_OK)
        fail_msg("tokenizer %s: %s", dir, err.text);
    struct engine_options options = {
        .model = m->model, .tokenizer = m->tokenizer, .scheduler = *scheduler, .max_events = 256,
        .on_event = running_model_on_event, .context = m,
    };
    if (engine_create(&m->engine, &options, &err) != STATUS_OK || engine_start(m->engine, &err) != STATUS_OK)
        fail_msg("engine: %s", err.text);
}

static inline void running_model_wait(struct running_model *m, struct engine_event *event)
{
    pthread_mutex_lock(&m->lock);
    while (!engine_next_event(m->engine, event))
        pthread_cond_wait(&m->changed, &m->lock);
    pthread_mutex_unlock(&m->lock);
}

static inline void running_model_close(struct running_model *m)
{
    engine_stop(m->engine, "the test is over");
    assert_true(engine_join(m->engine, (int64_t)30 * 1000000000));
    struct engine_event event;
    while (engine_next_event(m->engine, &event))
        if (event.kind == ENGINE_DONE || event.kind == ENGINE_FAILED)
            request_destroy(event.request);
    engine_destroy(m->engine);
    tokenizer_destroy(m->tokenizer);
    model_destroy(m->model);
    pthread_mutex_destroy(&m->lock);
    pthread_cond_destroy(&m->changed);
}

static inline int running_model_ranks_valid(const char *dir, int n_ranks)
{
    struct safetensors *set;
    struct model_config config;
    assert_int_equal(safetensors_open(&set, dir, NULL), STATUS_OK);
    assert_int_equal(model_config_load(dir, set, &config, NULL), STATUS_OK);
    safetensors_close(set);
    return model_check_ranks(&config, n_ranks, NULL) == STATUS_OK;
}

#endif
