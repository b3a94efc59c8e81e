"""client_guidellm - guidellm: every request of a short load succeeds, and its token counts are those of the server."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from cases import BASE_URL, KEY, ask, await_idle, check, check_counted, counters, run

ROOT = BASE_URL.removesuffix("/v1")
MODEL = ask(BASE_URL, "/models")["data"][0]["id"]
FOLDER = pathlib.Path(__file__).resolve().parents[2] / "models" / MODEL
REQUESTS, CONCURRENCY, PROMPT_TOKENS, OUTPUT_TOKENS = 12, 4, 48, 16

# guidellm reads its prompts through torch's DataLoader.  torch is a download of gigabytes, so this stands in for it:
# with no workers and batches of one, a DataLoader is an iterator over its data set.
TORCH = {
    "__init__.py": """
class Generator:
    def manual_seed(self, seed):
        return self


import torch.utils.data
""",
    "utils/__init__.py": "",
    "utils/data/__init__.py": """
import typing

T = typing.TypeVar("T")


class IterableDataset(typing.Generic[T]):
    pass


def get_worker_info():
    return None
""",
    "utils/data/dataset.py": "from torch.utils.data import IterableDataset\n",
    "utils/data/dataloader.py": """
import typing

T = typing.TypeVar("T")


class DataLoader(typing.Generic[T]):
    def __init__(self, dataset, batch_size, num_workers, **others):
        assert batch_size == 1 and num_workers == 0
        self.dataset = dataset

    def __iter__(self):
        return iter(self.dataset)
""",
}


def write_torch(folder):
    for name, text in TORCH.items():
        path = pathlib.Path(folder, "torch", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def load(path):
    """What guidellm writes of a run."""
    options = {
        "backend": {"kind": "openai_http", "target": ROOT, "model": MODEL, "request_format": path, "api_key": KEY},
        "profile": {"kind": "concurrent", "streams": CONCURRENCY},
        "constraint": {"kind": "max_requests", "count": REQUESTS},
        "tokenizer": {"kind": "huggingface_auto", "model": str(FOLDER)},
        "data": {"kind": "synthetic_text", "prompt_tokens": PROMPT_TOKENS, "output_tokens": OUTPUT_TOKENS},
        "data-loader": {"kind": "pytorch", "samples": REQUESTS, "num_workers": 0},
    }
    with tempfile.TemporaryDirectory() as folder:
        write_torch(folder)
        out = pathlib.Path(folder, "out.json")
        options["output"] = {"kind": "json", "path": str(out)}
        # Nothing is to be looked for elsewhere, and no other library is to use what is not torch.
        environment = dict(os.environ, HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", HF_HOME=folder, USE_TORCH="0",
                           PYTHONPATH=folder, GUIDELLM__MAX_WORKER_PROCESSES="1")
        done = subprocess.run(
            [pathlib.Path(sys.executable).with_name("guidellm"), "run", "--disable-console",
             *(word for name, value in options.items() for word in ("--" + name, json.dumps(value)))],
            env=environment, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        check(done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:])
        with open(out, encoding="utf-8") as file:
            benchmarks = json.load(file)["benchmarks"]
        check(len(benchmarks) == 1, len(benchmarks))
        return benchmarks[0]


def check_request(request):
    """What guidellm made of one reply, against the server's tokenizer."""
    body = json.loads(request["request_args"])["body"]
    check(body["stream"] and body["ignore_eos"], body)
    n_prompt = ask(BASE_URL, "/tokenize", {k: v for k, v in body.items() if k in ("prompt", "messages")})["count"]
    # It counts by the usage in the reply, and makes its prompts with the model's tokenizer.
    check(request["prompt_tokens"] == n_prompt >= PROMPT_TOKENS, (request, n_prompt))
    check("messages" in body or n_prompt == PROMPT_TOKENS, (body, n_prompt))
    check(request["output_tokens"] == OUTPUT_TOKENS and request["output"], request)
    check(request["info"]["status"] == "completed" and not request["info"]["error"], request)
    # Events came one by one; what they took is no matter.
    timings = request["info"]["timings"]
    check(1 < timings["token_iterations"] < timings["request_iterations"], timings)
    check(request["time_to_first_token_ms"] >= 0 and request["inter_token_latency_ms"] >= 0, request)
    return n_prompt, request["input_metrics"]["cached_tokens"]


def check_load(path):
    before = counters(ROOT)
    benchmark = load(path)
    await_idle(BASE_URL)
    totals, requests = benchmark["metrics"]["request_totals"], benchmark["requests"]
    print(path, totals)
    check(totals == {"successful": REQUESTS, "errored": 0, "incomplete": 0, "total": REQUESTS}, totals)
    check(len(requests["successful"]) == REQUESTS and not requests["errored"] and not requests["incomplete"], requests)
    for name in ("time_to_first_token_ms", "inter_token_latency_ms"):
        check(benchmark["metrics"][name]["successful"]["count"] > 0, (name, benchmark["metrics"][name]))
    n_prompt, n_cached = map(sum, zip(*map(check_request, requests["successful"]), strict=True))
    check_counted(ROOT, before, REQUESTS, n_prompt, n_cached, REQUESTS * OUTPUT_TOKENS)


def test_completions():
    """Streamed completions, four at once: nothing fails, and guidellm, the tokenizer and /metrics count the same."""
    check_load("/v1/completions")


def test_chat():
    """The same of chats."""
    check_load("/v1/chat/completions")


run(globals())
