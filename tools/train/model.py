"""The decoder around an attention layer: pre-norm blocks with SwiGLU, tied embedding."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from attention import LAYER_OF_KIND, RMSNorm, linear

# Projections that write into the residual stream; they start small so that depth does not blow it up.
RESIDUAL_OUTPUTS = ("out_proj.weight", "output_proj.weight", "c_proj.weight", "down_proj.weight")


class Dropout(nn.Module):
    """Dropout whose mask comes from random bytes, eight from each 64-bit draw.

    bernoulli_() draws one double for each element, and took 10 % of a training step. The price is
    a probability in steps of 1/256.
    """

    def __init__(self, probability):
        super().__init__()
        self.threshold = round(probability * 256)

    def forward(self, x):
        if not self.training or self.threshold == 0:
            return x
        draws = torch.empty((x.numel() + 7) // 8, dtype=torch.int64).random_(-2 ** 63, None)
        keep = draws.view(torch.uint8)[: x.numel()].view_as(x) >= self.threshold
        return x * keep * (256 / (256 - self.threshold))


class MLP(nn.Module):
    def __init__(self, hidden, intermediate):
        super().__init__()
        self.gate_proj = linear(hidden, intermediate)
        self.up_proj = linear(hidden, intermediate)
        self.down_proj = linear(intermediate, hidden)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, config, dropout):
        super().__init__()
        hidden, eps = config["hidden_size"], config["rms_norm_eps"]
        self.input_layernorm = RMSNorm(hidden, eps)
        self.attn = LAYER_OF_KIND[config["attention"]["kind"]](config)
        self.post_attention_layernorm = RMSNorm(hidden, eps)
        self.mlp = MLP(hidden, config["intermediate_size"])
        self.dropout = Dropout(dropout)

    def forward(self, x):
        x = x + self.dropout(self.attn(self.input_layernorm(x)))
        return x + self.dropout(self.mlp(self.post_attention_layernorm(x)))


class Model(nn.Module):
    """Token ids [B][S] -> logits [B][S][vocabulary]."""

    def __init__(self, config, dropout=0.0):
        super().__init__()
        self.embedding_multiplier = config["embedding_multiplier"]
        self.embed_tokens = nn.Embedding(config["vocab_size"], config["hidden_size"])
        self.dropout = Dropout(dropout)
        self.layers = nn.ModuleList(Layer(config, dropout) for _ in range(config["num_hidden_layers"]))
        self.norm = RMSNorm(config["hidden_size"], config["rms_norm_eps"])
        self.initialise(config["num_hidden_layers"])

    def initialise(self, n_layers):
        for name, parameter in self.named_parameters():
            if parameter.dim() < 2 or "conv" in name:
                continue
            if name == "embed_tokens.weight":
                std = 0.02
            elif name.endswith("kv_b_proj"):
                std = parameter.shape[-2] ** -0.5
            else:
                std = parameter.shape[-1] ** -0.5
            if name.endswith(RESIDUAL_OUTPUTS):
                std *= (2 * n_layers) ** -0.5
            nn.init.normal_(parameter, std=std)

    def forward(self, ids):
        x = self.dropout(self.embed_tokens(ids) * self.embedding_multiplier)
        for layer in self.layers:
            x = layer(x)
        return F.linear(self.norm(x), self.embed_tokens.weight)
