"""client_guidellm - guidellm: every request of a short load succeeds, and its token counts are those of the server."""
import json
import pathlib
import sys

from cases import BASE_URL, KEY, ask, await_idle, check, check_counted, counters, run
from loads import Shape, Target, guidellm

ROOT = BASE_URL.removesuffix("/v1")
MODEL = ask(BASE_URL, "/models")["data"][0]["id"]
FOLDER = pathlib.Path(__file__).resolve().parents[2] / "models" / MODEL
TARGET = Target(pathlib.Path(sys.executable).with_name("guidellm"), ROOT, KEY, MODEL, FOLDER)
SHAPE = Shape(requests=12, concurrency=4, prompt_tokens=48, output_tokens=16)


def check_request(request):
    """What guidellm made of one reply, against the server's tokenizer."""
    body = json.loads(request["request_args"])["body"]
    check(body["stream"] and body["ignore_eos"], body)
    n_prompt = ask(BASE_URL, "/tokenize", {k: v for k, v in body.items() if k in ("prompt", "messages")})["count"]
    # It counts by the usage in the reply, and makes its prompts with the model's tokenizer.
    check(request["prompt_tokens"] == n_prompt >= SHAPE.prompt_tokens, (request, n_prompt))
    check("messages" in body or n_prompt == SHAPE.prompt_tokens, (body, n_prompt))
    check(request["output_tokens"] == SHAPE.output_tokens and request["output"], request)
    check(request["info"]["status"] == "completed" and not request["info"]["error"], request)
    # Events came one by one; what they took is no matter.
    timings = request["info"]["timings"]
    check(1 < timings["token_iterations"] < timings["request_iterations"], timings)
    check(request["time_to_first_token_ms"] >= 0 and request["inter_token_latency_ms"] >= 0, request)
    return n_prompt, request["input_metrics"]["cached_tokens"]


def check_load(path):
    before = counters(ROOT)
    benchmarks = guidellm(TARGET, path, SHAPE)
    check(len(benchmarks) == 1, len(benchmarks))
    benchmark = benchmarks[0]
    await_idle(BASE_URL)
    totals, requests = benchmark["metrics"]["request_totals"], benchmark["requests"]
    print(path, totals)
    check(totals == {"successful": SHAPE.requests, "errored": 0, "incomplete": 0, "total": SHAPE.requests}, totals)
    check(len(requests["successful"]) == SHAPE.requests and not requests["errored"] and not requests["incomplete"], requests)
    for name in ("time_to_first_token_ms", "inter_token_latency_ms"):
        check(benchmark["metrics"][name]["successful"]["count"] > 0, (name, benchmark["metrics"][name]))
    n_prompt, n_cached = map(sum, zip(*map(check_request, requests["successful"]), strict=True))
    check_counted(ROOT, before, SHAPE.requests, n_prompt, n_cached, SHAPE.requests * SHAPE.output_tokens)


def test_completions():
    """Streamed completions, four at once: nothing fails, and guidellm, the tokenizer and /metrics count the same."""
    check_load("/v1/completions")


def test_chat():
    """The same of chats."""
    check_load("/v1/chat/completions")


run(globals())
