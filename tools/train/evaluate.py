#!/usr/bin/env python3
"""Held-out loss of a model directory: float32 arithmetic on the bf16 weights on disk.

Prints the loss over an excerpt as JSON, and with --write keeps it as expected-loss.json, the number
that the C server is compared with.

The rule: ids = [<|endoftext|>] + encode(bytes of the file); one window; the loss is the mean, over
the excerpt's tokens, of -ln p(ids[i] | ids[0..i-1]) for i = 1..n. An excerpt of more than context - 1
tokens is refused, so that no rule about windows is needed.

Usage: evaluate.py MODEL_DIR [--excerpt FILE] [--write]
       evaluate.py TOKENIZER_DIR --make-excerpt --corpus CORPUS [--excerpt FILE]
"""
import argparse
import json
import pathlib

import torch
import torch.nn.functional as F

import config
import data
import export
from model import Model
from tokenizer import Tokenizer

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
DEFAULT_EXCERPT = REPOSITORY / "models" / "heldout-excerpt.txt"
EVALUATION_BATCH = 8


@torch.no_grad()
def stream_loss(model, stream, context):
    """Mean nats per token of a stream cut into windows that predict `context` tokens each, and the number
    of tokens predicted. The rest of the stream that fills no window is left out."""
    n_windows = (len(stream) - 1) // context
    starts = torch.arange(n_windows) * context
    windows = stream[starts[:, None] + torch.arange(context + 1)]
    model.eval()
    total = 0.0
    for batch in windows.split(EVALUATION_BATCH):
        logits = model(batch[:, :-1]).flatten(0, 1).float()
        total += F.cross_entropy(logits, batch[:, 1:].flatten(), reduction="sum").item()
    model.train()
    return total / (n_windows * context), n_windows * context


@torch.no_grad()
def excerpt_loss(model, ids, context):
    """Mean nats per token of one text behind <|endoftext|>."""
    if len(ids) > context - 1:
        raise ValueError(f"excerpt has {len(ids)} tokens, limit {context - 1}")
    window = torch.tensor([[data.END_OF_TEXT] + ids])
    logits = model(window[:, :-1])[0].double()
    return F.cross_entropy(logits, window[0, 1:]).item()


def load_model(directory):
    """The float32 model of a directory, ready for evaluation, and its config."""
    with open(directory / "config.json", encoding="utf-8") as file:
        model_config = json.load(file)
    model = Model(model_config)
    model.load_state_dict(export.read_safetensors(directory / "model.safetensors"))
    return model.eval(), model_config


def expected_loss(directory, excerpt_path):
    """The content of expected-loss.json."""
    model, model_config = load_model(directory)
    ids = Tokenizer.load(directory).encode(excerpt_path.read_bytes().decode("utf-8"))
    return {
        "text": excerpt_path.name,
        "tokens": len(ids),
        "nats_per_token": excerpt_loss(model, ids, model_config["max_position_embeddings"]),
        "command": f"tools/train/evaluate.py models/{directory.resolve().name} --write",
    }


def make_excerpt(corpus_path, tokenizer):
    """Whole paragraphs of the held-out part of Pride and Prejudice, the second book, as many as fit."""
    with open(corpus_path, encoding="utf-8") as corpus:
        book = corpus.read().split(data.BOOK_SEPARATOR)[1]
    ids = [data.END_OF_TEXT] + tokenizer.encode(book)
    held_out = tokenizer.decode(ids[int(len(ids) * (1 - data.HELD_OUT_SHARE)):])
    # The first piece is the rest of a paragraph that began in the training part.
    paragraphs = held_out.split("\n")[1:]
    excerpt = ""
    for paragraph in paragraphs:
        longer = excerpt + paragraph + "\n"
        if len(tokenizer.encode(longer)) > config.CONTEXT - 1:
            return excerpt
        excerpt = longer
    return excerpt


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model_dir", type=pathlib.Path, help="also where --make-excerpt finds the tokenizer")
    parser.add_argument("--excerpt", type=pathlib.Path, default=DEFAULT_EXCERPT)
    parser.add_argument("--write", action="store_true", help="write MODEL_DIR/expected-loss.json")
    parser.add_argument("--make-excerpt", action="store_true", help="write the excerpt file and stop")
    parser.add_argument("--corpus", type=pathlib.Path)
    args = parser.parse_args()
    if args.make_excerpt:
        excerpt = make_excerpt(args.corpus, Tokenizer.load(args.model_dir))
        args.excerpt.write_bytes(excerpt.encode("utf-8"))
        return
    result = expected_loss(args.model_dir, args.excerpt)
    print(json.dumps(result, indent=1))
    if args.write:
        export.write_json(args.model_dir / "expected-loss.json", result)


if __name__ == "__main__":
    main()
