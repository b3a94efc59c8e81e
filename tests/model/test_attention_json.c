/* test_attention_json - every error of the formulations' constructors is a sentence that names the fields and numbers. */
#include "model/attention_json.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct attention_defaults defaults = { .hidden = 64, .n_heads = 8, .causal = 1 };

static enum status read(const char *kind, const char *text, struct attention_config *c, struct error *err)
{
    json_t *object = json_loads(text, 0, NULL);
    assert_non_null(object);
    struct json_reader r = { object, "config.json: attention", STATUS_BAD_MODEL };
    enum status s = attention_from_json(kind, &r, &defaults, c, err);
    json_decref(object);
    return s;
}

struct wrong {
    const char *kind, *text, *parts[3];     /* parts of the sentence; NULL: no more */
};

static const struct wrong wrongs[] = {
    { "mla_rope", "{\"num_heads\": 7}", { "hidden_size = 64", "divisible", "num_heads = 7" } },
    { "mla_rope", "{\"head_dim\": 9}", { "head width 9", "even" } },
    { "mla_rope", "{\"num_key_value_heads\": 3}", { "num_key_value_heads = 3", "num_heads = 8" } },
    { "mlra", "{\"num_heads\": 7}", { "hidden_size = 64", "divisible", "num_heads = 7" } },
    { "mlra", "{\"mlra_latent_rank\": 30, \"mlra_num_latent_heads\": 4}",
      { "mlra_num_latent_heads = 4", "divide", "mlra_latent_rank = 30" } },
    { "mlra", "{\"mlra_latent_rank\": 30, \"mlra_num_latent_heads\": 3}",
      { "num_heads*head_dim = 64", "divisible", "mlra_num_latent_heads = 3" } },
    { "mlra", "{\"rope\": \"sometimes\"}", { "rope", "none", "decompressed" } },
    { "mlra", "{\"num_heads\": 1048576, \"head_dim\": 1048576}", { "heads", "at most 256", "1048576" } },
    { "mla", "{\"num_head\": 7, \"d_c\": 8, \"d_c1\": 8}", { "d_model = 64", "divisible", "num_head = 7" } },
    { "mla", "{\"d_c\": 64, \"d_c1\": 8}", { "d_c = 64", "smaller", "d_embed = 64" } },
    { "mla", "{\"d_c\": 8, \"d_c1\": 65}", { "d_c1 = 65", "smaller", "d_embed = 64" } },
    { "mla", "{\"d_embed\": 32, \"d_c\": 8, \"d_c1\": 8}", { "d_embed = 32", "d_model = 64" } },
    { "mla", "{\"d_c\": 8, \"d_c1\": 8, \"d_rotate\": 5}", { "d_rotate = 5", "even" } },
    { "mla", "{\"d_c\": 8, \"d_c1\": 8, \"rope_pairing\": \"thirds\"}", { "rope_pairing", "half", "interleaved" } },
    { "cca", "{\"num_heads\": 7}", { "hidden_size = 64", "divisible", "num_heads = 7" } },
    { "cca", "{\"cca_latent_rank\": 20}", { "cca_latent_rank = 20", "divisible", "num_heads = 8" } },
    { "cca", "{\"cca_latent_rank\": 24}", { "latent head", "even", "3" } },
    { "cca", "{\"cca_num_conv_layers\": 3}", { "cca_num_conv_layers", "0, 1 or 2", "3" } },
    { "cca", "{\"num_heads\": 1, \"cca_latent_rank\": 8}", { "cca_value_shift", "even", "1" } },
    { "cca", "{\"cca_conv_kernel_seq\": 17}", { "convolution kernels", "16", "17" } },
    { "ccgqa", "{\"ccgqa_num_kv_heads\": 3}", { "ccgqa_num_kv_heads = 3", "divide", "num_heads = 8" } },
    { "ccgqa", "{\"ccgqa_query_latent_rank\": 20}", { "ccgqa_query_latent_rank = 20", "divisible", "num_heads = 8" } },
    { "ccgqa", "{\"ccgqa_kv_latent_rank\": 9}", { "ccgqa_kv_latent_rank = 9", "divisible", "ccgqa_num_kv_heads = 2" } },
    { "ccgqa", "{\"ccgqa_kv_latent_rank\": 48}", { "ccgqa_kv_latent_rank = 48", "<= ccgqa_query_latent_rank = 32" } },
    { "ccgqa", "{\"ccgqa_kv_latent_rank\": 16}", { "= 4 must equal", "ccgqa_num_kv_heads = 8" } },
    { "ccgqa", "{\"ccgqa_query_latent_rank\": 24, \"ccgqa_kv_latent_rank\": 6}", { "latent head", "even", "3" } },
    { "ccgqa", "{\"ccgqa_num_conv_layers\": 3}", { "ccgqa_num_conv_layers", "0, 1 or 2", "3" } },
    { "ccgqa", "{\"ccgqa_num_kv_heads\": 1, \"ccgqa_kv_latent_rank\": 4}", { "ccgqa_value_shift", "even", "1" } },
    { "mla_paper", "{\"q_lora_rank\": 8}", { "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim" } },
    { "mlra_4", "{\"q_lora_rank\": 8, \"kv_lora_rank\": 30, \"qk_nope_head_dim\": 8, \"qk_rope_head_dim\": 4}",
      { "kv_lora_rank = 30", "4 latents" } },
    { "gla_2", "{\"q_lora_rank\": 8, \"kv_lora_rank\": 32, \"qk_nope_head_dim\": 8, \"qk_rope_head_dim\": 5}",
      { "qk_rope_head_dim = 5", "even" } },
    { "gqa", "{\"num_key_value_heads\": 3}", { "num_key_value_heads = 3", "8 heads" } },
    { "gqa", "{\"head_dim\": 7}", { "head_dim = 7", "even" } },
    { "gqa", "{\"num_key_value_heads\": 0}", { "num_key_value_heads", "0" } },
    { "mlra", "{\"mlra_latent_rank\": \"many\"}", { "mlra_latent_rank", "integer", "string" } },
    { "mlra", "{\"hidden_size\": 32}", { "32", "hidden_size = 64" } },
    { "banana", "{}", { "banana", "ccgqa", "mlra_4" } },
};

static void what_contradicts_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrongs / sizeof wrongs[0]; i++) {
        struct attention_config c;
        struct error err = { 0 };
        const struct wrong *w = &wrongs[i];
        if (read(w->kind, w->text, &c, &err) != STATUS_BAD_MODEL)
            fail_msg("%s %s is taken", w->kind, w->text);
        for (int p = 0; p < 3 && w->parts[p] != NULL; p++)
            if (strstr(err.text, w->parts[p]) == NULL)
                fail_msg("%s %s: '%s' is not in: %s", w->kind, w->text, w->parts[p], err.text);
    }
}

static void what_is_not_said_is_the_seeds_default(void **state)
{
    (void)state;
    struct attention_config c;
    assert_int_equal(read("mla_rope", "{}", &c, NULL), STATUS_OK);
    assert_true(c.latent_dim == 32 && c.nope_dim == 8 && c.rope == ROPE_DECOMPRESSED && c.rope_base == 10000);
    assert_int_equal(read("mlra", "{}", &c, NULL), STATUS_OK);
    assert_true(c.n_latents == 4 && c.latent_dim == 8 && c.rope == ROPE_NONE);
    assert_int_equal(read("mla", "{\"d_c\": 16, \"d_c1\": 24, \"d_rotate\": 4}", &c, NULL), STATUS_OK);
    assert_true(c.latent_dim == 16 && c.query_latent_dim == 24 && c.pairing == ROPE_INTERLEAVED);
    assert_int_equal(read("cca", "{}", &c, NULL), STATUS_OK);
    assert_true(c.nope_dim == 2 && c.n_conv == 2 && c.conv_kernel_seq == 4 && c.conv_kernel_ch == 3);
    assert_true(c.qk_mean && c.value_shift && c.n_kv_heads == 8);
    assert_int_equal(read("ccgqa", "{}", &c, NULL), STATUS_OK);
    assert_true(c.nope_dim == 4 && c.n_kv_heads == 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_contradicts_is_named),
        cmocka_unit_test(what_is_not_said_is_the_seeds_default),
    };
    return cmocka_run_group_tests_name("attention_json", tests, NULL, NULL);
}
