"""cases.py - what the Python clients here share: where the servers are, checks, and a runner.

tests/clients/run has started two servers with the demo model, both of which want the key:

    BASE_URL        .../v1 of an ordinary one
    FULL_URL        .../v1 of one with FULL_SEATS places and no queue

A client defines functions test_*(), whose docstring is the sentence it shows, and calls run(globals()).
"""
import contextlib
import json
import os
import re
import socket
import sys
import time
import traceback
import urllib.parse
import urllib.request

BASE_URL = os.environ["OPENAI_BASE_URL"]
FULL_URL = os.environ["LATENTD_FULL_URL"]
FULL_SEATS = 16
KEY = os.environ["OPENAI_API_KEY"]


def check(condition, what="not so"):
    if not condition:
        raise AssertionError(what)


def ask(url, path, body=None):
    """The JSON of a reply, asked for without any of the clients."""
    request = urllib.request.Request(url + path, None if body is None else json.dumps(body).encode(),
                                     {"authorization": "Bearer " + KEY, "content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)


def counters(root):
    """{name and labels: number} of the counters in root's /metrics that a request moves."""
    request = urllib.request.Request(root + "/metrics", headers={"authorization": "Bearer " + KEY})
    with urllib.request.urlopen(request, timeout=60) as reply:
        text = reply.read().decode()
    return {name: float(value) for name, value in re.findall(
        r"^latentd_((?:request_success|requests_\w+|prompt_tokens|generation_tokens)_total\{.*\}) (\S+)$", text, re.M)}


def check_counted(root, before, requests, n_prompt, n_cached, n_output):
    """So many requests of so many tokens in all, ended by length, and nothing else since `before`."""
    found = {}
    for name, value in counters(root).items():
        if value != before[name]:
            reason = re.search(r'finished_reason="(\w+)"', name)
            found[reason.group(1) if reason else name.split("{")[0]] = value - before[name]
    # What the prefix cache holds is not counted again.
    check(found == {"length": requests, "prompt_tokens_total": n_prompt - n_cached,
                    "generation_tokens_total": n_output}, found)


def await_idle(url, seconds=10):
    """Wait until no sequence runs or waits there."""
    end = time.time() + seconds
    while any(sequences := ask(url, "/devices")["sequences"].values()):
        check(time.time() < end, f"still at work after {seconds} s: {sequences}")
        time.sleep(0.01)


@contextlib.contextmanager
def all_seats_taken():
    """Inside, the server at FULL_URL has no place left: one client holds them all and reads nothing.

    Its reply is many times what the socket holds, so the sequences are paused in their places.  What is
    yielded gives them back when called."""
    await_idle(FULL_URL)
    at = urllib.parse.urlparse(FULL_URL)
    body = json.dumps({"prompt": "Once", "n": FULL_SEATS, "max_tokens": 500, "ignore_eos": True, "logprobs": 20,
                       "stream": True}).encode()
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    holder.connect((at.hostname, at.port))
    holder.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\n"
                   b"Content-Length: %d\r\n\r\n%s" % (KEY.encode(), len(body), body))
    check(holder.recv(12) == b"HTTP/1.1 200", "the places were not given")

    def give_back():
        holder.close()
        await_idle(FULL_URL)
    try:
        yield give_back
    finally:
        give_back()


def run(names):
    """Run every test_* function and print what cmocka prints."""
    passed, failed = 0, 0
    for name, test in [(n, f) for n, f in names.items() if n.startswith("test_") and callable(f)]:
        try:
            test()
            passed += 1
            print(f"[       OK ] {name}", flush=True)
        except Exception:
            failed += 1
            print(f"[  FAILED  ] {name}: {test.__doc__}")
            traceback.print_exc(file=sys.stdout)
    print(f"[  PASSED  ] {passed} test(s).")
    if failed:
        print(f"[  FAILED  ] {failed} test(s), listed above.")
    sys.exit(1 if failed else 0)
