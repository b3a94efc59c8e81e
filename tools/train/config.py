"""Shapes of the demo models, and the config.json that describes one.

All kinds share width, depth, heads and context. Their attention layers differ in size, so the width of
the MLP evens out the parameter count (about 3.2 M each): a comparison between kinds is then one of equal
models. Every intermediate size is a multiple of 32, so that four ranks get whole vectors.
"""

VOCAB = 2048
HIDDEN = 256
LAYERS = 5
HEADS = 8
CONTEXT = 512
RMS_NORM_EPS = 1e-6
ROPE_BASE = 10000.0

# The parameter names are those of the seed implementations; mlra_4 has those of the official MLRA code.
ATTENTION = {
    "mla": {
        "d_model": HIDDEN, "num_head": HEADS, "d_embed": HIDDEN,
        "d_c": 64, "d_c1": 96, "d_rotate": 16, "bias": False,
    },
    "mla_rope": {
        "hidden_size": HIDDEN, "num_heads": HEADS, "mla_latent_rank": 96, "rope_base": ROPE_BASE,
    },
    "mlra": {
        "hidden_size": HIDDEN, "num_heads": HEADS, "mlra_latent_rank": 128, "mlra_num_latent_heads": 4,
    },
    "mlra_4": {
        "q_lora_rank": 96, "qk_rope_head_dim": 16, "kv_lora_rank": 128, "qk_nope_head_dim": 32,
    },
    "cca": {
        "hidden_size": HIDDEN, "num_heads": HEADS, "cca_latent_rank": 128,
    },
    "ccgqa": {
        "hidden_size": HIDDEN, "num_heads": HEADS,
        "ccgqa_query_latent_rank": 128, "ccgqa_kv_latent_rank": 32, "ccgqa_num_kv_heads": 2,
    },
}

INTERMEDIATE = {
    "mla": 448,
    "mla_rope": 416,
    "mlra": 448,
    "mlra_4": 384,
    "cca": 480,
    "ccgqa": 544,
}

KINDS = tuple(ATTENTION)


def directory_name(kind):
    return "demo-" + kind.replace("_", "-")


def model_config(kind):
    """The config.json of one kind."""
    return {
        "model_type": "latentd",
        "architectures": ["LatentdForCausalLM"],
        "vocab_size": VOCAB,
        "hidden_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": INTERMEDIATE[kind],
        "hidden_act": "silu",
        "rms_norm_eps": RMS_NORM_EPS,
        "embedding_multiplier": HIDDEN ** 0.5,
        "tie_word_embeddings": True,
        "max_position_embeddings": CONTEXT,
        "bos_token_id": 0,
        "eos_token_id": 0,
        "torch_dtype": "bfloat16",
        "attention": {"kind": kind, **ATTENTION[kind]},
    }
