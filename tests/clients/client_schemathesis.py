"""client_schemathesis - schemathesis: every operation of /openapi.json, with data that fits its schema and not."""
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

from cases import BASE_URL, KEY, await_idle, check, run

ROOT = BASE_URL.removesuffix("/v1")
CONFIG = os.path.join(os.path.dirname(os.path.abspath(__file__)), "schemathesis.toml")


def test_operations():
    """No operation answers with a server error, an undocumented status or type, or takes what does not fit."""
    program = os.path.join(os.path.dirname(sys.executable), "schemathesis")
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.xml")
        done = subprocess.run(
            [program, "--no-color", "--config-file", CONFIG, "run", ROOT + "/openapi.json",
             "-H", "Authorization: Bearer " + KEY, "--phases", "coverage,fuzzing", "--max-time", "40",
             "--max-examples", "25", "--seed", "1", "--no-shrink", "--request-timeout", "20",
             "--report", "junit", "--report-junit-path", report],
            cwd=folder, capture_output=True, text=True, timeout=120)
        print(done.stdout, done.stderr)
        suites = xml.parse(report).getroot()
    check(int(suites.get("tests")) >= 26, suites.attrib)
    check(done.returncode == 0, "see above")
    await_idle(BASE_URL)


run(globals())
