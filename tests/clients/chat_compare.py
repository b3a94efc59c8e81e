"""chat_compare.py TEMPLATES_DIR WORK_DIR make|judge - compares three renderers on
every template of a directory with every conversation of chat_contexts.py.

make   writes WORK_DIR/items.json, what each renderer reads
judge  reads WORK_DIR/{ours,python,js}.json and prints one line for each template,
       the differences, and "N passed, N failed" (templates)

A case agrees if we print what Python's jinja2 prints, or both refuse.  Where Python
refuses, we may print what @huggingface/jinja prints.  EITHER: templates that may
agree with one or the other, and why."""
import json
import pathlib
import sys

import chat_contexts

EITHER = {
    "meetkai-functionary-medium-v3.1.jinja":
        "adds JSON to a |safe string: Python escapes it for HTML, nobody else does",
}


def cases(directory):
    contexts = {name: {**chat_contexts.BASE, **v} for name, v in chat_contexts.CONTEXTS.items()}
    for path in sorted(pathlib.Path(directory).glob("*.jinja")):
        for name, context in contexts.items():
            yield path.name, name, {"template": path.read_text(encoding="utf-8"), "context": context}


def same(a, b):
    return a.get("text") == b.get("text") and ("error" in a) == ("error" in b)


def show(label, result):
    print(f"      {label}: {result.get('text', result.get('error'))!r:.2000}")


def judge(directory, work):
    ours, python, js = (json.loads((work / f"{n}.json").read_text()) for n in ("ours", "python", "js"))
    bad, counts, js_agrees, total = {}, {}, 0, 0
    for (template, name, _), mine, theirs, other in zip(cases(directory), ours, python, js, strict=True):
        counts.setdefault(template, 0)
        total += 1
        js_agrees += same(mine, other)
        if same(mine, theirs) or (("error" in theirs or template in EITHER) and same(mine, other)):
            counts[template] += 1
        else:
            bad.setdefault(template, []).append((name, mine, theirs, other))
    for template, n in counts.items():
        print(f"{'FAIL' if template in bad else 'ok  '} {template}: {n} of {len(chat_contexts.CONTEXTS)}")
        for name, mine, theirs, other in bad.get(template, []):
            print(f"   {name}")
            show("ours", mine), show("jinja2", theirs), show("@huggingface/jinja", other)
    print(f"{total} cases; @huggingface/jinja prints the same in {js_agrees}")
    print(f"{len(counts) - len(bad)} passed, {len(bad)} failed")
    return 1 if bad or not counts else 0


if __name__ == "__main__":
    templates, folder, verb = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
    if verb == "make":
        (folder / "items.json").write_text(json.dumps([item for _, _, item in cases(templates)]))
        sys.exit(0)
    sys.exit(judge(templates, folder))
