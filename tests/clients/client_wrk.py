"""client_wrk - wrk: many connections that ask without a pause, and every reply is a success."""
import json
import re
import subprocess
import tempfile

from cases import BASE_URL, KEY, await_idle, check, run

ROOT = BASE_URL.removesuffix("/v1")


def wrk(*arguments, path):
    """The number of replies; every one must be a success."""
    done = subprocess.run(["wrk", "--threads", "1", "--duration", "3s", "--timeout", "20s", *arguments, ROOT + path],
                          capture_output=True, text=True, timeout=60)
    told = done.stdout + done.stderr
    print(told)
    check(done.returncode == 0 and "Socket errors" not in told and "Non-2xx" not in told, told)
    return int(re.search(r"(\d+) requests in", told).group(1))


def test_health():
    """64 connections ask for /health for 3 seconds."""
    check(wrk("--connections", "64", path="/health") > 1000, "too few replies")


def test_completions():
    """16 connections generate short texts for 3 seconds, and none is left at work."""
    body = json.dumps({"prompt": "Once upon a time", "max_tokens": 4})
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write('wrk.method = "POST"\nwrk.body = %s\nwrk.headers["Content-Type"] = "application/json"\n'
                     'wrk.headers["Authorization"] = "Bearer %s"\n' % (json.dumps(body), KEY))
        script.flush()
        check(wrk("--connections", "16", "--script", script.name, path="/v1/completions") > 20, "too few replies")
    await_idle(BASE_URL)


run(globals())
