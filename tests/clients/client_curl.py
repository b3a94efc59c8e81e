"""client_curl - curl: chunked bodies, Expect: 100-continue, one connection for many calls, old and new HTTP."""
import json
import subprocess
import time

from cases import BASE_URL, KEY, check, run

ROOT = BASE_URL.removesuffix("/v1")
BODY = {"prompt": "Once upon a time", "max_tokens": 8, "temperature": 0}


def curl(*arguments, data=None, path="/v1/completions", key=KEY):
    """What curl prints for it: (stdout, stderr with -v's account of the exchange)."""
    command = ["curl", "--silent", "--show-error", "--verbose", "--max-time", "30"]
    if key is not None:
        command += ["-H", "Authorization: Bearer " + key]
    if data is not None:
        command += ["-H", "Content-Type: application/json", "--data-binary", "@-"]
    done = subprocess.run([*command, *arguments, ROOT + path], input=data, capture_output=True, timeout=60)
    check(done.returncode == 0, f"curl ended with {done.returncode}: {done.stderr.decode()[-600:]}")
    return done.stdout.decode(), done.stderr.decode(errors="replace")


def text_of(output):
    return json.loads(output)["choices"][0]["text"]


def expected():
    return text_of(curl(data=json.dumps(BODY).encode())[0])


def test_chunked_body():
    """A body of unknown length, sent in chunks, is read to its end."""
    output, told = curl("-H", "Transfer-Encoding: chunked", data=json.dumps(BODY).encode())
    check("> Transfer-Encoding: chunked" in told and "> Content-Length" not in told, told)
    check(text_of(output) == expected())


def test_expect_continue():
    """Expect: 100-continue is answered at once, not after the client's patience."""
    start = time.monotonic()
    output, told = curl("-H", "Expect: 100-continue", "--expect100-timeout", "20", data=json.dumps(BODY).encode())
    check("< HTTP/1.1 100 Continue" in told and time.monotonic() - start < 10, told)
    check(text_of(output) == expected())


def test_large_body():
    """A body of 4 MiB with blanks, for which curl asks by itself, chunked or not."""
    large = json.dumps(BODY).encode() + b" " * (4 << 20)
    for flags in ((), ("-H", "Transfer-Encoding: chunked", "-H", "Expect: 100-continue")):
        output, told = curl(*flags, data=large)
        check("100 Continue" in told and text_of(output) == expected(), told[-800:])


def test_refused_before_the_body():
    """A call without a key is refused instead of told to go on, and the body is not waited for."""
    output, told = curl("-H", "Expect: 100-continue", "--expect100-timeout", "20", data=b" " * (1 << 20), key="wrong")
    check("< HTTP/1.1 401" in told and "100 Continue" not in told, told[-800:])
    check(json.loads(output)["error"]["type"] == "authentication_error", output)


def test_one_connection():
    """Twenty calls one after the other use one connection."""
    output, _ = curl("--write-out", "%{num_connects}\\n", "-o", "/dev/null", path="/v1/models?n=[1-20]")
    check([int(n) for n in output.split()] == [1] + [0] * 19, output)


def test_stream():
    """A stream arrives as events with LF, the last of them [DONE], under the headers that proxies look at."""
    output, told = curl("--no-buffer", data=json.dumps(dict(BODY, stream=True)).encode())
    events = output.split("\n\n")
    check(events[-1] == "" and events[-2] == "data: [DONE]" and "\r" not in output, output)
    check("".join(json.loads(e[6:])["choices"][0]["text"] for e in events[:-2]) == expected(), output)
    headers = told.lower()
    check("< content-type: text/event-stream" in headers and "< cache-control: no-cache" in headers, told)


def test_head():
    """HEAD has the headers of GET and no body."""
    _, told = curl("--head", path="/v1/models")
    length = len(curl(path="/v1/models")[0])
    check("< HTTP/1.1 200" in told and f"content-length: {length}" in told.lower(), told)


def test_old_and_new_http():
    """HTTP/1.0 is answered and closed; an offer to change to HTTP/2 is declined by answering in 1.1."""
    output, told = curl("--http1.0", data=json.dumps(BODY).encode())
    check(text_of(output) == expected() and "transfer-encoding" not in told.lower(), told)
    output, told = curl("--http2", path="/v1/models")
    check("< HTTP/1.1 200" in told and json.loads(output)["data"], told)


def test_preflight():
    """The question a browser asks first is answered without a key."""
    _, told = curl("--request", "OPTIONS", "-H", "Origin: http://a.example",
                   "-H", "Access-Control-Request-Method: POST", path="/v1/chat/completions", key=None)
    check("< HTTP/1.1 204" in told and "< access-control-allow-origin: *" in told.lower(), told)


run(globals())
