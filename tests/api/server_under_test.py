"""server_under_test.py - what the scripts here share: the real binary on a free port, a raw client, a runner.

    from server_under_test import Server, run, check

A script defines functions test_*(server), whose docstring is the sentence it shows, and calls
run(globals(), [extra flags of `latentd serve`]).
"""
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import traceback

BINARY = os.path.join(os.environ.get("LATENTD_BUILD", "build/release"), "latentd")


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        return self.json["error"]


class Server:
    """`latentd serve --port 0 FLAGS`, ready to answer."""

    def __init__(self, flags=()):
        self.log = []
        self.process = subprocess.Popen([BINARY, "serve", "--port", "0", "--host", "127.0.0.1", *flags],
                                        stderr=subprocess.PIPE, text=True)
        self.port = self._read_port()
        for _ in range(500):
            if self.get("/readyz").status == 200:
                return
            time.sleep(0.02)
        raise RuntimeError("the server does not become ready")

    def _read_port(self):
        for line in self.process.stderr:
            self.log.append(line)
            found = re.search(r"listening .*\bport=(\d+)", line)
            if found:
                return int(found.group(1))
        raise RuntimeError("the server did not start: " + "".join(self.log))

    def ask(self, method, path, body=None, headers=None):
        """One exchange on a connection of its own; body: bytes, or something for json.dumps."""
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return Reply(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def get(self, path, **headers):
        return self.ask("GET", path, None, headers)

    def post(self, path, body, headers=None):
        return self.ask("POST", path, body, headers)

    def complete(self, **fields):
        """A completion that must succeed; its body."""
        reply = self.post("/v1/completions", fields)
        check(reply.status == 200, f"{fields}: {reply.status} {reply.body[:300]}")
        return reply.json

    def chat(self, **fields):
        fields.setdefault("messages", [{"role": "user", "content": "Hello"}])
        reply = self.post("/v1/chat/completions", fields)
        check(reply.status == 200, f"{fields}: {reply.status} {reply.body[:300]}")
        return reply.json

    def stream(self, path, **fields):
        """The events of a stream, framing checked byte by byte."""
        reply = self.post(path, dict(fields, stream=True))
        check(reply.status == 200, f"{fields}: {reply.status} {reply.body[:300]}")
        check(reply.headers["content-type"] == "text/event-stream", reply.headers)
        return parse_events(reply.body)

    def open_stream(self, path, **fields):
        """A socket on which the request was sent and nothing was read."""
        sock = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        body = json.dumps(fields).encode()
        sock.sendall(b"POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s"
                     % (path.encode(), len(body), body))
        return sock

    def metric(self, name, **labels):
        """The sum of the series of that name with these labels."""
        total = 0.0
        for line in self.get("/metrics").body.decode().splitlines():
            found = re.match(r"(\w+)(?:\{(.*)\})? (\S+)$", line)
            if found and found.group(1) == name and all(f'{k}="{v}"' in (found.group(2) or "")
                                                        for k, v in labels.items()):
                total += float(found.group(3))
        return total

    def await_idle(self, seconds=5):
        """Wait until no sequence runs or waits."""
        end = time.time() + seconds
        while time.time() < end:
            sequences = self.get("/v1/devices").json["sequences"]
            if not any(sequences.values()):
                return
            time.sleep(0.01)
        check(False, f"still at work after {seconds} s: {sequences}")

    def is_alive(self):
        return self.process.poll() is None and self.get("/livez").status == 200

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = "killed: it did not end"
        self.log += self.process.stderr.readlines()
        return code


def parse_events(body):
    text = body.decode()
    check("\r" not in text, "a CR in the stream")
    check(text.endswith("\n\n"), "the last event has no blank line")
    blocks = text[:-2].split("\n\n")
    check(blocks[-1] == "data: [DONE]", f"the stream ends with {blocks[-1]!r}")
    for block in blocks:
        check(block.startswith("data: ") and "\n" not in block, f"odd event {block!r}")
    return [json.loads(block[6:]) for block in blocks[:-1]]


def check(condition, what="not so"):
    if not condition:
        raise AssertionError(what)


def run(names, flags=()):
    """Run every test_* function against one server and print what cmocka prints."""
    tests = [(name, f) for name, f in names.items() if name.startswith("test_") and callable(f)]
    only = sys.argv[1:]
    passed, failed = [], []
    server = Server(flags)
    for name, test in tests:
        if only and not any(word in name for word in only):
            continue
        try:
            test(server)
            check(server.is_alive(), "the server has died")
            passed.append(name)
            print(f"[       OK ] {name}")
        except Exception:
            failed.append(name)
            print(f"[  FAILED  ] {name}: {test.__doc__}")
            traceback.print_exc(file=sys.stdout)
            if server.process.poll() is not None:
                server = Server(flags)
    code = server.stop()
    if code != 0:
        failed.append("shutdown")
        print(f"[  FAILED  ] shutdown: exit {code}\n" + "".join(server.log[-20:]))
    print(f"[  PASSED  ] {len(passed)} test(s).")
    if failed:
        print(f"[  FAILED  ] {len(failed)} test(s), listed below: {' '.join(failed)}")
    sys.exit(1 if failed else 0)
