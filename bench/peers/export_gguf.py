#!/usr/bin/env python3
"""export_gguf.py MODEL-DIR OUT.gguf f32|bf16|q8_0|q4_0 - a synthetic MLA model for llama.cpp.

Reads a directory that `latentd synth --kind mla_paper` wrote and writes the same
weights as architecture deepseek2 with its MLA tensors, so that both programs
compute the same function:

  - the factors sqrt(hidden / width) that the MLRA repository puts on the two latent
    norms are folded into the norms' weights;
  - rope rows go from half-split pairs (i, i + R/2) to neighbours (2i, 2i + 1), of
    the query and of the key alike, which leaves every score as it is;
  - kv_b_proj is cut into k_b (transposed) and v_b per head.

k_b and v_b stay bf16 in the quantised files: llama.cpp multiplies the transposed
k_b row by row, which its quantised kernels do far more slowly.  The vocabulary is
plain words, one a token; no prompt is ever given as text.
"""
import json
import os
import struct
import sys

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Q

TYPES = {"f32": Q.F32, "bf16": Q.BF16, "q8_0": Q.Q8_0, "q4_0": Q.Q4_0}
DTYPES = {"F32": np.float32, "BF16": np.uint16}


class Weights:
    """The tensors of one safetensors file, as f32."""

    def __init__(self, path):
        self.data = np.memmap(path, dtype=np.uint8, mode="r")
        (length,) = struct.unpack("<Q", self.data[:8].tobytes())
        self.header = json.loads(self.data[8 : 8 + length].tobytes())
        self.begin = 8 + length

    def __getitem__(self, name):
        entry = self.header[name]
        first, end = entry["data_offsets"]
        raw = self.data[self.begin + first : self.begin + end].view(DTYPES[entry["dtype"]])
        if entry["dtype"] == "BF16":
            raw = (raw.astype(np.uint32) << 16).view(np.float32)
        return np.array(raw, dtype=np.float32).reshape(entry["shape"])


def interleaved(rows):
    """Rows [R][..] whose pairs are (i, i + R/2), as pairs (2i, 2i + 1)."""
    half = rows.shape[0] // 2
    out = np.empty_like(rows)
    out[0::2], out[1::2] = rows[:half], rows[half:]
    return out


def write_header(out, config, attention):
    hidden, layers, heads = config["hidden_size"], config["num_hidden_layers"], config["num_attention_heads"]
    nope, rope, latent = attention["qk_nope_head_dim"], attention["qk_rope_head_dim"], attention["kv_lora_rank"]
    out.add_name("latentd synthetic MLA")
    out.add_context_length(max(config["max_position_embeddings"], 65536))
    out.add_embedding_length(hidden)
    out.add_block_count(layers)
    out.add_feed_forward_length(config["intermediate_size"])
    out.add_head_count(heads)
    out.add_head_count_kv(1)
    out.add_layer_norm_rms_eps(config["rms_norm_eps"])
    out.add_rope_freq_base(attention.get("rope_base", 10000.0))
    out.add_vocab_size(config["vocab_size"])
    out.add_key_length(latent + rope)
    out.add_value_length(latent)
    out.add_key_length_mla(nope + rope)
    out.add_value_length_mla(nope)
    out.add_q_lora_rank(attention["q_lora_rank"])
    out.add_kv_lora_rank(latent)
    out.add_rope_dimension_count(rope)
    out.add_leading_dense_block_count(layers)
    out.add_expert_feed_forward_length(config["intermediate_size"])
    out.add_expert_count(0)
    out.add_expert_used_count(0)
    out.add_expert_shared_count(0)
    out.add_expert_weights_scale(1.0)


def write_vocabulary(out, n):
    words = ["<unk>", "<s>", "</s>"] + [f"\u2581w{i:05d}" for i in range(3, n)]
    out.add_tokenizer_model("llama")
    out.add_token_list(words)
    out.add_token_scores([-float(i) for i in range(n)])
    out.add_token_types([2, 3, 3] + [1] * (n - 3))
    out.add_bos_token_id(1)
    out.add_eos_token_id(2)
    out.add_unk_token_id(0)
    out.add_add_bos_token(False)


class Writer:
    def __init__(self, out, kind):
        self.out, self.kind = out, kind

    def matrix(self, name, values, kind=None):
        kind = kind or self.kind
        values = np.ascontiguousarray(values)
        if kind == Q.F32:
            self.out.add_tensor(name, values)
        else:
            self.out.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)

    def vector(self, name, values):
        self.out.add_tensor(name, np.ascontiguousarray(values, dtype=np.float32))


def write_attention(writer, weights, config, attention, layer):
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    nope, rope, latent = attention["qk_nope_head_dim"], attention["qk_rope_head_dim"], attention["kv_lora_rank"]
    query = attention["q_lora_rank"]
    of, to = f"model.layers.{layer}.attn.", f"blk.{layer}."
    writer.matrix(to + "attn_q_a.weight", weights[of + "q_a_proj.weight"])
    writer.vector(to + "attn_q_a_norm.weight", weights[of + "q_a_layernorm.weight"] * np.sqrt(hidden / query))
    q_b = weights[of + "q_b_proj.weight"].reshape(heads, nope + rope, query)
    for head in range(heads):
        q_b[head, nope:] = interleaved(q_b[head, nope:])
    writer.matrix(to + "attn_q_b.weight", q_b.reshape(heads * (nope + rope), query))
    kv_a = weights[of + "kv_a_proj_with_mqa.weight"]
    kv_a[latent:] = interleaved(kv_a[latent:])
    writer.matrix(to + "attn_kv_a_mqa.weight", kv_a)
    writer.vector(to + "attn_kv_a_norm.weight", weights[of + "kv_a_layernorm.weight"] * np.sqrt(hidden / latent))
    kv_b = weights[of + "kv_b_proj.weight"].reshape(heads, 2 * nope, latent)
    small = Q.F32 if writer.kind == Q.F32 else Q.BF16
    writer.matrix(to + "attn_k_b.weight", kv_b[:, :nope].transpose(0, 2, 1), small)
    writer.matrix(to + "attn_v_b.weight", kv_b[:, nope:], small)
    writer.matrix(to + "attn_output.weight", weights[of + "c_proj.weight"])


def main():
    if len(sys.argv) != 4 or sys.argv[3] not in TYPES:
        sys.exit(__doc__)
    directory, path, kind = sys.argv[1], sys.argv[2], TYPES[sys.argv[3]]
    with open(os.path.join(directory, "config.json")) as f:
        config = json.load(f)
    attention = config["attention"]
    if attention["kind"] != "mla_paper" or config["tie_word_embeddings"]:
        sys.exit(f"{directory}: only kind mla_paper with an untied head can be written as deepseek2")
    weights = Weights(os.path.join(directory, "model.safetensors"))
    out = gguf.GGUFWriter(path + ".new", "deepseek2")
    write_header(out, config, attention)
    write_vocabulary(out, config["vocab_size"])
    writer = Writer(out, kind)
    # As llama.cpp's own quantiser: the head has 8 bits at the least.  The embedding is read a row at a time.
    table = Q.Q8_0 if kind == Q.Q4_0 else kind
    writer.matrix("token_embd.weight", weights["model.embed_tokens.weight"], table)
    for layer in range(config["num_hidden_layers"]):
        of, to = f"model.layers.{layer}.", f"blk.{layer}."
        writer.vector(to + "attn_norm.weight", weights[of + "input_layernorm.weight"])
        write_attention(writer, weights, config, attention, layer)
        writer.vector(to + "ffn_norm.weight", weights[of + "post_attention_layernorm.weight"])
        for name in "gate", "up", "down":
            writer.matrix(f"{to}ffn_{name}.weight", weights[f"{of}mlp.{name}_proj.weight"])
    writer.vector("output_norm.weight", weights["model.norm.weight"])
    writer.matrix("output.weight", weights["lm_head.weight"], table)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    os.replace(path + ".new", path)


if __name__ == "__main__":
    main()
