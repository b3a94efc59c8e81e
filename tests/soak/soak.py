#!/usr/bin/env python3
"""soak - many minutes of random requests, cancels and disconnects against the real server.

    LATENTD_BUILD=build/release tests/soak/soak.py --seconds 600

Clients ask for completions, chats, embeddings and saves of the cache, streamed or not, with choices, penalties,
stop strings, grammars and log-probabilities; half of them leave before the end, some read slowly, and one asks the
same greedy question over and over and compares.  At the end the server must be idle, hold no block, have the memory
it had after the warm-up, and end with 0.  Exit code 1 if not.
"""
import argparse, http.client, json, os, random, signal, sys, tempfile, threading, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "server"))
sys.dont_write_bytecode = True
from daemon_fixture import Daemon

WORDS = "it is a truth universally acknowledged that a single man in possession of good fortune".split()
QUESTION = {"prompt": "She was the youngest", "max_tokens": 40, "temperature": 0, "logprobs": 2, "ignore_eos": True}


class Soak:
    def __init__(self, daemon, seed):
        self.daemon, self.seed = daemon, seed
        self.end = threading.Event()
        self.lock = threading.Lock()
        self.counts, self.problems = {}, []

    def count(self, what):
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + 1

    def problem(self, text):
        with self.lock:
            self.problems.append(text)


def random_body(rng):
    """(path, body) of a call that the server must accept."""
    text = " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 60)))
    if rng.random() < 0.05:
        return "/v1/embeddings", {"input": [text] * rng.randint(1, 3)}
    if rng.random() < 0.01:
        return "/v1/cache/save", {}
    body = {"max_tokens": rng.randint(0, 120), "temperature": rng.choice([0, 0.7, 1.3]), "seed": rng.randint(0, 99),
            "n": rng.choice([1, 1, 1, 2, 5]), "top_p": rng.choice([1, 0.8]), "stream": rng.random() < 0.7,
            "presence_penalty": rng.choice([0, 0.5]), "frequency_penalty": rng.choice([0, 0.5]),
            "repetition_penalty": rng.choice([1, 1.2]), "ignore_eos": rng.random() < 0.5}
    if rng.random() < 0.3:
        body["stop"] = rng.choice(["the", [".", "never in it"], ["and", ","]])
    if rng.random() < 0.2:
        body["response_format"] = {"type": "json_object"}
    if rng.random() < 0.1:
        body["cache_salt"] = rng.choice(["a", "b"])
    if rng.random() < 0.5:
        body["messages"] = [{"role": "user", "content": text}]
        body["max_tokens"] = max(1, body["max_tokens"])
        if rng.random() < 0.3:
            body.update(logprobs=True, top_logprobs=rng.randint(0, 5))
        return "/v1/chat/completions", body
    body["prompt"] = text
    if rng.random() < 0.3:
        body["logprobs"] = rng.randint(0, 5)
    if rng.random() < 0.1:
        body["echo"] = True
    return "/v1/completions", body


def read_some(reply, rng):
    """Read on and leave, or dawdle, or read to the end; 1 if it is the end."""
    how = rng.random()
    if how < 0.4:
        for _ in range(rng.randint(0, 20)):
            if not reply.read1(200):
                return True
        return False
    while True:
        if how < 0.5:
            time.sleep(0.02)
        if not reply.read1(4096):
            return True


def one_call(soak, rng):
    path, body = random_body(rng)
    connection = http.client.HTTPConnection("127.0.0.1", soak.daemon.port, timeout=120)
    try:
        connection.request("POST", path, json.dumps(body))
        if rng.random() < 0.15:                         # leaves before a byte of the reply
            time.sleep(rng.random() * 0.05)
            soak.count("left at once")
            return
        reply = connection.getresponse()
        soak.count(f"status {reply.status}")
        if reply.status >= 400 and not (reply.status in (429, 503)):
            soak.problem(f"{path} {body}: {reply.status} {reply.read()[:300]}")
        soak.count("read to the end" if read_some(reply, rng) else "left in the middle")
    finally:
        connection.close()


def work(soak, number):
    rng = random.Random(soak.seed * 1000 + number)
    while not soak.end.is_set():
        try:
            one_call(soak, rng)
        except (OSError, http.client.HTTPException) as e:
            soak.problem(f"{type(e).__name__}: {e}")


def ask_the_same(soak):
    """What the only right answer is shows the first one, asked of an idle server."""
    first = None
    while not soak.end.is_set():
        status, reply = soak.daemon.post("/v1/completions", QUESTION, timeout=120)
        if status == 200:
            answer = (reply["choices"][0]["text"], reply["choices"][0]["logprobs"])
            first = first or answer
            soak.count("same question")
            if answer != first:
                soak.problem("the same question got another answer")
        soak.end.wait(0.2)


def fill_cache(daemon):
    """Touch every block once: the cache is mapped at the start and counts as memory only when written."""
    total = json.loads(daemon.call("GET", "/v1/cache")[1])["blocks"]["total"] * 32
    for n in range(total // 480 + 2):
        prompt = [(i * (n + 3) + n) % 256 for i in range(480)]
        daemon.post("/v1/completions", {"prompt": prompt, "max_tokens": 8, "ignore_eos": True}, timeout=120)


def rss_kib(pid):
    with open(f"/proc/{pid}/status") as file:
        return int(next(line for line in file if line.startswith("VmRSS")).split()[1])


def watch(soak, seconds):
    """RSS every tenth of the time; the first tenth is the warm-up."""
    start, seen = time.time(), []
    for i in range(1, 11):
        soak.end.wait(max(0, start + seconds * i / 10 - time.time()))
        seen.append(rss_kib(soak.daemon.process.pid))
        print(f"{time.time() - start:6.0f} s  rss {seen[-1]} KiB  {sum(soak.counts.values())} events", flush=True)
    soak.end.set()
    return seen


def wait_until_idle(daemon):
    deadline = time.time() + 60
    while time.time() < deadline:
        devices = json.loads(daemon.call("GET", "/v1/devices")[1])
        if sum(devices["sequences"].values()) == 0 and devices["blocks"]["used"] == 0:
            return True
        time.sleep(0.1)
    print("not idle:", devices)
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--clients", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--growth", type=int, default=16384, help="KiB that memory may grow after the warm-up")
    parser.add_argument("options", nargs="*", help="options of latentd serve, after --")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="latentd-soak-") as saved, \
         Daemon("--cache-dir", saved, "--max-queue", "24", "--max-sequences", "8", *args.options) as daemon:
        fill_cache(daemon)
        soak = Soak(daemon, args.seed)
        threads = [threading.Thread(target=ask_the_same, args=(soak,))]
        threads += [threading.Thread(target=work, args=(soak, n)) for n in range(args.clients)]
        for thread in threads:
            thread.start()
        rss = watch(soak, args.seconds)
        for thread in threads:
            thread.join()
        idle = wait_until_idle(daemon)
        last = rss_kib(daemon.process.pid)
        daemon.signal(signal.SIGTERM)
        code = daemon.wait(30)
    print(json.dumps(soak.counts, indent=1, sort_keys=True))
    for text in soak.problems[:20]:
        print("problem:", text)
    print(f"rss after warm-up {rss[0]} KiB, at the end {rss[-1]} KiB, idle {last} KiB; idle {idle}; exit {code}; "
          f"{len(soak.problems)} problems")
    good = idle and code == 0 and not soak.problems and last - rss[0] < args.growth
    print("passed" if good else "FAILED")
    sys.exit(0 if good else 1)


main()
