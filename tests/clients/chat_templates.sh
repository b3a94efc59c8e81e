#!/bin/sh
# chat_templates.sh - real chat templates print here what Python's jinja2 and @huggingface/jinja print.
#
# The templates are those that llama.cpp keeps for its own tests, taken from the
# source package of llama-cpp-python; they are not copied into this repository.
# Everything is installed into build/clients/chat at pinned versions.  Each
# template is rendered with each conversation of chat_contexts.py; the judgement
# is chat_compare.py's, its last line is: N passed, N failed (templates).
set -e
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$root/build/clients/chat
mkdir -p "$work"
cd "$work"

[ -x venv/bin/python ] || python3 -m venv venv
venv/bin/python -c 'import jinja2' 2>/dev/null || venv/bin/pip install -q jinja2==3.1.6
[ -d node_modules/@huggingface/jinja ] ||
    npm install --silent --no-audit --no-fund --prefix . @huggingface/jinja@0.5.11
if [ ! -d templates ]; then
    venv/bin/pip download -q --no-deps --no-binary llama-cpp-python llama-cpp-python==0.3.36 -d sdist
    rm -rf unpacked && mkdir unpacked
    tar xzf sdist/llama_cpp_python-0.3.36.tar.gz -C unpacked --wildcards '*/models/templates/*.jinja'
    mv "$(find unpacked -type d -name templates)" templates
    rm -rf sdist unpacked
fi

cd "$root"
${CC:-gcc} -std=gnu11 -I. -D_GNU_SOURCE -O2 base/*.c model/jinja*.c tests/clients/chat_render.c -o "$work/chat_render" \
    $(pkg-config --cflags --libs jansson libutf8proc libuv libpcre2-8) -lm -lpthread

# strftime_now prints local time.
TZ=UTC; PYTHONDONTWRITEBYTECODE=1
export TZ PYTHONDONTWRITEBYTECODE
cd "$work"
clients=$root/tests/clients
venv/bin/python "$clients/chat_compare.py" templates . make
venv/bin/python "$clients/chat_reference.py" < items.json > python.json
node "$clients/chat_reference.mjs" node_modules/@huggingface/jinja/dist/index.js < items.json > js.json
./chat_render < items.json > ours.json
venv/bin/python "$clients/chat_compare.py" templates . judge
