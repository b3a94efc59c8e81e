"""check.py BINARY FOLDER: greedy replies of the three forms, MLRA also on 3 ranks, token for
token against llama.cpp on the same weights in F32.  Run by tools/demo-chat/check.

Two programs add in different orders, so where two tokens are nearly equally likely they
may choose differently, and from there on the texts have nothing to do with each other.
Such a place counts only if llama.cpp itself sees less than NEAR between the two logits;
the forms among themselves have to agree everywhere.
"""
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import llama_cpp
import numpy

FORMS = [("gqa", 1), ("mla_rope", 1), ("mlra", 1), ("mlra", 3)]     # form, ranks
QUESTIONS = [
    "Why is the sky blue?",
    "Write a short story about a clockmaker and a bird.",
    "List the first 12 prime numbers, then explain what a prime number is.",
    "Was ist der Unterschied zwischen Gestern und Morgen? 1234567890 naïve café ☕",
]
N_TOKENS = 96
NEAR = 1e-3


def chat_text(question):
    return (f"<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
            f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n")


# ---- llama.cpp ----

class Reference:
    def __init__(self, path):
        # Keys and values in F32 too; the default would round them to F16.
        self.model = llama_cpp.Llama(str(path), n_ctx=1024, n_batch=512, type_k=0, type_v=0, seed=1,
                                     n_threads=len(os.sched_getaffinity(0)), verbose=False)

    def reply(self, question):
        """Prompt tokens, output tokens, and the logits that each was chosen from."""
        prompt = self.model.tokenize(chat_text(question).encode(), add_bos=False, special=True)
        self.model.reset()
        self.model.eval(prompt)
        output, logits = [], []
        while len(output) < N_TOKENS:
            last = llama_cpp.llama_get_logits_ith(self.model.ctx, -1)
            row = numpy.ctypeslib.as_array(last, shape=(self.model.n_vocab(),)).copy()
            output.append(int(row.argmax()))
            logits.append(row)
            self.model.eval(output[-1:])
        return prompt, output, logits


# ---- latentd ----

def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def post(url, path, body):
    request = urllib.request.Request(url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as answer:
        return json.load(answer)


class Server:
    def __init__(self, binary, folder, ranks):
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [binary, "serve", "--model", str(folder), "--host", "127.0.0.1", "--port", str(port), "--tp", str(ranks),
             "--weights", "f32", "--max-model-len", "1024", "--max-sequences", "4"], stderr=self.log)
        while True:
            try:
                urllib.request.urlopen(self.url + "/readyz", timeout=2)
                return
            except (urllib.error.URLError, OSError):
                if self.process.poll() is not None:
                    self.log.seek(0)
                    sys.exit(f"check: the server did not start:\n{self.log.read().decode()}")
                time.sleep(0.2)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=60)

    def prompt(self, question):
        return post(self.url, "/tokenize", {"prompt": chat_text(question), "add_special_tokens": False})["tokens"]

    def chat_prompt(self, question):
        """What the chat endpoint makes of the question, by the model's own template."""
        messages = [{"role": "user", "content": question}]
        return post(self.url, "/tokenize", {"messages": messages, "add_generation_prompt": True})["tokens"]

    def reply(self, prompt):
        body = {"prompt": prompt, "max_tokens": N_TOKENS, "temperature": 0, "ignore_eos": True,
                "return_token_ids": True}
        return post(self.url, "/v1/completions", body)["choices"][0]["token_ids"]


# ---- the comparison ----

def difference(got, want, logits):
    """None if equal; else a sentence, and whether it is only a near tie."""
    for i, (a, b) in enumerate(zip(got, want)):
        if a != b:
            gap = float(logits[i][b] - logits[i][a])
            return f"token {i} is {a}, llama.cpp has {b}, which it prefers by {gap:.2g}", gap < NEAR
    return None if len(got) == len(want) else (f"{len(got)} tokens, expected {len(want)}", False)


def check_form(server, name, replies, first):
    """1 for each question that agrees."""
    passed = []
    for question, (prompt, want, logits) in replies.items():
        got = server.reply(prompt)
        wrong = difference(got, want, logits)
        same_prompt = server.prompt(question) == prompt and server.chat_prompt(question) == prompt
        same_forms = first.setdefault(question, got) == got
        ok = same_prompt and same_forms and (wrong is None or wrong[1])
        note = "" if wrong is None else ": " + wrong[0]
        note += "" if same_prompt else ": the prompt has other tokens"
        note += "" if same_forms else ": differs from the first form"
        print(f"{'ok' if ok else 'FAIL':4}  {name:18} {len(got)} tokens  {question[:40]}{note}", flush=True)
        passed.append(ok)
    return passed


def main():
    binary, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    reference = Reference(folder / "f32.gguf")
    replies = {question: reference.reply(question) for question in QUESTIONS}
    del reference
    passed, first = [], {}
    for form, ranks in FORMS:
        with Server(binary, folder / form, ranks) as server:
            passed += check_form(server, f"{form}, {ranks} rank{'s' if ranks > 1 else ''}", replies, first)
    print(f"{sum(passed)} passed, {len(passed) - sum(passed)} failed")
    sys.exit(0 if all(passed) else 1)


if __name__ == "__main__":
    main()
