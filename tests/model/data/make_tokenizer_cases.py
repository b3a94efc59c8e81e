#!/usr/bin/env python3
"""Write the expected tokens that test_tokenizer and test_pretokenizer compare with.

Usage: make_tokenizer_cases.py OUT_DIR DEMO_TOKENIZER_JSON      (needs `pip install tokenizers==0.23.3`)

Trains small tokenizers of the shapes real checkpoints have, on the text below, and lets the
reference implementation (Hugging Face tokenizers) encode and decode a list of nasty strings.
Run once; the files it wrote are in the repository, so the tests need neither Python nor network.
"""
import json, os, sys
import tokenizers
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

CORPUS = [
    "The quick brown fox jumps over the lazy dog. It's the dog's day, isn't it? They'll say we've won.",
    "def main(argc, argv):\n    for i in range(1000):\n        print(i, 'value', argv[i])\n    return 0\n",
    "In 1969 there were 12345 people at 3.14159 places; 2024-11-30 was the 335th day.",
    "深度学习模型的注意力机制。多头潜在注意力压缩了键和值。你好，世界！",
    "Привет, мир! Ёлка и ещё одна ёлка. Größe, Straße, naïve café, señor.",
    "こんにちは世界。カタカナとひらがな。안녕하세요 세계",
    "the cache holds the latents of the tokens; the ranks share the heads of the layers of the model " * 4,
    "Hello hello HELLO  hello   there\tthere\r\n\r\nnew paragraph\n\n\nend  \n  indented",
]

NASTY = [
    "", " ", "  ", "a", " a", "a ", "\n", "\n\n\n", "\t\t x", "Hello, world!", "hello   world     end    ",
    "It's they'll I'd WE'VE 'S 'll 'ſ don''t", "isn't'it's", "x=1234567890; y=3.14e-10", "٣٤٥ ⅷ ² ½ １２３",
    "mixed\r\nnew\rlines\n\r \n\n  \n x", "   leading and trailing   ", "a\u00a0b\u3000c\u2028d\u0085e\u200bf",
    "👨‍👩‍👧‍👦 family, 🏳️‍🌈 flag, 👍🏽 thumb", "深度学习 mixed中文text和123数字，。！", "々〇漢字かなカナー한글",
    "e\u0301 vs é, \u1e9b\u0323, \ufb01 ligature, Å Å, ｆｕｌｌ", "Zalgo: t\u0316\u0301\u0300e\u0327\u0330x\u0351t",
    "control \x00\x01\x02\x1b[0m\x7f bytes", "\x00", "\u0000\u0000a", "ÀÁÂ ß ſ İI ıi Σς", "\ufeffbom",
    "\U0010ffff\ufffd",
    "{}[]()<>|\\/!@#$%^&*_+-=~`\"';:,.?", "snake_case CamelCase kebab-case __init__",
    "https://example.org/a?b=c&d=%20#e",
    "................................", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", " " * 100 + "x",
    "x" + " " * 67,
    "\n" * 40, " \n" * 20, "=-" * 30, "the the the thethethe", "▁ under ▁▁bar▁", "a ▁ b",
    "<0x41> <0xZZ> <0x-1> <unk> <s>",
    "<s>", "</s>", "text<s>inside</s>text", "<|im_start|>user\nhi<|im_end|>\n", "<|im_start|><|im_start|>",
    "<|im_start",
    " <mask> b", "a  <mask>  b", "a\n<left>b", "a <right>  b", "word", "words sword word", "a word.", "word word",
    "(word)",
    "naïve café", "NAÏVE CAFÉ WORD", "<think> ok </think>", "hé<think>llo", "Straße Größe",
    "1 22 333 4444 55555 666666",
    "if (x<10) {\n\treturn x*2;  // twice\n}\n", "Привет, МИР! ёлка", "שלום עולם", "สวัสดีชาวโลก", "नमस्ते दुनिया",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𐍈",
    "a\u180eb", "tail\u0301", "\u0301head", "q\u0307\u0323", " .", ". .", "，。 ！", "$100, €200 £300", "½ cup",
    "¿Qué?", "\u00ad soft",
    "\u24cc" + "word", "\u200d" + "word", "word\u0301", "  \n lead", " <s> x",
]

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
V3_MAIN = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
           r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
V2 = [r"[\r\n]", r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-Ֆ]+", r"\s?[!-/:-~！-／：-～‘-‟　-。]+",
      r"\s+$", r"[一-龥ࠀ-一가-퟿]+"]
KIMI = (r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
        r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+")


def split(regex, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(regex), behavior, invert)


def byte_level(*before, prefix=False):
    last = pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=False)
    return pre_tokenizers.Sequence([*before, last]) if before else last


def train(tok, vocab_size=520, alphabet=None, special=()):
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, show_progress=False, special_tokens=list(special),
                                  initial_alphabet=alphabet or [])
    tok.train_from_iterator(CORPUS, trainer)
    return tok


def byte_tokenizer(pre, special=(), **model):
    tok = Tokenizer(models.BPE(**model))
    tok.pre_tokenizer = pre
    tok.decoder = decoders.ByteLevel()
    return train(tok, 620, pre_tokenizers.ByteLevel.alphabet(), special)


def added(i, content, special=False, **flags):
    entry = {"id": i, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
             "normalized": not special, "special": special}
    entry.update(flags)
    return entry


def template(content, i):
    return {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": content, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {content: {"id": content, "ids": [i], "tokens": [content]}}}


def with_added(spec, entries):
    """Append added tokens behind the vocabulary, as checkpoints do."""
    n = 1 + max(list(spec["model"]["vocab"].values()) + [t["id"] for t in spec["added_tokens"]])
    for content, special, flags in entries:
        spec["added_tokens"].append(added(n, content, special, **flags))
        n += 1
    return spec


CHAT = [("<|im_start|>", True, {}), ("<|im_end|>", True, {}), ("<think>", False, {"normalized": False}),
        ("</think>", False, {"normalized": False}), ("<mask>", True, {"lstrip": True}),
        ("<left>", False, {"lstrip": True, "normalized": False}), ("<right>", False, {"rstrip": True,
                                                                                      "normalized": False}),
        ("word", False, {"single_word": True}), ("Größe", False, {}), ("  \n", False, {"normalized": False})]


def pieces_of_metaspace_bpe(vocab_size=420):
    """A SentencePiece-like BPE: <unk>, <s>, </s>, 256 bytes, characters, merges."""
    tok = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tok.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tok.pre_tokenizer = split("▁", "merged_with_next")
    train(tok, vocab_size, special=["<unk>", "<s>", "</s>"] + ["<0x%02X>" % b for b in range(256)])
    spec = json.loads(tok.to_str())
    spec["pre_tokenizer"] = None
    spec["added_tokens"] = [added(i, c, True) for i, c in enumerate(["<unk>", "<s>", "</s>"])]
    spec["decoder"] = {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    return spec


def make_specs():
    specs = {}
    specs["gpt2"] = json.loads(byte_tokenizer(pre_tokenizers.ByteLevel(add_prefix_space=False), ["<s>"]).to_str())

    s = json.loads(byte_tokenizer(byte_level(split(LLAMA3)), ["<s>", "</s>"]).to_str())
    s["model"]["ignore_merges"] = True
    s["post_processor"] = {"type": "Sequence", "processors": [
        {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True},
        template("<s>", 0)]}
    specs["llama3"] = with_added(s, CHAT)

    s = json.loads(byte_tokenizer(byte_level(split(r"\p{N}{1,3}"), split("[一-龥぀-ゟ゠-ヿ]+"), split(V3_MAIN)), ["<s>",
                                                                                                            "</s>"]).to_str())
    s["normalizer"] = {"type": "Sequence", "normalizers": []}
    s["post_processor"] = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}
    for t in s["added_tokens"]:
        t["normalized"] = False
    specs["deepseek_v3"] = with_added(s, [(c, sp, dict(f, normalized=False)) for c, sp, f in CHAT])

    s = json.loads(byte_tokenizer(byte_level(*[split(r) for r in V2],
                                             pre_tokenizers.Digits(individual_digits=True)), ["<s>"]).to_str())
    s["model"]["merges"] = [" ".join(m) for m in s["model"]["merges"]]
    specs["deepseek_v2"] = s

    specs["kimi"] = json.loads(byte_tokenizer(byte_level(split(KIMI)), ["<s>"]).to_str())

    s = json.loads(byte_tokenizer(byte_level(pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation(),
                                             pre_tokenizers.Digits(individual_digits=False), prefix=True),
                                             ["<s>"]).to_str())
    s["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]}
    specs["words"] = with_added(s, CHAT)

    s = pieces_of_metaspace_bpe()
    s["post_processor"] = template("<s>", 1)
    specs["llama2"] = with_added(s, CHAT[:7])

    s = pieces_of_metaspace_bpe()
    s["normalizer"] = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    s["pre_tokenizer"] = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious",
                          "invert": False}
    s["decoder"]["decoders"] = s["decoder"]["decoders"][:3]
    specs["gemma"] = with_added(s, [("▁▁", False, {"normalized": False}), ("\n\n", False, {"normalized": False})])

    for scheme, cut in (("first", False), ("always", True), ("never", True)):
        s = pieces_of_metaspace_bpe()
        s["model"]["byte_fallback"] = False
        s["model"]["fuse_unk"] = scheme == "first"
        s["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Strip",
                                                                                  "strip_left": False,
                                                                                  "strip_right": True}]} \
            if scheme == "always" else None
        s["pre_tokenizer"] = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": cut}
        s["decoder"] = dict(s["pre_tokenizer"])
        specs["metaspace_" + scheme] = with_added(s, CHAT)
    return specs


def tokenizer_cases(spec):
    tok = Tokenizer.from_str(json.dumps(spec))
    for t in spec["added_tokens"]:
        assert tok.token_to_id(t["content"]) == t["id"], t
    cases = []
    for text in NASTY:
        ids = tok.encode(text, add_special_tokens=False).ids
        case = {"text": text, "ids": ids, "with_special": tok.encode(text).ids}
        for field, skip in (("decoded", False), ("decoded_skip", True)):
            decoded = tok.decode(ids, skip_special_tokens=skip)
            # The reference reads an added token as mapped bytes and breaks "Größe"; a test says what is right.
            if "\ufffd" not in decoded or "\ufffd" in text:
                case[field] = decoded
        cases.append(case)
    return cases


def pieces_row(pre, texts):
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre
    return {"pre_tokenizer": json.loads(tok.to_str())["pre_tokenizer"],
            "cases": [[t, [p for p, _ in pre.pre_tokenize_str(t)]] for t in texts]}


def pretokenizer_cases():
    short = ["--a-b--c-", "-", "--", "axxbx", "x", "aéb-", " a  b ", "\n\na\nb\n", "👨‍👩‍👧 x-"]
    specs = [split(r, b, i) for r, b, i in [(p, b, i) for p in ("-", r"\s+", "x*", "[aeiou]", "$", "") for b in
             ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous") for i in (False,
                                                                                                         True)]]
    rows = [pieces_row(s, short) for s in specs]
    specs = [pre_tokenizers.Split("-", "isolated"), pre_tokenizers.Split(".", "removed"), split(LLAMA3),
             split(V3_MAIN), split(KIMI),
              split(r"\s+$"), split(r"\p{Han}+"), split(r"\p{Greek}|\P{Latin}"), split(r"[\p{L}&&[a-z]]+"),
              split("^a|b$"), split("(?i:'s|ÉT)"), pre_tokenizers.Digits(True), pre_tokenizers.Digits(False),
              pre_tokenizers.Punctuation(),
              pre_tokenizers.Punctuation("removed"), pre_tokenizers.Punctuation("contiguous"),
              pre_tokenizers.WhitespaceSplit(),
              pre_tokenizers.ByteLevel(add_prefix_space=True), pre_tokenizers.ByteLevel(add_prefix_space=False),
              pre_tokenizers.Metaspace(), pre_tokenizers.Metaspace(prepend_scheme="first", split=False),
              pre_tokenizers.Metaspace(replacement="_", prepend_scheme="never"),
              pre_tokenizers.Sequence([split(r"\p{N}"), pre_tokenizers.ByteLevel(add_prefix_space=True)]),
              pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(),
                                       pre_tokenizers.Metaspace(prepend_scheme="first")])]
    long = NASTY[1:60] + short + ["Ω-omega αβγ", "éT STRASSE straße Été"]
    return rows + [pieces_row(s, long) for s in specs]


def normalizer_cases():
    rows = []
    specs = [normalizers.NFC(), normalizers.NFD(), normalizers.NFKC(), normalizers.NFKD(), normalizers.Lowercase(),
             normalizers.Strip(),
             normalizers.Strip(left=True, right=False), normalizers.Strip(left=False, right=True),
             normalizers.Prepend("▁"),
             normalizers.Replace(" ", "▁"), normalizers.Replace(Regex(" {2,}"), "_"),
             normalizers.Replace(Regex(r"\s+"), " "), normalizers.Sequence([]),
             normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(), normalizers.Replace("e", "EE"),
                                   normalizers.Strip()])]
    for s in specs:
        tok = Tokenizer(models.BPE())
        tok.normalizer = s
        rows.append({"normalizer": json.loads(tok.to_str())["normalizer"], "cases": [[t,
                                                                                      s.normalize_str(t)] for t in NASTY[1:]]})
    return rows


def write(path, data):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(data, f, ensure_ascii=False, separators=(",", ":"))
        f.write("\n")
    print(path, os.path.getsize(path))


if __name__ == "__main__":
    out = sys.argv[1]
    made_by = "make_tokenizer_cases.py, tokenizers " + tokenizers.__version__
    specs = make_specs()
    specs["demo"] = json.load(open(sys.argv[2], encoding="utf-8"))
    for name, spec in specs.items():
        write(f"{out}/tokenizer_{name}.json", {"made_by": made_by, "tokenizer": spec, "cases": tokenizer_cases(spec)})
    write(f"{out}/pretokenizer_cases.json", {"made_by": made_by, "rows": pretokenizer_cases()})
    write(f"{out}/normalizer_cases.json", {"made_by": made_by, "rows": normalizer_cases()})
