"""chat_reference.py - renders templates with Python's jinja2, set up as the chat
templates of checkpoints expect it: stdin a JSON array of {"template", "context"},
stdout one of {"text"} or {"error"}.

transformers' sandbox refuses to change a list or dict.  Some templates in use do
so all the same (other servers let them): those are rendered without that rule."""
import datetime
import json
import sys

import jinja2
from jinja2 import ext, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedEnvironment, SecurityError

NOW = datetime.datetime(2026, 1, 1)


class Generation(ext.Extension):
    """{% generation %} .. {% endgeneration %} prints its body."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("pass_on"), [], [], body).set_lineno(line)

    def pass_on(self, caller):
        return caller()


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def environment(kind):
    env = kind(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


strict, lenient = environment(ImmutableSandboxedEnvironment), environment(SandboxedEnvironment)


def render(item, env):
    context = json.loads(json.dumps(item["context"]))
    try:
        return {"text": env.from_string(item["template"]).render(**context)}
    except SecurityError as error:
        return render(item, lenient) if env is strict else {"error": str(error)}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


json.dump([render(item, strict) for item in json.load(sys.stdin)], sys.stdout)
