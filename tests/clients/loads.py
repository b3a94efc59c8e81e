"""loads - a short load on a server by guidellm or aiperf, offline; what they wrote of it.

For the clients of those names, and for bench/agreement.  Nothing but the standard library: the tools are programs.
"""
import collections
import json
import os
import pathlib
import subprocess
import tempfile

# Where the server is; the directory that has its tokenizer; the tool as a program.
Target = collections.namedtuple("Target", "program url key model folder")
Shape = collections.namedtuple("Shape", "requests concurrency prompt_tokens output_tokens")

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


def run_tool(words, environment, folder, timeout):
    done = subprocess.run(words, env=dict(os.environ, **environment), cwd=folder, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=timeout)
    if done.returncode != 0:
        raise AssertionError(done.stdout[-3000:] + done.stderr[-3000:])


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def guidellm_environment(folder):
    """Nothing is to be looked for elsewhere, and no other library is to use what is not torch."""
    write_torch(folder)
    return dict(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", HF_HOME=folder, USE_TORCH="0", PYTHONPATH=folder,
                GUIDELLM__MAX_WORKER_PROCESSES="1")


def guidellm(target, path, shape, timeout=120):
    """What guidellm writes of a run of streamed requests to path."""
    options = {
        "backend": {"kind": "openai_http", "target": target.url, "model": target.model, "request_format": path,
                    "api_key": target.key},
        "profile": {"kind": "concurrent", "streams": shape.concurrency},
        "constraint": {"kind": "max_requests", "count": shape.requests},
        "tokenizer": {"kind": "huggingface_auto", "model": str(target.folder)},
        "data": {"kind": "synthetic_text", "prompt_tokens": shape.prompt_tokens, "output_tokens": shape.output_tokens},
        "data-loader": {"kind": "pytorch", "samples": shape.requests, "num_workers": 0},
    }
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder, "out.json")
        options["output"] = {"kind": "json", "path": str(out)}
        run_tool([target.program, "run", "--disable-console",
                  *(word for name, value in options.items() for word in ("--" + name, json.dumps(value)))],
                 guidellm_environment(folder), folder, timeout)
        return read_json(out)["benchmarks"]


def save_tokenizer(home, folder):
    """Offline, aiperf finds a tokenizer by name only, in what Hugging Face's library has cached; its name."""
    cached = pathlib.Path(home, "hub", "models--latentd--demo")
    for name in ("refs", "snapshots"):
        (cached / name).mkdir(parents=True)
    (cached / "refs" / "main").write_text("0", encoding="utf-8")
    (cached / "snapshots" / "0").symlink_to(folder)
    return "latentd/demo"


def read_lines(path):
    with open(path, encoding="utf-8") as lines:
        return list(map(json.loads, lines))


def aiperf(target, endpoint, shape, timeout=120):
    """The summary of a run, {request: its metrics}, {request: what was sent and received}."""
    with tempfile.TemporaryDirectory() as folder:
        home, out = pathlib.Path(folder, "home"), pathlib.Path(folder, "out")
        # Nothing is to be looked for elsewhere.
        environment = dict(HF_HUB_OFFLINE="1", HF_HOME=str(home), MPLCONFIGDIR=folder)
        run_tool([target.program, "profile", "--model", target.model, "--url", target.url,
                  "--endpoint-type", endpoint, "--streaming", "--api-key", target.key,
                  "--tokenizer", save_tokenizer(home, target.folder),
                  "--request-count", str(shape.requests), "--concurrency", str(shape.concurrency), "--random-seed", "1",
                  "--isl", str(shape.prompt_tokens), "--isl-stddev", "0", "--osl", str(shape.output_tokens),
                  "--osl-stddev", "0", "--extra-inputs", "ignore_eos:true", "--export-level", "raw", "--artifact-dir", out,
                  "--no-gpu-telemetry", "--no-server-metrics", "--ui", "none"], environment, folder, timeout)
        records, raw = ({line["metadata"]["x_request_id"]: line for line in read_lines(out / name)}
                        for name in ("profile_export.jsonl", "profile_export_raw.jsonl"))
        return read_json(out / "profile_export_aiperf.json"), records, raw
