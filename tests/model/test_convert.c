/* test_convert - a Llama and its three conversions give the logits of a plain double-precision forward. */
#include "base/file.h"
#include "base/rng.h"
#include "model/convert.h"
#include "model/safetensors_writer.h"
#include "tests/model/model_fixture.h"

#include <math.h>
#include <sys/stat.h>

enum { N_GIVEN = 11, N_TOTAL = 32, MAX_TENSORS = 64, MAX_HIDDEN = 128 };

/* ---- a random Llama ---- */

struct tiny_llama {
    const char *name;
    int layers, hidden, heads, kv_heads, head_dim, intermediate, vocab;
    int tied;
    enum dtype dtype;
    double rope_theta, eps;
    const char *more;           /* fields of config.json */
};

static const struct tiny_llama tinies[] = {
    { "gqa of 6 and 3", 2, 48, 6, 3, 8, 56, 71, 0, DTYPE_F32, 10000, 1e-5, "" },
    { "gqa with its own head width, tied", 3, 40, 6, 3, 12, 48, 50, 1, DTYPE_F32, 500, 1e-6,
      ", \"head_dim\": 12" },
    { "mha", 2, 32, 4, 4, 8, 40, 64, 0, DTYPE_F32, 100000, 1e-5, "" },
    { "one kv head, bf16", 2, 64, 4, 1, 16, 72, 40, 1, DTYPE_BF16, 10000, 1e-5, ", \"rope_scaling\": null" },
};
#define N_TINIES (sizeof tinies / sizeof tinies[0])

struct weights {
    struct tensor at[MAX_TENSORS];
    char names[MAX_TENSORS][80];
    float *values[MAX_TENSORS];     /* what the file's numbers are */
    int n;
};

/* Entry of a matrix with n_columns inputs, rounded as the file rounds it. */
static void add(struct weights *w, const struct tiny_llama *t, struct rng *rng, int64_t rows, int64_t columns,
                const char *fmt, int layer)
{
    int i = w->n++;
    size_t n = (size_t)(rows * (columns > 0 ? columns : 1));
    snprintf(w->names[i], sizeof w->names[i], fmt, layer);
    w->values[i] = malloc(n * sizeof(float));
    uint16_t *bits = malloc(n * sizeof(uint16_t));
    assert_true(w->values[i] != NULL && bits != NULL);
    for (size_t k = 0; k < n; k++) {
        double x = 2 * rng_uniform(rng) - 1;
        x = columns > 0 ? 1.7 * x / sqrt((double)columns) : 1 + 0.3 * x;
        bits[k] = f32_to_bf16((float)x);
        w->values[i][k] = t->dtype == DTYPE_BF16 ? bf16_to_f32(bits[k]) : (float)x;
    }
    w->at[i] = (struct tensor){
        .name = w->names[i], .dtype = t->dtype, .n_dims = columns > 0 ? 2 : 1, .dims = { rows, columns },
        .data = t->dtype == DTYPE_BF16 ? (void *)bits : (void *)w->values[i],
        .bytes = n * dtype_bytes(t->dtype),
    };
    if (t->dtype != DTYPE_BF16)
        free(bits);
}

static void make_weights(struct weights *w, const struct tiny_llama *t)
{
    struct rng rng;
    rng_seed(&rng, 11);
    w->n = 0;
    int64_t h = t->hidden, q = t->heads * t->head_dim, kv = t->kv_heads * t->head_dim;
    for (int l = 0; l < t->layers; l++) {
        add(w, t, &rng, h, 0, "model.layers.%d.input_layernorm.weight", l);
        add(w, t, &rng, q, h, "model.layers.%d.self_attn.q_proj.weight", l);
        add(w, t, &rng, kv, h, "model.layers.%d.self_attn.k_proj.weight", l);
        add(w, t, &rng, kv, h, "model.layers.%d.self_attn.v_proj.weight", l);
        add(w, t, &rng, h, q, "model.layers.%d.self_attn.o_proj.weight", l);
        add(w, t, &rng, h, 0, "model.layers.%d.post_attention_layernorm.weight", l);
        add(w, t, &rng, t->intermediate, h, "model.layers.%d.mlp.gate_proj.weight", l);
        add(w, t, &rng, t->intermediate, h, "model.layers.%d.mlp.up_proj.weight", l);
        add(w, t, &rng, h, t->intermediate, "model.layers.%d.mlp.down_proj.weight", l);
    }
    add(w, t, &rng, t->vocab, h, "model.embed_tokens.weight", 0);
    add(w, t, &rng, h, 0, "model.norm.weight", 0);
    if (!t->tied)
        add(w, t, &rng, t->vocab, h, "lm_head.weight", 0);
}

static void free_weights(struct weights *w)
{
    for (int i = 0; i < w->n; i++) {
        if (w->at[i].dtype == DTYPE_BF16)
            free((void *)(uintptr_t)w->at[i].data);
        free(w->values[i]);
    }
}

static void write_text(const char *dir, const char *name, const char *text)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(file_replace(path, text, strlen(text), NULL), STATUS_OK);
}

static void write_llama(const struct tiny_llama *t, const struct weights *w, const char *dir)
{
    char path[300], config[1000];
    assert_int_equal(mkdir(dir, 0755), 0);
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    struct safetensors_plan plan = { .path = path, .tensors = w->at, .n_tensors = (size_t)w->n };
    assert_int_equal(safetensors_write(&plan, NULL), STATUS_OK);
    snprintf(config, sizeof config, "{\"model_type\": \"llama\", \"hidden_size\": %d, "
             "\"num_hidden_layers\": %d, "
             "\"num_attention_heads\": %d, \"num_key_value_heads\": %d, \"intermediate_size\": %d, "
             "\"vocab_size\": %d, \"rope_theta\": %g, \"rms_norm_eps\": %g, \"tie_word_embeddings\": %s, "
             "\"max_position_embeddings\": 77, \"eos_token_id\": [3, 5]%s}", t->hidden, t->layers, t->heads,
             t->kv_heads, t->intermediate, t->vocab, t->rope_theta, t->eps, t->tied ? "true" : "false",
             t->more);
    write_text(dir, "config.json", config);
    write_text(dir, "tokenizer.json", "{}");
    write_text(dir, "chat_template.jinja", "{{ messages }}");
}

/* ---- the oracle: one token after the other, in double, keys and values kept ---- */

struct oracle {
    const struct tiny_llama *t;
    const struct weights *w;
    double keys[3][N_TOTAL][MAX_HIDDEN], values[3][N_TOTAL][MAX_HIDDEN];     /* [layer][position][kv row] */
};

static const float *tensor_of(const struct oracle *o, const char *fmt, int layer)
{
    char name[80];
    snprintf(name, sizeof name, fmt, layer);
    for (int i = 0; i < o->w->n; i++)
        if (strcmp(o->w->names[i], name) == 0)
            return o->w->values[i];
    fail_msg("the oracle misses %s", name);
    return NULL;
}

static void multiply(const float *matrix, int rows, int columns, const double *x, double *out)
{
    for (int r = 0; r < rows; r++) {
        out[r] = 0;
        for (int c = 0; c < columns; c++)
            out[r] += (double)matrix[r * columns + c] * x[c];
    }
}

static void norm(const struct oracle *o, const float *gain, const double *x, double *out)
{
    double squares = 0;
    for (int i = 0; i < o->t->hidden; i++)
        squares += x[i] * x[i];
    double scale = 1 / sqrt(squares / o->t->hidden + o->t->eps);
    for (int i = 0; i < o->t->hidden; i++)
        out[i] = x[i] * scale * (double)gain[i];
}

/* Column i of the first half of a head turns with column i of the second half. */
static void rotate(const struct oracle *o, double *rows, int heads, int position)
{
    int d = o->t->head_dim;
    for (int h = 0; h < heads; h++)
        for (int i = 0; i < d / 2; i++) {
            double angle = position * pow(o->t->rope_theta, -2.0 * i / d);
            double a = rows[h * d + i], b = rows[h * d + d / 2 + i];
            rows[h * d + i] = a * cos(angle) - b * sin(angle);
            rows[h * d + d / 2 + i] = b * cos(angle) + a * sin(angle);
        }
}

static void attend(const struct oracle *o, int layer, int position, const double *query, double *out)
{
    int d = o->t->head_dim, group = o->t->heads / o->t->kv_heads;
    for (int h = 0; h < o->t->heads; h++) {
        double score[N_TOTAL], max = -INFINITY, sum = 0;
        int at = h / group * d;
        for (int p = 0; p <= position; p++) {
            score[p] = 0;
            for (int i = 0; i < d; i++)
                score[p] += query[h * d + i] * o->keys[layer][p][at + i] / sqrt((double)d);
            max = fmax(max, score[p]);
        }
        for (int p = 0; p <= position; p++)
            sum += score[p] = exp(score[p] - max);
        for (int i = 0; i < d; i++) {
            out[h * d + i] = 0;
            for (int p = 0; p <= position; p++)
                out[h * d + i] += score[p] / sum * o->values[layer][p][at + i];
        }
    }
}

static void oracle_layer(struct oracle *o, int layer, int position, double *x)
{
    const struct tiny_llama *t = o->t;
    int q = t->heads * t->head_dim, kv = t->kv_heads * t->head_dim;
    double n[MAX_HIDDEN], query[MAX_HIDDEN], heads[MAX_HIDDEN], out[MAX_HIDDEN];
    double gate[MAX_HIDDEN], up[MAX_HIDDEN];
    double *key = o->keys[layer][position];
    norm(o, tensor_of(o, "model.layers.%d.input_layernorm.weight", layer), x, n);
    multiply(tensor_of(o, "model.layers.%d.self_attn.q_proj.weight", layer), q, t->hidden, n, query);
    multiply(tensor_of(o, "model.layers.%d.self_attn.k_proj.weight", layer), kv, t->hidden, n, key);
    multiply(tensor_of(o, "model.layers.%d.self_attn.v_proj.weight", layer), kv, t->hidden, n,
             o->values[layer][position]);
    rotate(o, query, t->heads, position);
    rotate(o, key, t->kv_heads, position);
    attend(o, layer, position, query, heads);
    multiply(tensor_of(o, "model.layers.%d.self_attn.o_proj.weight", layer), t->hidden, q, heads, out);
    for (int i = 0; i < t->hidden; i++)
        x[i] += out[i];
    norm(o, tensor_of(o, "model.layers.%d.post_attention_layernorm.weight", layer), x, n);
    multiply(tensor_of(o, "model.layers.%d.mlp.gate_proj.weight", layer), t->intermediate, t->hidden, n,
             gate);
    multiply(tensor_of(o, "model.layers.%d.mlp.up_proj.weight", layer), t->intermediate, t->hidden, n, up);
    for (int i = 0; i < t->intermediate; i++)
        gate[i] = gate[i] / (1 + exp(-gate[i])) * up[i];
    multiply(tensor_of(o, "model.layers.%d.mlp.down_proj.weight", layer), t->hidden, t->intermediate, gate,
             out);
    for (int i = 0; i < t->hidden; i++)
        x[i] += out[i];
}

/* logits [N_TOTAL][vocab]; tokens past N_GIVEN are its own likeliest ones. */
static void oracle_run(struct oracle *o, int32_t tokens[N_TOTAL], double *logits)
{
    const struct tiny_llama *t = o->t;
    const float *embedding = tensor_of(o, "model.embed_tokens.weight", 0);
    const float *head = t->tied ? embedding : tensor_of(o, "lm_head.weight", 0);
    for (int p = 0; p < N_TOTAL; p++) {
        double x[MAX_HIDDEN], n[MAX_HIDDEN], *row = logits + p * t->vocab;
        for (int v = 1; p >= N_GIVEN && v < t->vocab; v++) {
            tokens[p] = v == 1 ? 0 : tokens[p];
            if (row[v - t->vocab] > row[tokens[p] - t->vocab])
                tokens[p] = v;
        }
        for (int i = 0; i < t->hidden; i++)
            x[i] = (double)embedding[tokens[p] * t->hidden + i];
        for (int layer = 0; layer < t->layers; layer++)
            oracle_layer(o, layer, p, x);
        norm(o, tensor_of(o, "model.norm.weight", 0), x, n);
        multiply(head, t->vocab, t->hidden, n, row);
    }
}

/* ---- the comparison ---- */

static const char *const form_names[] = { "mla_rope", "mlra", "gqa" };

static void convert(const char *from, const char *to, enum convert_form form)
{
    struct convert_job job = { .form = form, .from = from, .to = to };
    struct error err;
    if (convert_model(&job, &err) != STATUS_OK)
        fail_msg("%s: %s", from, err.text);
}

static void fill_prompt(const struct tiny_llama *t, int32_t *tokens)
{
    for (int i = 0; i < N_GIVEN; i++)
        tokens[i] = (7 * i + 5) % t->vocab;
}

/* Largest difference to the oracle; fails if a token differs. */
static double difference(const struct tiny_llama *t, const struct fixture_run *run, const int32_t *tokens,
                         const double *want)
{
    double worst = 0;
    for (int i = 0; i < N_TOTAL * t->vocab; i++)
        worst = fmax(worst, fabs((double)run->logits[i] - want[i]));
    for (int i = 0; i < N_TOTAL; i++)
        assert_int_equal(run->tokens[i], tokens[i]);
    return worst;
}

static int ranks_are_valid(const char *dir, int n_ranks)
{
    struct safetensors *set;
    struct model_config config;
    struct error err;
    if (safetensors_open(&set, dir, &err) != STATUS_OK
        || model_config_load(dir, set, &config, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    safetensors_close(set);
    return model_check_ranks(&config, n_ranks, NULL) == STATUS_OK;
}

/* How many degrees of 1, 2, 3 and 4 ran. */
static int compare_form(const struct tiny_llama *t, const char *dir, const int32_t *tokens,
                        const double *want)
{
    int n_ran = 0;
    for (int n_ranks = 1; n_ranks <= 4; n_ranks++) {
        if (!ranks_are_valid(dir, n_ranks))
            continue;
        for (int one_by_one = 0; one_by_one < 2; one_by_one++) {
            struct fixture_run run = {
                .dir = dir, .n_ranks = n_ranks, .one_by_one = one_by_one,
                .n_given = N_GIVEN, .n_total = N_TOTAL, .weight_type = WEIGHT_F32,
            };
            fill_prompt(t, run.tokens);
            fixture_run(&run);
            double worst = difference(t, &run, tokens, want);
            if (worst > 1e-5)
                fail_msg("%s on %d ranks is off by %g", dir, n_ranks, worst);
            free(run.logits);
        }
        n_ran++;
    }
    return n_ran;
}

static void the_three_forms_compute_what_the_llama_computes(void **state)
{
    (void)state;
    char *folder = fixture_folder();
    struct oracle *o = malloc(sizeof *o);
    struct weights *w = malloc(sizeof *w);
    assert_true(o != NULL && w != NULL);
    for (size_t i = 0; i < N_TINIES; i++) {
        const struct tiny_llama *t = &tinies[i];
        char from[256], to[300];
        snprintf(from, sizeof from, "%s/%s", folder, t->name);
        make_weights(w, t);
        write_llama(t, w, from);
        double *want = malloc((size_t)(N_TOTAL * t->vocab) * sizeof(double));
        int32_t tokens[N_TOTAL];
        assert_non_null(want);
        *o = (struct oracle){ .t = t, .w = w };
        fill_prompt(t, tokens);
        oracle_run(o, tokens, want);
        for (int form = 0; form < 3; form++) {
            snprintf(to, sizeof to, "%s %s", from, form_names[form]);
            convert(from, to, (enum convert_form)form);
            assert_true(compare_form(t, to, tokens, want) >= 2);
        }
        free(want);
        free_weights(w);
    }
    free(w);
    free(o);
    fixture_remove(folder);
}

/* ---- what is written ---- */

static void write_first(const char *folder, char from[256])
{
    struct weights *w = malloc(sizeof *w);
    assert_non_null(w);
    snprintf(from, 256, "%s/llama", folder);
    make_weights(w, &tinies[0]);
    write_llama(&tinies[0], w, from);
    free_weights(w);
    free(w);
}

static void the_configuration_is_kept(void **state)
{
    (void)state;
    char *folder = fixture_folder(), from[256], to[300], path[400];
    write_first(folder, from);
    for (int form = 0; form < 3; form++) {
        snprintf(to, sizeof to, "%s/%s", folder, form_names[form]);
        convert(from, to, (enum convert_form)form);
        struct safetensors *set;
        struct model_config c;
        assert_int_equal(safetensors_open(&set, to, NULL), STATUS_OK);
        assert_int_equal(model_config_load(to, set, &c, NULL), STATUS_OK);
        safetensors_close(set);
        assert_int_equal(c.max_positions, 77);
        assert_true(c.norm_eps == 1e-5f && c.attention.rope_base == 10000
                    && c.attention.pairing == ROPE_HALF);
        assert_true(c.n_eos_tokens == 2 && c.eos_tokens[0] == 3 && c.eos_tokens[1] == 5 && c.bos_token == -1);
        assert_string_equal(c.attention.label, form_names[form]);
        /* All forms cache 2 * 3 * 8 elements; MLRA's are three latents, one a KV head. */
        struct cache_shape shape;
        attention_cache_shape(&c.attention, 1, 0, &shape);
        int width = 0;
        for (int i = 0; i < shape.n_segments; i++)
            width += shape.segment_width[i];
        assert_int_equal(width, 48);
        assert_int_equal(c.attention.n_latents, form == CONVERT_MLA_ROPE ? 1 : form == CONVERT_MLRA ? 3 : 0);
        snprintf(path, sizeof path, "%s/tokenizer.json", to);
        assert_true(file_exists(path));
        snprintf(path, sizeof path, "%s/chat_template.jinja", to);
        assert_true(file_exists(path));
        snprintf(path, sizeof path, "%s/generation_config.json", to);
        assert_false(file_exists(path));
    }
    fixture_remove(folder);
}

/* ---- refusals ---- */

static void refuse(const char *from, const char *to, enum status want, const char *sentence)
{
    struct convert_job job = { .form = CONVERT_MLRA, .from = from, .to = to };
    struct error err = { 0 };
    enum status s = convert_model(&job, &err);
    if (s != want || strstr(err.text, sentence) == NULL)
        fail_msg("got %s '%s', not '%s'", status_name(s), err.text, sentence);
    assert_int_equal(access(to, F_OK), -1);
}

/* config.json of the first tiny model with one field more (or again). */
static void set_field(const char *dir, const char *field)
{
    char text[600];
    snprintf(text, sizeof text, "{\"model_type\": \"llama\", \"hidden_size\": 48, \"num_hidden_layers\": 2, "
             "\"num_attention_heads\": 6, \"num_key_value_heads\": 3, \"intermediate_size\": 56, "
             "\"vocab_size\": 71%s%s}", *field != '\0' ? ", " : "", field);
    write_text(dir, "config.json", text);
}

static void what_a_plain_llama_does_not_have_is_refused(void **state)
{
    (void)state;
    static const struct { const char *field; enum status want; const char *sentence; } rows[] = {
        { "\"attention_bias\": true", STATUS_UNSUPPORTED, "attention with biases" },
        { "\"mlp_bias\": true", STATUS_UNSUPPORTED, "an MLP with biases" },
        { "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}", STATUS_UNSUPPORTED, "scaled RoPE" },
        { "\"rope_parameters\": {\"rope_type\": \"llama3\"}", STATUS_UNSUPPORTED, "rope_type 'llama3'" },
        { "\"sliding_window\": 4096", STATUS_UNSUPPORTED, "a sliding window" },
        { "\"hidden_act\": \"gelu\"", STATUS_UNSUPPORTED, "only silu" },
        { "\"partial_rotary_factor\": 0.5", STATUS_UNSUPPORTED, "a part of the head" },
        { "\"quantization_config\": {}", STATUS_UNSUPPORTED, "quantised weights" },
        { "\"head_dim\": 10", STATUS_BAD_MODEL, "q_proj" },
        { "\"tie_word_embeddings\": 1", STATUS_BAD_MODEL, "tie_word_embeddings" },
        { "\"num_attention_heads\": 5", STATUS_BAD_MODEL, "hidden_size = 48 must be divisible" },
        { "\"num_hidden_layers\": 3", STATUS_BAD_MODEL, "model.layers.2" },
        { "\"num_hidden_layers\": 1", STATUS_UNSUPPORTED, "model.layers.1" },
        { "\"model_type\": \"qwen2\"", STATUS_UNSUPPORTED, "'qwen2'" },
    };
    char *folder = fixture_folder(), from[256], to[256];
    write_first(folder, from);
    snprintf(to, sizeof to, "%s/out", folder);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        set_field(from, rows[i].field);
        refuse(from, to, rows[i].want, rows[i].sentence);
    }
    set_field(from, "\"sliding_window\": null, \"rope_scaling\": null, \"attention_bias\": false, "
              "\"partial_rotary_factor\": 1.0, \"pretraining_tp\": 1");
    convert(from, to, CONVERT_MLRA);
    struct convert_job again = { .form = CONVERT_GQA, .from = from, .to = to };
    struct error err;
    assert_int_equal(convert_model(&again, &err), STATUS_BAD_OPTION);
    assert_non_null(strstr(err.text, "holds a model already"));
    fixture_remove(folder);
}

static void a_tensor_that_nothing_uses_is_refused(void **state)
{
    (void)state;
    char *folder = fixture_folder(), from[256], to[256];
    struct weights *w = malloc(sizeof *w);
    assert_non_null(w);
    make_weights(w, &tinies[0]);
    struct rng rng;
    rng_seed(&rng, 1);
    add(w, &tinies[0], &rng, 48, 0, "model.layers.%d.self_attn.q_proj.bias", 1);
    snprintf(from, sizeof from, "%s/llama", folder);
    snprintf(to, sizeof to, "%s/out", folder);
    write_llama(&tinies[0], w, from);
    refuse(from, to, STATUS_UNSUPPORTED, "model.layers.1.self_attn.q_proj.bias");
    free_weights(w);
    free(w);
    fixture_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_three_forms_compute_what_the_llama_computes),
        cmocka_unit_test(the_configuration_is_kept),
        cmocka_unit_test(what_a_plain_llama_does_not_have_is_refused),
        cmocka_unit_test(a_tensor_that_nothing_uses_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
