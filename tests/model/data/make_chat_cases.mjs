// make_chat_cases.mjs MODULE - writes chat_cases.json: every template of chat/ with
// every conversation of tests/clients/chat_contexts.py, as @huggingface/jinja at
// MODULE prints it.  From the root of the repository:
//
//   npm install --prefix build/clients @huggingface/jinja@0.5.11
//   python3 tests/clients/chat_contexts.py |
//     node tests/model/data/make_chat_cases.mjs build/clients/node_modules/@huggingface/jinja/dist/index.js \
//     > tests/model/data/chat_cases.json
//
// Kept are the cases in which Python's jinja2 (tests/clients/chat_reference.py, needs
// jinja2) prints the same: the two differ where one has no such filter, or prints
// a list by str().  A template that refuses says "refused ..", which is then the
// expected sentence.
import { spawnSync } from "node:child_process";
import { readFileSync, readdirSync } from "node:fs";
import { pathToFileURL } from "node:url";

const folder = new URL("chat/", import.meta.url);
const Clock = Date;
globalThis.Date = class extends Clock {
    constructor(...when) {
        super(...(when.length > 0 ? when : [Clock.UTC(2026, 0, 1)]));
    }
};
const { Template } = await import(pathToFileURL(process.argv[2]).href);
const contexts = JSON.parse(readFileSync(0, "utf8"));
const cases = [], items = [];
for (const name of readdirSync(folder).filter((file) => file.endsWith(".jinja")).sort()) {
    const source = readFileSync(new URL(name, folder), "utf8");
    for (const [context, variables] of Object.entries(contexts)) {
        items.push({ template: source, context: variables });
        try {
            cases.push({ template: name, context, text: new Template(source).render(variables) });
        } catch (error) {
            cases.push({ template: name, context, error: String(error.message) });
        }
    }
}
const python = spawnSync("python3", ["tests/clients/chat_reference.py"], { input: JSON.stringify(items), maxBuffer: 1 << 28 });
const other = JSON.parse(python.stdout);
const kept = cases.filter((c, i) => "text" in c ? c.text === other[i].text
                                                : c.error.startsWith("refused") && other[i].error?.includes(c.error));
process.stderr.write(`${kept.length} of ${cases.length} cases kept\n`);
process.stdout.write(JSON.stringify({ contexts, cases: kept }, null, 1) + "\n");
