/* serving.h - a model, its tokenizer and its engine, put together from options:
 * what `serve` and `generate` have in common.
 *
 * Threads: the one that starts the program.  Memory: at open.
 */
#ifndef SERVER_SERVING_H
#define SERVER_SERVING_H

#include "base/options.h"
#include "server/engine.h"

/* Rows of an option table whose struct has a member `serving`. */
struct serving_options {
    const char *model;          /* directory; "" is the embedded demo model */
    int tp;                     /* 0: as many ranks as there are cores and the model allows */
    int weights;                /* 0 auto, then enum weight_type + 1 */
    int cache_type;             /* enum cache_type */
    int mla_by_chunk;           /* 0 replicated, 1 by chunk */
    int attention_chunk;        /* of 64, 128, 256: which */
    int block_size;
    size_t device_memory;       /* 0: no bound */
    int max_model_len;          /* 0: as the model says */
    int max_sequences;
    int max_step_tokens;
    int max_prefill_chunk;
    int max_queue;
    int64_t max_queue_tokens;
    int policy;                 /* enum scheduler_policy */
    int prefix_cache;
    int reuse_generated;
    const char *kernels;        /* "" is the fastest */
    int bind;
    const char *fault;          /* for tests: stall@RANK:STEP or die@RANK:STEP; NULL or "" is none */
};

#define SERVING_OPTION_ROWS(type)                                                                             \
    { "model", OPTION_STRING(type, serving.model), .fallback = "", .value = "DIR",                            \
      .help = "model directory; without it the embedded demo model" },                                        \
    { .heading = "Devices" },                                                                                 \
    { "tp", OPTION_INT(type, serving.tp), .fallback = "0", .min = 0, .max = 16,                               \
      .help = "ranks (tensor-parallel devices); 0: one a core, as far as the model allows" },                 \
    { "device-memory", OPTION_SIZE(type, serving.device_memory), .fallback = "0", .min = 0,                   \
      .max = INT64_MAX, .help = "memory of one device for weights and cache; 0: no bound" },                  \
    { "weights", OPTION_CHOICE(type, serving.weights), .fallback = "auto", .choices = "auto f32 bf16 int8 int4", \
      .help = "type the weights are kept in" },                                                               \
    { "kernels", OPTION_STRING(type, serving.kernels), .fallback = "", .value = "NAME",                       \
      .help = "table of kernels: amx, avx512bf16, avx512, avx2, ref; the fastest if none" },                  \
    { "bind", OPTION_FLAG(type, serving.bind), .fallback = "on",                                              \
      .help = "keep each rank on one core when there are enough" },                                           \
    { .heading = "Cache and batching" },                                                                      \
    { "cache-type", OPTION_CHOICE(type, serving.cache_type), .fallback = "f32", .choices = "f32 bf16 int8",   \
      .help = "type of the cached latents" },                                                                 \
    { "mla-cache", OPTION_CHOICE(type, serving.mla_by_chunk), .fallback = "by-chunk",                         \
      .choices = "replicated by-chunk", .help = "MLA's cache: whole on every rank, or sharded by position" },   \
    { "attention-chunk", OPTION_CHOICE(type, serving.attention_chunk), .fallback = "256",                     \
      .choices = "64 128 256", .help = "positions whose softmax is one partial; part of what decides the bits" }, \
    { "block-size", OPTION_INT(type, serving.block_size), .fallback = "32", .min = 1, .max = 256,             \
      .help = "tokens of a cache block" },                                                                    \
    { "max-model-len", OPTION_INT(type, serving.max_model_len), .fallback = "0", .min = 0, .max = 1 << 24,    \
      .help = "longest sequence, prompt and output; 0: as the model says" },                                  \
    { "max-sequences", OPTION_INT(type, serving.max_sequences), .fallback = "32", .min = 1, .max = 1024,      \
      .help = "sequences computed in one step" },                                                             \
    { "max-step-tokens", OPTION_INT(type, serving.max_step_tokens), .fallback = "512", .min = 1,              \
      .max = 65536, .help = "tokens of one step, prefill and decode together" },                              \
    { "max-prefill-chunk", OPTION_INT(type, serving.max_prefill_chunk), .fallback = "0", .min = 0,            \
      .max = 65536, .help = "prompt tokens of one sequence in one step; 0: what the step has room for" },     \
    { "max-queue", OPTION_INT(type, serving.max_queue), .fallback = "256", .min = 0, .max = 65536,            \
      .help = "sequences that may wait; beyond it requests get 429" },                                        \
    { "max-queue-tokens", OPTION_INT(type, serving.max_queue_tokens), .fallback = "0", .min = 0,              \
      .max = INT64_MAX, .help = "prompt tokens that may wait; 0: no limit" },                                 \
    { "policy", OPTION_CHOICE(type, serving.policy), .fallback = "fcfs", .choices = "fcfs priority",          \
      .help = "order of waiting sequences" },                                                                 \
    { "prefix-cache", OPTION_FLAG(type, serving.prefix_cache), .fallback = "on",                              \
      .help = "share equal beginnings of prompts" },                                                          \
    { "reuse-generated", OPTION_FLAG(type, serving.reuse_generated), .fallback = "off",                       \
      .help = "offer blocks with generated tokens to later prompts" }

struct serving {
    struct serving_options options;
    char model_dir[4096];       /* of the files; gone by now for the embedded model */
    char name[256];             /* the directory's last part */
    struct tokenizer *tokenizer;
    struct model *model;
    struct engine *engine;
};

/* Load and assemble; the engine is created, not started.  dir_ready, if given, is
 * called while the directory's files are there, after the model was loaded (an
 * embedded model's are removed afterwards).
 * The failures of model_load, tokenizer_load and engine_create. */
struct serving_hooks {
    enum status (*dir_ready)(void *context, const char *dir, struct error *err);
    void (*on_event)(void *context);
    int (*between_steps)(void *context, struct engine *engine);     /* see engine.h; NULL: none */
    void *context;
};
MUST_CHECK enum status serving_open(struct serving *s, const struct serving_options *options,
                                    const struct serving_hooks *hooks, struct error *err);
void serving_close(struct serving *s);

#endif
