#!/usr/bin/env python3
"""Byte-level BPE: trains a vocabulary, encodes, decodes, and writes Hugging Face tokenizer files.

Id 0 is <|endoftext|>, ids 1..256 are the byte symbols, the rest are merges, most frequent pair first.
Equal counts are decided by the pair's text, so a vocabulary can be reproduced to the byte.

Usage: tokenizer.py CORPUS OUT_DIR [--vocab N]
"""
import argparse
import collections
import json
import pathlib
import re

import config

END_OF_TEXT = "<|endoftext|>"
# GPT-2's pattern, for text whose letters and digits are ASCII plus Latin-1.
WORD = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")


def byte_symbols():
    """GPT-2's printable character for each byte: itself where it is printable, else 256 and up."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


def merge_pair(symbols, pair):
    """The list with each occurrence of the pair, from the left, joined into one symbol."""
    merged, i = [], 0
    while i < len(symbols):
        if tuple(symbols[i: i + 2]) == pair:
            merged.append(symbols[i] + symbols[i + 1])
            i += 2
        else:
            merged.append(symbols[i])
            i += 1
    return merged


def train(text, vocab_size):
    """Returns (vocabulary in id order, merges in rank order)."""
    symbols = byte_symbols()
    word_counts = collections.Counter(WORD.findall(text))
    words = [[symbols[byte] for byte in word.encode()] for word in word_counts]
    counts = list(word_counts.values())

    pair_counts = collections.Counter()
    words_with_pair = collections.defaultdict(set)
    for i, word in enumerate(words):
        for pair in zip(word, word[1:]):
            pair_counts[pair] += counts[i]
            words_with_pair[pair].add(i)

    vocab, merges = [END_OF_TEXT] + symbols, []
    while len(vocab) < vocab_size:
        best = max(pair_counts, key=lambda pair: (pair_counts[pair], pair))
        merges.append(best)
        vocab.append(best[0] + best[1])
        for i in list(words_with_pair[best]):
            for pair in zip(words[i], words[i][1:]):
                pair_counts[pair] -= counts[i]
                words_with_pair[pair].discard(i)
            words[i] = merge_pair(words[i], best)
            for pair in zip(words[i], words[i][1:]):
                pair_counts[pair] += counts[i]
                words_with_pair[pair].add(i)
    return vocab, merges


class Tokenizer:
    def __init__(self, vocab, merges):
        self.vocab = vocab
        self.ids = {token: i for i, token in enumerate(vocab)}
        self.ranks = {pair: rank for rank, pair in enumerate(merges)}
        self.symbols = byte_symbols()
        self.bytes = {symbol: byte for byte, symbol in enumerate(self.symbols)}
        self.ids_of_word = {}

    @classmethod
    def load(cls, directory):
        with open(pathlib.Path(directory) / "tokenizer.json", encoding="utf-8") as file:
            model = json.load(file)["model"]
        vocab = sorted(model["vocab"], key=model["vocab"].get)
        return cls(vocab, [tuple(merge.split(" ")) for merge in model["merges"]])

    def encode_word(self, word):
        symbols = [self.symbols[byte] for byte in word.encode()]
        while True:
            pairs = [pair for pair in zip(symbols, symbols[1:]) if pair in self.ranks]
            if not pairs:
                return [self.ids[symbol] for symbol in symbols]
            symbols = merge_pair(symbols, min(pairs, key=self.ranks.get))

    def encode(self, text):
        ids = []
        for word in WORD.findall(text):
            if word not in self.ids_of_word:
                self.ids_of_word[word] = self.encode_word(word)
            ids += self.ids_of_word[word]
        return ids

    def decode(self, ids):
        """Text of the ids; <|endoftext|> has none."""
        text = "".join(self.vocab[i] for i in ids if i != 0)
        return bytes(self.bytes[symbol] for symbol in text).decode("utf-8", "replace")


def tokenizer_json(vocab, merges):
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": 0, "content": END_OF_TEXT, "single_word": False, "lstrip": False,
                          "rstrip": False, "normalized": False, "special": True}],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                          "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                  "ignore_merges": False, "vocab": {token: i for i, token in enumerate(vocab)},
                  "merges": [" ".join(merge) for merge in merges]},
    }


def tokenizer_config():
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END_OF_TEXT,
        "bos_token": END_OF_TEXT,
        "add_bos_token": False,
        "model_max_length": config.CONTEXT,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=pathlib.Path)
    parser.add_argument("out_dir", type=pathlib.Path)
    parser.add_argument("--vocab", type=int, default=config.VOCAB)
    args = parser.parse_args()
    vocab, merges = train(args.corpus.read_text(encoding="utf-8"), args.vocab)
    args.out_dir.mkdir(parents=True, exist_ok=True)
    with open(args.out_dir / "tokenizer.json", "w", encoding="utf-8") as file:
        json.dump(tokenizer_json(vocab, merges), file, ensure_ascii=False)
    with open(args.out_dir / "tokenizer_config.json", "w", encoding="utf-8") as file:
        json.dump(tokenizer_config(), file, indent=1)
    print(f"{len(vocab)} tokens, {len(merges)} merges")


if __name__ == "__main__":
    main()
