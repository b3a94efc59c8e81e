"""client_aiperf - aiperf: every request of a short load succeeds, and its token counts are those of the server."""
import json
import pathlib
import sys

from cases import BASE_URL, KEY, ask, await_idle, check, check_counted, counters, run
from loads import Shape, Target, aiperf

ROOT = BASE_URL.removesuffix("/v1")
MODEL = ask(BASE_URL, "/models")["data"][0]["id"]
FOLDER = pathlib.Path(__file__).resolve().parents[2] / "models" / MODEL
TARGET = Target(pathlib.Path(sys.executable).with_name("aiperf"), ROOT, KEY, MODEL, FOLDER)
SHAPE = Shape(requests=12, concurrency=4, prompt_tokens=48, output_tokens=16)


def check_stream(record):
    """The events of one reply: text, a reason, the usage asked for, and the end."""
    events = [packet["value"] for response in record["responses"] for packet in response["packets"]]
    check(record["status"] == 200 and events[-1] == "[DONE]", record)
    chunks = [json.loads(event) for event in events[:-1]]
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    check([c["finish_reason"] for c in choices if c["finish_reason"]] == ["length"], choices)
    check("".join(c["text"] if "text" in c else c["delta"].get("content", "") for c in choices), choices)
    return chunks[-1]["usage"]


def check_record(record, sent):
    """What aiperf made of one reply, against the usage in it and the server's tokenizer."""
    usage = check_stream(sent)
    values = {name: metric["value"] for name, metric in record["metrics"].items()}
    check(not record.get("error") and not record["metadata"]["was_cancelled"], record)
    prompt = {k: v for k, v in sent["payload"].items() if k in ("prompt", "messages")}
    n_prompt = ask(BASE_URL, "/tokenize", prompt)["count"]
    check(values["usage_prompt_tokens"] == usage["prompt_tokens"] == n_prompt, (values, usage, n_prompt))
    # Its own count of the prompt, by the same tokenizer, has no chat template.
    check(values["input_sequence_length"] == SHAPE.prompt_tokens <= n_prompt, values)
    check("messages" in prompt or n_prompt == SHAPE.prompt_tokens, n_prompt)
    check(values["usage_completion_tokens"] == usage["completion_tokens"] == SHAPE.output_tokens, (values, usage))
    check(values["time_to_first_token"] >= 0 and values["inter_token_latency"] >= 0, values)
    check(0 < len(values["inter_chunk_latency"]) < SHAPE.output_tokens, values)
    check(values["usage_prompt_cache_read_tokens"] == usage["prompt_tokens_details"]["cached_tokens"], (values, usage))
    return n_prompt, usage["prompt_tokens_details"]["cached_tokens"]


def check_load(endpoint):
    before = counters(ROOT)
    summary, records, raw = aiperf(TARGET, endpoint, SHAPE)
    await_idle(BASE_URL)
    print(endpoint, {k: summary.get(k) for k in ("request_count", "error_summary", "was_cancelled", "is_complete")})
    check(summary["request_count"]["avg"] == SHAPE.requests and not summary.get("error_request_count"), summary)
    check(not summary["error_summary"] and not summary["was_cancelled"] and summary["is_complete"], summary)
    check(len(records) == SHAPE.requests and records.keys() == raw.keys(), (len(records), len(raw)))
    n_prompt, n_cached = map(sum, zip(*(check_record(records[name], raw[name]) for name in records), strict=True))
    check(summary["total_usage_prompt_tokens"]["avg"] == n_prompt, summary)
    check(summary["total_usage_completion_tokens"]["avg"] == SHAPE.requests * SHAPE.output_tokens, summary)
    check_counted(ROOT, before, SHAPE.requests, n_prompt, n_cached, SHAPE.requests * SHAPE.output_tokens)


def test_completions():
    """Streamed completions, four at once: nothing fails, and aiperf, the replies and /metrics count the same."""
    check_load("completions")


def test_chat():
    """The same of chats."""
    check_load("chat")


run(globals())
