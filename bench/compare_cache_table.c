#include "bench/compare_cache_table.h"

#include "model/attention_json.h"

enum { HEADS = 64, GROUPS = 8, HEAD_DIM = 128 };

const int compare_cache_degrees[COMPARE_CACHE_DEGREES] = { 1, 2, 4, 8 };

/* Tensor product attention of rank 2: its bases are on every device, the heads'
 * coefficients (2 per head, for K and for V) are sharded. */
static double tpa(int n)
{
    return 4 + 2.0 * HEADS * 2 / (n * HEAD_DIM);
}

/* Grouped tied attention: one tied K/V per group, and half a head of rope key. */
static double gta(int n)
{
    return (n < GROUPS ? (double)GROUPS / n : 1) + 0.5;
}

#define LATENTS "{\"q_lora_rank\":1536,\"kv_lora_rank\":512,\"qk_nope_head_dim\":128,\"qk_rope_head_dim\":64}"

static const struct row {
    const char *method, *kind, *json;       /* a shape that this program runs .. */
    double (*formula)(int n_ranks);         /* .. or a formula */
    const char *basis;
    unsigned printed;                       /* bit per degree */
} rows[] = {
    { "MHA", "mha", "{\"head_dim\":128}", NULL, "cache layout", 0xf },
    { "GQA, 8 groups", "gqa", "{\"head_dim\":128,\"num_key_value_heads\":8}", NULL, "cache layout", 0xf },
    { "MQA", "gqa", "{\"head_dim\":128,\"num_key_value_heads\":1}", NULL, "cache layout", 0 },
    { "MFA", "gqa", "{\"head_dim\":256,\"num_key_value_heads\":1}", NULL, "cache layout of one KV head, 2 wide", 0 },
    { "TPA, rank 2", NULL, NULL, tpa, "formula 4 + 4h / (N d_h)", 0x8 },
    { "GTA, 8 groups", NULL, NULL, gta, "formula max(g / N, 1) + 1/2", 0x8 },
    { "MLA", "mla_paper", LATENTS, NULL, "cache layout", 0xf },
    { "GLA-2", "gla_2", LATENTS, NULL, "cache layout", 0xf },
    { "GLA-4", "gla_4", LATENTS, NULL, "cache layout", 0 },
    { "MLRA-2", "mlra_2", LATENTS, NULL, "cache layout", 0 },
    { "MLRA-4", "mlra_4", LATENTS, NULL, "cache layout", 0xf },
};

int compare_cache_row_count(void)
{
    return (int)(sizeof rows / sizeof rows[0]);
}

/* Elements of a cached row on the fullest of n_ranks ranks. */
static int widest_row(const struct attention_config *c, int n_ranks)
{
    int most = 0;
    for (int rank = 0; rank < n_ranks; rank++) {
        struct cache_shape shape;
        attention_cache_shape(c, n_ranks, rank, &shape);
        int width = 0;
        for (int i = 0; i < shape.n_segments; i++)
            width += shape.segment_width[i];
        most = width > most ? width : most;
    }
    return most;
}

static enum status read_shape(const struct row *row, struct attention_config *out, struct error *err)
{
    json_t *json = json_loads(row->json, 0, NULL);
    if (json == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for the shape of %s", row->method);
    struct json_reader reader = { json, row->method, STATUS_BAD_MODEL };
    struct attention_defaults defaults = { .hidden = HEADS * HEAD_DIM, .n_heads = HEADS, .causal = 1 };
    enum status s = attention_from_json(row->kind, &reader, &defaults, out, err);
    json_decref(json);
    return s;
}

enum status compare_cache_row(int i, struct compare_cache_row *out, struct error *err)
{
    const struct row *row = &rows[i];
    struct attention_config config;
    *out = (struct compare_cache_row){ .method = row->method, .basis = row->basis };
    if (row->formula == NULL)
        TRY(read_shape(row, &config, err));
    for (int d = 0; d < COMPARE_CACHE_DEGREES; d++) {
        int n = compare_cache_degrees[d];
        out->is_printed[d] = row->printed >> d & 1;
        if (row->formula != NULL) {
            out->units[d] = row->formula(n);
            continue;
        }
        TRY(attention_check_ranks(&config, n, err));
        out->units[d] = (double)widest_row(&config, n) / HEAD_DIM;
    }
    return STATUS_OK;
}
