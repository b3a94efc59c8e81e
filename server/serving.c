#include "server/serving.h"

#include "base/file.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/rng.h"
#include "model/embedded.h"
#include "parallel/topology.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_EVENTS = 4096, EMBEDDED_RANK_BYTES = 64 << 20 };

static const char *const embedded_names[] = {
    "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "generation_config.json",
};
#define N_EMBEDDED (sizeof embedded_names / sizeof embedded_names[0])

/* ---- the embedded model as a directory ---- */

/* Everything that reads a model reads a directory; the embedded files get a
 * private one for as long as loading takes (mapped weights outlive it). */
static enum status unpack_embedded(char dir[4096], struct error *err)
{
    size_t unused;
    if (embedded_file("config.json", &unused) == NULL)
        return fail(err, STATUS_NOT_FOUND, "this build has no demo model; give --model DIR");
    const char *base = getenv("TMPDIR");
    snprintf(dir, 4096, "%s/latentd-demo-XXXXXX", base != NULL && *base != '\0' ? base : "/tmp");
    if (mkdtemp(dir) == NULL)
        return fail(err, STATUS_IO, "cannot make the demo model's directory %s", dir);
    for (size_t i = 0; i < N_EMBEDDED; i++) {
        size_t len;
        const unsigned char *bytes = embedded_file(embedded_names[i], &len);
        if (bytes == NULL)
            continue;
        char path[4200];
        snprintf(path, sizeof path, "%s/%s", dir, embedded_names[i]);
        TRY(file_replace(path, bytes, len, err));
    }
    return STATUS_OK;
}

static void remove_embedded(const char *dir)
{
    for (size_t i = 0; i < N_EMBEDDED; i++) {
        char path[4200];
        snprintf(path, sizeof path, "%s/%s", dir, embedded_names[i]);
        unlink(path);
    }
    rmdir(dir);
}

/* ---- sizes ---- */

static enum status choose_ranks(const char *dir, int *out, struct error *err)
{
    struct safetensors *set;
    struct model_config config;
    TRY(safetensors_open(&set, dir, err));
    enum status s = model_config_load(dir, set, &config, err);
    safetensors_close(set);
    TRY(s);
    struct topology topology;
    topology_read(&topology);
    *out = 1;
    for (int n = 2; n <= topology.usable && n <= 16; n *= 2)
        if (model_check_ranks(&config, n, NULL) == STATUS_OK)
            *out = n;
    return STATUS_OK;
}

static void report_progress(void *context, size_t done, size_t total)
{
    progress_update(context, done, total);
}

/* Room for every seat at full length, twice, so that prefixes survive a while;
 * at most a quarter of the machine's memory. */
static size_t cache_bytes_wanted(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);
    return pages > 0 && page > 0 ? (size_t)pages * (size_t)page / 4 : (size_t)1 << 30;
}

static void fill_model_options(const struct serving_options *o, struct model_options *m)
{
    *m = (struct model_options){
        .n_ranks = o->tp,
        .weight_type = o->weights - 1,
        .cache_type = (enum cache_type)o->cache_type,
        .block_size = o->block_size,
        .mla_by_chunk = o->mla_by_chunk,
        .attention_chunk = 64 << o->attention_chunk,
        .device_memory = o->device_memory,
        .max_cache_bytes = o->device_memory > 0 ? 0 : cache_bytes_wanted(),
        .max_cache_sequences = 2 * o->max_sequences,
        .max_rows = o->max_step_tokens,
        .max_length = o->max_model_len,
        .kernels = *o->kernels != '\0' ? o->kernels : NULL,
        .bind_ranks = o->bind,
    };
}

static enum status read_fault(const char *text, int n_ranks, struct model_fault *out, struct error *err)
{
    char kind[8];
    int rank, end = 0;
    unsigned long long step;
    if (text == NULL || *text == '\0')
        return STATUS_OK;
    int n = sscanf(text, "%7[a-z]@%4d:%12llu%n", kind, &rank, &step, &end);
    int is_stall = n == 3 && strcmp(kind, "stall") == 0;
    if (n != 3 || text[end] != '\0' || (!is_stall && strcmp(kind, "die") != 0))
        return fail(err, STATUS_BAD_OPTION, "--fault is '%.40s', and must be stall@RANK:STEP or die@RANK:STEP", text);
    if (rank < 0 || rank >= n_ranks)
        return fail(err, STATUS_BAD_OPTION, "--fault names rank %d, and must be between 0 and %d", rank, n_ranks - 1);
    *out = (struct model_fault){
        .kind = is_stall ? MODEL_FAULT_STALL : MODEL_FAULT_DIE, .rank = rank, .step = step,
    };
    return STATUS_OK;
}

static enum status load_model(struct serving *s, struct error *err)
{
    struct model_options options;
    fill_model_options(&s->options, &options);
    TRY(read_fault(s->options.fault, s->options.tp, &options.fault, err));
    char what[300];
    snprintf(what, sizeof what, "loading %s", s->name);
    struct progress progress;
    progress_start(&progress, what);
    options.progress = report_progress;
    options.progress_context = &progress;
    enum status status = model_load(&s->model, s->model_dir, &options, err);
    progress_end(&progress);
    return status;
}

static void log_model(const struct serving *s)
{
    const struct model_config *c = model_config(s->model);
    const struct model_options *o = model_options(s->model);
    struct device_report device;
    model_device_report(s->model, 0, &device);
    log_info("model loaded name=%s formulation=%s layers=%d hidden=%d vocabulary=%d ranks=%d kernels=%s "
             "weights=%s cache=%s", s->name, c->attention.label, c->n_layers, c->hidden, c->vocab, o->n_ranks,
             model_kernels_name(s->model), weight_type_name((enum weight_type)o->weight_type),
             cache_type_name(o->cache_type));
    if (o->max_length > c->max_positions)
        log_warn("longer than the model's context max_length=%d context=%d", o->max_length, c->max_positions);
    log_info("cache ready tokens=%lld bytes_per_token_per_device=%zu blocks=%d block_size=%d max_length=%d",
             (long long)device.tokens_that_fit, device.cache_bytes_per_token, o->n_blocks, o->block_size,
             o->max_length);
    struct topology topology;
    topology_read(&topology);
    if (o->n_ranks > topology.usable)
        log_warn("more ranks than cores ranks=%d cores=%d", o->n_ranks, topology.usable);
}

static enum status create_engine(struct serving *s, const struct serving_hooks *hooks, struct error *err)
{
    const struct serving_options *o = &s->options;
    struct engine_options options = {
        .model = s->model, .tokenizer = s->tokenizer, .max_events = MAX_EVENTS,
        .on_event = hooks->on_event, .context = hooks->context,
        .between_steps = hooks->between_steps, .step_context = hooks->context,
        .scheduler = {
            .max_sequences = o->max_sequences, .max_step_tokens = o->max_step_tokens,
            .max_queue = o->max_queue, .max_queue_tokens = o->max_queue_tokens,
            .max_prefill_chunk = o->max_prefill_chunk, .policy = (enum scheduler_policy)o->policy,
            .prefix_cache = o->prefix_cache, .reuse_generated = o->reuse_generated,
        },
    };
    if (getrandom(&options.scheduler.key, sizeof options.scheduler.key, 0) != sizeof options.scheduler.key)
        return fail(err, STATUS_IO, "the system gave no random numbers");
    return engine_create(&s->engine, &options, err);
}

static void name_model(struct serving *s)
{
    size_t n = strlen(s->model_dir);
    while (n > 1 && s->model_dir[n - 1] == '/')
        s->model_dir[--n] = '\0';
    const char *last = strrchr(s->model_dir, '/');
    snprintf(s->name, sizeof s->name, "%s", last != NULL ? last + 1 : s->model_dir);
}

static enum status open_dir(struct serving *s, const struct serving_hooks *hooks, struct error *err)
{
    struct stat info;
    if (stat(s->model_dir, &info) != 0 || !S_ISDIR(info.st_mode))
        return fail(err, STATUS_NOT_FOUND, "%s is not a model directory", s->model_dir);
    if (s->options.tp == 0)
        TRY(choose_ranks(s->model_dir, &s->options.tp, err));
    TRY(load_model(s, err));
    TRY(tokenizer_load(&s->tokenizer, s->model_dir, err));
    if (hooks->dir_ready != NULL)
        TRY(hooks->dir_ready(hooks->context, s->model_dir, err));
    log_model(s);
    return create_engine(s, hooks, err);
}

enum status serving_open(struct serving *s, const struct serving_options *options,
                         const struct serving_hooks *hooks, struct error *err)
{
    *s = (struct serving){ .options = *options };
    int embedded = *options->model == '\0';
    if (s->options.max_step_tokens < s->options.max_sequences)
        return fail(err, STATUS_BAD_OPTION, "--max-step-tokens %d must be at least --max-sequences %d",
                    s->options.max_step_tokens, s->options.max_sequences);
    enum status status;
    if (embedded) {
        status = unpack_embedded(s->model_dir, err);
        snprintf(s->name, sizeof s->name, "demo-mlra-4");
    } else {
        snprintf(s->model_dir, sizeof s->model_dir, "%s", options->model);
        name_model(s);
        status = STATUS_OK;
    }
    if (status == STATUS_OK)
        status = open_dir(s, hooks, err);
    if (embedded && s->model_dir[0] != '\0')
        remove_embedded(s->model_dir);
    if (status != STATUS_OK)
        serving_close(s);
    return status;
}

void serving_close(struct serving *s)
{
    engine_destroy(s->engine);
    tokenizer_destroy(s->tokenizer);
    model_destroy(s->model);
    s->engine = NULL;
    s->tokenizer = NULL;
    s->model = NULL;
}
