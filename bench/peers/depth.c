/* depth.c - llama.cpp's tokens a second behind a long context, without computing one.
 *
 *     depth MODEL.gguf THREADS DEPTH TOKENS
 *
 * llama-bench fills its cache with one long prompt, whose attention at a depth of 32768 takes an hour here.  The
 * time of a token depends on how many rows the cache holds, not on what is in them: so short sequences are computed,
 * each at its place in the long one, and their rows are then given to one sequence.  Prints the tokens a second of each
 * of TOKENS steps of one token, after one that is not counted, as llama-bench has it; JSON.
 * Built by bench/peers/build, with llama.cpp's own library and options.
 */
#include <llama.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { PIECE = 256, BATCH = 512 };

static void quiet(enum ggml_log_level level, const char *text, void *user)
{
    (void)user;
    if (level == GGML_LOG_LEVEL_ERROR)
        fputs(text, stderr);
}

static int complain(const char *what)
{
    fprintf(stderr, "depth: %s\n", what);
    return 1;
}

static void add_token(struct llama_batch *b, int position, int sequence, int wants_logits)
{
    int i = b->n_tokens++;
    b->token[i] = 300 + (position * 7919 + 13) % 30000;
    b->pos[i] = position;
    b->n_seq_id[i] = 1;
    b->seq_id[i][0] = sequence;
    b->logits[i] = (int8_t)wants_logits;
}

/* Positions [0, depth) in sequence 0. */
static int fill(struct llama_context *context, struct llama_batch *b, int depth)
{
    llama_memory_t memory = llama_get_memory(context);
    for (int position = 0; position < depth;) {
        b->n_tokens = 0;
        for (; b->n_tokens < BATCH && position < depth; position++)
            add_token(b, position, position / PIECE, 0);
        if (llama_decode(context, *b) != 0)
            return complain("a piece of the context could not be computed");
    }
    for (int s = 1; s * PIECE < depth; s++) {
        llama_memory_seq_cp(memory, s, 0, -1, -1);
        llama_memory_seq_rm(memory, s, -1, -1);
    }
    return llama_memory_seq_pos_max(memory, 0) == depth - 1 ? 0 : complain("the context is not whole");
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int measure(struct llama_context *context, struct llama_batch *b, int depth, int n_tokens)
{
    printf("{\"samples_ts\": [");
    for (int i = 0; i <= n_tokens; i++) {
        double start = now();
        b->n_tokens = 0;
        add_token(b, depth + i, 0, 1);
        if (llama_decode(context, *b) != 0)
            return complain("a step could not be computed");
        llama_synchronize(context);
        if (i > 0)
            printf("%s%.4f", i > 1 ? ", " : "", 1 / (now() - start));
    }
    printf("]}\n");
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return complain("expected MODEL THREADS DEPTH TOKENS");
    int n_threads = atoi(argv[2]), depth = atoi(argv[3]), n_tokens = atoi(argv[4]);
    llama_log_set(quiet, NULL);
    llama_backend_init();
    struct llama_model *model = llama_model_load_from_file(argv[1], llama_model_default_params());
    if (model == NULL)
        return complain("the model could not be loaded");
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = (uint32_t)((depth + n_tokens + 1 + PIECE) / PIECE * PIECE);
    params.n_batch = params.n_ubatch = BATCH;
    params.n_seq_max = (uint32_t)((depth + PIECE - 1) / PIECE + 1);
    params.n_threads = params.n_threads_batch = n_threads;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    params.kv_unified = true;
    struct llama_context *context = llama_init_from_model(model, params);
    if (context == NULL)
        return complain("no context of this depth");
    struct llama_batch batch = llama_batch_init(BATCH, 0, 1);
    int failed = fill(context, &batch, depth) != 0 || measure(context, &batch, depth, n_tokens) != 0;
    llama_batch_free(batch);
    llama_free(context);
    llama_model_free(model);
    llama_backend_free();
    return failed;
}
