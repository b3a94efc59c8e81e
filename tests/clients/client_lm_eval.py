"""client_lm_eval - lm-evaluation-harness, local-completions: logprobs of given texts, perplexity, generated text."""
import functools
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

from cases import BASE_URL, KEY, ask, check, run

MODELS = pathlib.Path(__file__).resolve().parents[2] / "models"
MODEL = ask(BASE_URL, "/models")["data"][0]

# What a model that has read Jane Austen must find likelier is always the first.
CHOICES = [
    ("\"Yes,\" said", [" he", " of", " very"]),
    ("She shook her", [" head", " went", " said"]),
    ("I do not know", [" what", " table", " hand"]),
    ("At the end of", [" the", " said", " came"]),
    ("There was a great deal", [" of", " said", " he"]),
    ("My dear", [" sir", " was", " of"]),
    ("It was one", [" of", " said", " and"]),
    ("They looked at each", [" other", " very", " said"]),
]
STARTS = ["\"My dear Miss Bennet,\" said", "It was"]
# Text the demo model has not seen, and the trainer's loss on it.
with open(MODELS / "heldout-excerpt.txt", encoding="utf-8") as file:
    EXCERPT = file.read()
with open(MODELS / MODEL["id"] / "expected-loss.json", encoding="utf-8") as file:
    EXPECTED = json.load(file)

TASKS = {
    "latentd_choice": """
output_type: multiple_choice
doc_to_text: "{{text}}"
doc_to_choice: "{{choices}}"
doc_to_target: 0
target_delimiter: ""
metric_list: [{metric: acc}]
""",
    "latentd_perplexity": """
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{text}}"
metric_list: [{metric: word_perplexity}]
""",
    "latentd_story": """
output_type: generate_until
doc_to_text: "{{text}}"
doc_to_target: ","
generation_kwargs: {until: [","], max_gen_toks: 100, temperature: 0}
metric_list: [{metric: exact_match}]
""",
}


def write_tasks(folder):
    """One YAML and one JSON lines file for each task."""
    documents = {
        "latentd_choice": [{"text": text, "choices": choices} for text, choices in CHOICES],
        # The second passes the context, so it is cut into windows.
        "latentd_perplexity": [{"text": EXCERPT}, {"text": EXCERPT * 3}],
        "latentd_story": [{"text": text} for text in STARTS],
    }
    for task, text in TASKS.items():
        data = os.path.join(folder, task + ".jsonl")
        with open(data, "w", encoding="utf-8") as lines:
            lines.writelines(json.dumps(d) + "\n" for d in documents[task])
        with open(os.path.join(folder, task + ".yaml"), "w", encoding="utf-8") as file:
            file.write(f"task: {task}\ndataset_path: json\ntest_split: test\n"
                       f"dataset_kwargs: {{data_files: {{test: {data}}}}}\n{text}")


def read_output(folder):
    """{task: its metrics}, {task: its samples in order}"""
    with open(next(folder.rglob("results*.json")), encoding="utf-8") as file:
        results = json.load(file)["results"]
    samples = {}
    for path in folder.rglob("*.jsonl"):
        task = next(t for t in TASKS if t in path.name)
        with open(path, encoding="utf-8") as lines:
            samples[task] = sorted(map(json.loads, lines), key=lambda sample: sample["doc_id"])
    return results, samples


def evaluate(batch_size=1, num_concurrent=1):
    """What a run over all tasks finds."""
    model_args = {"model": MODEL["id"], "base_url": BASE_URL + "/completions", "tokenizer_backend": "remote",
                  "auth_token": KEY, "max_length": MODEL["max_model_len"], "max_retries": 1,
                  "num_concurrent": num_concurrent}
    with tempfile.TemporaryDirectory() as folder:
        write_tasks(folder)
        # Nothing is to be looked for elsewhere; what it caches goes with the folder.
        environment = dict(os.environ, HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", HF_HOME=folder)
        out = pathlib.Path(folder, "out")
        done = subprocess.run(
            [pathlib.Path(sys.executable).with_name("lm_eval"), "run", "--model", "local-completions",
             "--model_args", ",".join(f"{k}={v}" for k, v in model_args.items()), "--tasks", ",".join(TASKS),
             "--batch_size", str(batch_size), "--include_path", folder, "--output_path", out, "--log_samples"],
            env=environment, capture_output=True, text=True, timeout=240)
        check(done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:])
        return read_output(out)


def logprob_of(text, continuation):
    """The same number without the harness."""
    tokens = ask(BASE_URL, "/tokenize", {"prompt": text + continuation, "add_special_tokens": False})["tokens"]
    n_context = len(ask(BASE_URL, "/tokenize", {"prompt": text, "add_special_tokens": False})["tokens"])
    reply = ask(BASE_URL, "/completions", {"prompt": tokens, "max_tokens": 0, "echo": True, "logprobs": 0})
    return math.fsum(reply["choices"][0]["logprobs"]["token_logprobs"][n_context:])


@functools.cache
def alone():
    """The first run: one call after the other."""
    return evaluate()


def test_choices():
    """The likelier continuations are found, and their logprobs are those of a plain call."""
    results, samples = alone()
    check(results["latentd_choice"]["acc,none"] >= 0.85, results["latentd_choice"])
    for sample, (text, choices) in zip(samples["latentd_choice"], CHOICES, strict=True):
        for (logprob, _), choice in zip(sample["filtered_resps"], choices, strict=True):
            check(abs(float(logprob) - logprob_of(text, choice)) < 1e-3, (text, choice, logprob))


def test_perplexity():
    """The loss on text it has not seen is the trainer's; its weights and products are bf16 here."""
    _, samples = alone()
    loss = [-float(s["filtered_resps"][0]) / EXPECTED["tokens"] for s in samples["latentd_perplexity"]]
    check(abs(loss[0] - EXPECTED["nats_per_token"]) < 0.02, (loss, EXPECTED))
    check(loss[0] * 2 < loss[1] < loss[0] * 3.3, loss)


def test_generation():
    """Generated texts end before the comma they were told to end at."""
    _, samples = alone()
    for sample in samples["latentd_story"]:
        text = sample["resps"][0][0]
        check(text.strip() and "," not in text, text)


def test_batched_and_concurrent():
    """In batches of 4, and 8 calls at once, every number and text is the same."""
    _, samples = alone()
    _, others = evaluate(batch_size=4, num_concurrent=8)
    for task in TASKS:
        responses = [[s["resps"] for s in found[task]] for found in (samples, others)]
        check(responses[0] == responses[1], (task, responses))


run(globals())
