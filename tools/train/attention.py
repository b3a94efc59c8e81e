"""The attention layers of the demo models: mla, mla_rope, mlra, mlra_4, cca, ccgqa.

Each layer computes the plain, un-absorbed formula over a whole sequence. The names of the sub-modules
are the tensor names of the file format. Shapes in comments: B sequences, S positions, H heads.
Every layer is built as Layer(config), config being the model's config.json as a dict.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

QUERY_BLOCK = 128


def linear(n_in, n_out):
    return nn.Linear(n_in, n_out, bias=False)


def split_heads(x, n_heads):
    """[B][S][H * width] -> [B][H][S][width]"""
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def merge_heads(x):
    """[B][H][S][width] -> [B][S][H * width]"""
    return x.transpose(1, 2).flatten(2)


def causal_attention(query, key, value, scale):
    """Softmax attention in blocks of query rows, each against the keys up to its own last row.

    On the CPU this beats F.scaled_dot_product_attention(is_causal=True) in bf16, forward and backward:
    40 ms against 71 ms for [8][8][512][32] on two cores. Half of the rectangle is never computed, and a
    block's scores stay in the cache.
    """
    n_positions = query.shape[-2]
    query = query * scale
    # Finite, as -inf would do, but safe in every dtype: exp() of it is 0 beside any real score.
    mask = torch.full((n_positions, n_positions), -1e4, dtype=query.dtype).triu(1)
    outputs = []
    for start in range(0, n_positions, QUERY_BLOCK):
        end = min(start + QUERY_BLOCK, n_positions)
        scores = query[..., start:end, :] @ key[..., :end, :].transpose(-1, -2)
        weights = torch.softmax(scores + mask[start:end, :end], -1)
        outputs.append(weights @ value[..., :end, :])
    return torch.cat(outputs, -2)


class RMSNorm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        x = x.float()
        return self.weight * (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps))


class Rope(nn.Module):
    """Rotary embedding of [B][H][S][width] at positions 0..S-1.

    paired: coordinates (2i, 2i+1) turn together (mla); otherwise (i, i + width/2) do (all others).
    """

    def __init__(self, width, max_positions, base=10000.0, paired=False):
        super().__init__()
        frequency = base ** (-torch.arange(0, width, 2, dtype=torch.float32) / width)
        angle = torch.outer(torch.arange(max_positions, dtype=torch.float32), frequency)
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)
        self.paired = paired

    def forward(self, x):
        cos, sin = self.cos[: x.shape[-2]], self.sin[: x.shape[-2]]
        if self.paired:
            a, b = x[..., 0::2], x[..., 1::2]
            turned = torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)
        else:
            a, b = x.chunk(2, -1)
            turned = torch.cat([a * cos - b * sin, a * sin + b * cos], -1)
        return turned.to(x.dtype)


class MLA(nn.Module):
    """DeepSeek-V2: latent keys and values, low-rank query, one rotary key shared by all heads."""

    def __init__(self, config):
        super().__init__()
        c = config["attention"]
        width, self.n_heads, rotary = c["d_model"], c["num_head"], c["d_rotate"]
        self.scale = (width // self.n_heads + rotary) ** -0.5
        self.DKV_proj = linear(width, c["d_c"])
        self.DQ_proj = linear(width, c["d_c1"])
        self.UQ_proj = linear(c["d_c1"], width)
        self.UK_proj = linear(c["d_c"], width)
        self.UV_proj = linear(c["d_c"], width)
        self.RQ_proj = linear(c["d_c1"], self.n_heads * rotary)
        self.RK_proj = linear(width, rotary)
        self.output_proj = linear(width, width)
        self.rope = Rope(rotary, config["max_position_embeddings"], paired=True)

    def forward(self, x):
        latent_query, latent = self.DQ_proj(x), self.DKV_proj(x)
        rotary_query = self.rope(split_heads(self.RQ_proj(latent_query), self.n_heads))
        rotary_key = self.rope(split_heads(self.RK_proj(x), 1)).expand(-1, self.n_heads, -1, -1)
        query = torch.cat([split_heads(self.UQ_proj(latent_query), self.n_heads), rotary_query], -1)
        key = torch.cat([split_heads(self.UK_proj(latent), self.n_heads), rotary_key], -1)
        value = split_heads(self.UV_proj(latent), self.n_heads)
        return self.output_proj(merge_heads(causal_attention(query, key, value, self.scale)))


class MLARope(nn.Module):
    """Latent keys and values; RoPE over the whole decompressed query and key."""

    def __init__(self, config):
        super().__init__()
        c = config["attention"]
        width, self.n_heads, rank = c["hidden_size"], c["num_heads"], c["mla_latent_rank"]
        head_width = width // self.n_heads
        self.scale = head_width ** -0.5
        self.dkv_proj = linear(width, rank)
        self.uk_proj = linear(rank, width)
        self.uv_proj = linear(rank, width)
        self.q_proj = linear(width, width)
        self.out_proj = linear(width, width)
        self.rope = Rope(head_width, config["max_position_embeddings"], c["rope_base"])

    def forward(self, x):
        latent = self.dkv_proj(x)
        query = self.rope(split_heads(self.q_proj(x), self.n_heads))
        key = self.rope(split_heads(self.uk_proj(latent), self.n_heads))
        value = split_heads(self.uv_proj(latent), self.n_heads)
        return self.out_proj(merge_heads(causal_attention(query, key, value, self.scale)))


class MLRA(nn.Module):
    """The latent is cut into blocks; each block feeds its own contiguous share of the heads. No RoPE."""

    def __init__(self, config):
        super().__init__()
        c = config["attention"]
        width, rank, self.n_heads = c["hidden_size"], c["mlra_latent_rank"], c["num_heads"]
        n_blocks = c["mlra_num_latent_heads"]
        self.block_width = rank // n_blocks
        self.scale = (width // self.n_heads) ** -0.5
        self.dkv_proj = linear(width, rank)
        self.uk_projs = nn.ModuleList(linear(self.block_width, width // n_blocks) for _ in range(n_blocks))
        self.uv_projs = nn.ModuleList(linear(self.block_width, width // n_blocks) for _ in range(n_blocks))
        self.q_proj = linear(width, width)
        self.out_proj = linear(width, width)

    def forward(self, x):
        blocks = self.dkv_proj(x).split(self.block_width, -1)
        key = torch.cat([up(block) for up, block in zip(self.uk_projs, blocks)], -1)
        value = torch.cat([up(block) for up, block in zip(self.uv_projs, blocks)], -1)
        query, key, value = (split_heads(t, self.n_heads) for t in (self.q_proj(x), key, value))
        return self.out_proj(merge_heads(causal_attention(query, key, value, self.scale)))


class MLRA4(nn.Module):
    """The paper's MLRA-4: every head attends to each of four latent blocks with a softmax of its own,
    and the four outputs are summed and halved. Tensor names and shapes are the official checkpoints'."""

    N_BLOCKS = 4

    def __init__(self, config):
        super().__init__()
        c, hidden, eps = config["attention"], config["hidden_size"], config["rms_norm_eps"]
        self.n_heads = config["num_attention_heads"]
        self.nope, self.rotary = c["qk_nope_head_dim"], c["qk_rope_head_dim"]
        self.latent_width, query_rank = c["kv_lora_rank"], c["q_lora_rank"]
        self.block_width = self.latent_width // self.N_BLOCKS
        self.scale = (self.nope + self.rotary) ** -0.5
        # Variance calibration: brings the up-projected halves to the variance of the raw rotary key.
        self.query_multiplier = (hidden / query_rank) ** 0.5
        self.latent_multiplier = (hidden / self.block_width) ** 0.5
        self.q_a_proj = linear(hidden, query_rank)
        self.q_a_layernorm = RMSNorm(query_rank, eps)
        self.q_b_proj = linear(query_rank, self.n_heads * (self.nope + self.rotary))
        self.kv_a_proj_with_mqa = linear(hidden, self.latent_width + self.rotary)
        self.kv_a_layernorms = nn.ModuleList(RMSNorm(self.block_width, eps) for _ in range(self.N_BLOCKS))
        # [block][in][out], transposed against nn.Linear; out = heads x (key, value).
        self.kv_b_proj = nn.Parameter(torch.empty(self.N_BLOCKS, self.block_width, self.n_heads * 2 * self.nope))
        self.c_proj = linear(self.n_heads * self.nope, hidden)
        self.rope = Rope(self.rotary, config["max_position_embeddings"])

    def forward(self, x):
        latent_query = self.q_a_layernorm(self.q_a_proj(x)) * self.query_multiplier
        query = split_heads(self.q_b_proj(latent_query), self.n_heads)
        query = torch.cat([query[..., : self.nope], self.rope(query[..., self.nope:])], -1)

        compressed = self.kv_a_proj_with_mqa(x)
        rotary_key = self.rope(split_heads(compressed[..., self.latent_width:], 1))
        blocks = compressed[..., : self.latent_width].split(self.block_width, -1)
        rotary_key = rotary_key.expand(-1, self.n_heads, -1, -1)
        summed = 0
        for norm, block, up in zip(self.kv_a_layernorms, blocks, self.kv_b_proj):
            key_value = split_heads(norm(block) * self.latent_multiplier @ up, self.n_heads)
            key = torch.cat([key_value[..., : self.nope], rotary_key.to(key_value.dtype)], -1)
            summed = summed + causal_attention(query, key, key_value[..., self.nope:], self.scale)
        summed = summed * self.N_BLOCKS ** -0.5
        return self.c_proj(merge_heads(summed))


class CompressedConvolutionalAttention(nn.Module):
    """cca and ccgqa: attention inside the latent space. Query and key pass two causal convolutions over
    the sequence, get the mean of the unconvolved pair added, and are normalised; half of each value comes
    from the previous token. ccgqa has fewer key-value heads than query heads."""

    KERNEL_SEQUENCE = 4
    KERNEL_CHANNEL = 3

    def __init__(self, config):
        super().__init__()
        c = config["attention"]
        hidden, self.n_heads = c["hidden_size"], c["num_heads"]
        if c["kind"] == "cca":
            self.query_rank = kv_rank = c["cca_latent_rank"]
            self.n_kv_heads = self.n_heads
        else:
            self.query_rank, kv_rank = c["ccgqa_query_latent_rank"], c["ccgqa_kv_latent_rank"]
            self.n_kv_heads = c["ccgqa_num_kv_heads"]
        self.group = self.n_heads // self.n_kv_heads
        self.head_width = self.query_rank // self.n_heads
        both = self.query_rank + kv_rank
        self.linear_qk = linear(hidden, both)
        self.val_proj1 = linear(hidden, kv_rank // 2)
        self.val_proj2 = linear(hidden, kv_rank // 2)
        self.conv_qk0 = nn.Conv1d(both, both, self.KERNEL_SEQUENCE, groups=both, bias=False)
        self.conv_qk1 = nn.Conv1d(both, both, self.KERNEL_CHANNEL, groups=self.n_heads + self.n_kv_heads,
                                  bias=False)
        self.temp = nn.Parameter(torch.zeros(1))
        self.out_proj = linear(self.query_rank, hidden)
        self.rope = Rope(self.head_width, config["max_position_embeddings"])

    def query_and_key(self, flat):
        """[B][S][both] -> query [B][S][H][width], key [B][S][KV heads][width]"""
        query, key = flat.split([self.query_rank, flat.shape[-1] - self.query_rank], -1)
        return query.unflatten(-1, (self.n_heads, -1)), key.unflatten(-1, (self.n_kv_heads, -1))

    def convolve(self, flat):
        columns = F.pad(flat.transpose(1, 2), (self.KERNEL_SEQUENCE - 1, 0))
        columns = F.pad(self.conv_qk0(columns), (self.KERNEL_CHANNEL - 1, 0))
        return self.conv_qk1(columns).transpose(1, 2)

    def normalise(self, x):
        x = x.float()
        return x * (self.head_width ** 0.5 / x.norm(dim=-1, keepdim=True).clamp(min=1e-6))

    def forward(self, x):
        flat = self.linear_qk(x)
        query, key = self.query_and_key(self.convolve(flat))
        raw_query, raw_key = self.query_and_key(flat)
        mean = (raw_query + raw_key.repeat_interleave(self.group, dim=2)) * 0.5
        query = self.normalise(query + mean)
        key = self.normalise(key + mean.unflatten(2, (self.n_kv_heads, self.group)).mean(3)) * self.temp.exp()

        previous = F.pad(x[:, :-1], (0, 0, 1, 0))
        value = torch.cat([self.val_proj1(x), self.val_proj2(previous)], -1)
        value = split_heads(value, self.n_kv_heads).repeat_interleave(self.group, dim=1)
        query = self.rope(query.transpose(1, 2)).to(value.dtype)
        key = self.rope(key.transpose(1, 2)).repeat_interleave(self.group, dim=1).to(value.dtype)
        return self.out_proj(merge_heads(causal_attention(query, key, value, self.head_width ** -0.5)))


LAYER_OF_KIND = {
    "mla": MLA,
    "mla_rope": MLARope,
    "mlra": MLRA,
    "mlra_4": MLRA4,
    "cca": CompressedConvolutionalAttention,
    "ccgqa": CompressedConvolutionalAttention,
}
