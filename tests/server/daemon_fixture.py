"""daemon_fixture - a real `latentd serve` process and a small client for it, for the script tests."""
import glob, http.client, json, os, re, signal, subprocess, sys, tempfile, threading, time

LATENTD = os.path.join(os.environ.get("LATENTD_BUILD", "build/release"), "latentd")


class Daemon:
    """latentd serve on a free port; the embedded model unless a --model is given."""

    def __init__(self, *options):
        self.log_file = tempfile.NamedTemporaryFile(prefix="latentd-test-", suffix=".log")
        words = [LATENTD, "serve", "--port", "0", "--host", "127.0.0.1", *options]
        self.process = subprocess.Popen(words, stderr=self.log_file, stdout=subprocess.DEVNULL,
                                        stdin=subprocess.DEVNULL)
        self.port = self.wait_for_port()

    def log(self):
        with open(self.log_file.name) as file:
            return file.read()

    def wait_for_port(self):
        deadline = time.time() + 60
        while time.time() < deadline:
            found = re.search(r"listening .*port=(\d+)", self.log())
            if found:
                return int(found.group(1))
            if self.process.poll() is not None:
                raise RuntimeError("latentd ended at start:\n" + self.log())
            time.sleep(0.02)
        raise RuntimeError("latentd does not listen:\n" + self.log())

    def call(self, method, path, body=None, timeout=60):
        """(status, text) of one call."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            reply = connection.getresponse()
            return reply.status, reply.read().decode()
        finally:
            connection.close()

    def post(self, path, body, timeout=60):
        status, text = self.call("POST", path, body, timeout)
        return status, json.loads(text)

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, seconds):
        """The exit code, or None if the process still runs after so long."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def cpu_seconds(self):
        with open(f"/proc/{self.process.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def wakeups(self):
        """How often the threads that live now have waited for something and gone on."""
        total = 0
        for status in glob.glob(f"/proc/{self.process.pid}/task/*/status"):
            with open(status) as file:
                total += next(int(line.split()[1]) for line in file if line.startswith("voluntary_ctxt_switches"))
        return total

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.log_file.close()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()


class Stream(threading.Thread):
    """A streamed completion that collects its data lines until the connection ends."""

    def __init__(self, daemon, body):
        super().__init__(daemon=True)
        self.port, self.body = daemon.port, dict(body, stream=True)
        self.events, self.failure, self.status, self.last_event = [], None, None, None
        self.first = threading.Event()
        self.start()

    def run(self):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
            connection.request("POST", "/v1/completions", json.dumps(self.body))
            reply = connection.getresponse()
            self.status = reply.status
            for line in reply:
                if line.startswith(b"data: "):
                    self.events.append(line[6:].strip().decode())
                    self.last_event = time.time()
                    self.first.set()
            connection.close()
        except Exception as e:          # told by the check that looks at it
            self.failure = e
        self.first.set()

    def error(self):
        """The message of the error event, or None."""
        for event in self.events:
            if event != "[DONE]" and "error" in json.loads(event):
                return json.loads(event)["error"]["message"]
        return None

    def tokens(self):
        return sum(1 for e in self.events if e != "[DONE]" and json.loads(e).get("choices"))


class Checks:
    """Named checks, told as cmocka tells them."""

    def __init__(self):
        self.passed, self.failed = 0, 0

    def check(self, what, is_true, detail=""):
        if is_true:
            self.passed += 1
            print("ok    " + what, flush=True)
        else:
            self.failed += 1
            print(f"FAIL  {what}  {detail}", flush=True)
        return is_true

    def run(self, function):
        """A test that breaks off counts as one failure, and the others go on."""
        try:
            function(self)
        except Exception as e:
            self.check(function.__name__, False, f"{type(e).__name__}: {e}")

    def end(self):
        print(f"[  PASSED  ] {self.passed} test(s).")
        if self.failed:
            print(f"[  FAILED  ] {self.failed} test(s), listed above:")
        sys.exit(1 if self.failed else 0)
