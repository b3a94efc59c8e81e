"""client_aiperf - aiperf: every request of a short load succeeds, and its token counts are those of the server."""
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


def save_tokenizer(home):
    """Offline, aiperf finds a tokenizer by name only, in what Hugging Face's library has cached; its name."""
    cached = pathlib.Path(home, "hub", "models--latentd--demo")
    for folder in ("refs", "snapshots"):
        (cached / folder).mkdir(parents=True)
    (cached / "refs" / "main").write_text("0", encoding="utf-8")
    (cached / "snapshots" / "0").symlink_to(FOLDER)
    return "latentd/demo"


def read_lines(path):
    with open(path, encoding="utf-8") as lines:
        return list(map(json.loads, lines))


def load(endpoint):
    """The summary of a run, {request: its metrics}, {request: what was sent and received}."""
    with tempfile.TemporaryDirectory() as folder:
        home, out = pathlib.Path(folder, "home"), pathlib.Path(folder, "out")
        # Nothing is to be looked for elsewhere.
        environment = dict(os.environ, HF_HUB_OFFLINE="1", HF_HOME=str(home), MPLCONFIGDIR=folder)
        done = subprocess.run(
            [pathlib.Path(sys.executable).with_name("aiperf"), "profile", "--model", MODEL, "--url", ROOT,
             "--endpoint-type", endpoint, "--streaming", "--api-key", KEY, "--tokenizer", save_tokenizer(home),
             "--request-count", str(REQUESTS), "--concurrency", str(CONCURRENCY), "--random-seed", "1",
             "--isl", str(PROMPT_TOKENS), "--isl-stddev", "0", "--osl", str(OUTPUT_TOKENS), "--osl-stddev", "0",
             "--extra-inputs", "ignore_eos:true", "--export-level", "raw", "--artifact-dir", out,
             "--no-gpu-telemetry", "--no-server-metrics", "--ui", "none"],
            env=environment, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        check(done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:])
        with open(out / "profile_export_aiperf.json", encoding="utf-8") as file:
            summary = json.load(file)
        records, raw = ({line["metadata"]["x_request_id"]: line for line in read_lines(out / name)}
                        for name in ("profile_export.jsonl", "profile_export_raw.jsonl"))
        return summary, records, raw


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
    check(values["input_sequence_length"] == PROMPT_TOKENS <= n_prompt, values)
    check("messages" in prompt or n_prompt == PROMPT_TOKENS, n_prompt)
    check(values["usage_completion_tokens"] == usage["completion_tokens"] == OUTPUT_TOKENS, (values, usage))
    check(values["time_to_first_token"] >= 0 and values["inter_token_latency"] >= 0, values)
    check(0 < len(values["inter_chunk_latency"]) < OUTPUT_TOKENS, values)
    check(values["usage_prompt_cache_read_tokens"] == usage["prompt_tokens_details"]["cached_tokens"], (values, usage))
    return n_prompt, usage["prompt_tokens_details"]["cached_tokens"]


def check_load(endpoint):
    before = counters(ROOT)
    summary, records, raw = load(endpoint)
    await_idle(BASE_URL)
    print(endpoint, {k: summary.get(k) for k in ("request_count", "error_summary", "was_cancelled", "is_complete")})
    check(summary["request_count"]["avg"] == REQUESTS and not summary.get("error_request_count"), summary)
    check(not summary["error_summary"] and not summary["was_cancelled"] and summary["is_complete"], summary)
    check(len(records) == REQUESTS and records.keys() == raw.keys(), (len(records), len(raw)))
    n_prompt, n_cached = map(sum, zip(*(check_record(records[name], raw[name]) for name in records), strict=True))
    check(summary["total_usage_prompt_tokens"]["avg"] == n_prompt, summary)
    check(summary["total_usage_completion_tokens"]["avg"] == REQUESTS * OUTPUT_TOKENS, summary)
    check_counted(ROOT, before, REQUESTS, n_prompt, n_cached, REQUESTS * OUTPUT_TOKENS)


def test_completions():
    """Streamed completions, four at once: nothing fails, and aiperf, the replies and /metrics count the same."""
    check_load("completions")


def test_chat():
    """The same of chats."""
    check_load("chat")


run(globals())
