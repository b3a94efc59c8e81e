// chat_reference.mjs MODULE - renders templates with @huggingface/jinja, found at
// MODULE: stdin a JSON array of {"template", "context"}, stdout one of {"text"}
// or {"error"}.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

// The clock stands at 2026-01-01 00:00 UTC.
const Clock = Date;
globalThis.Date = class extends Clock {
    constructor(...when) {
        super(...(when.length > 0 ? when : [Clock.UTC(2026, 0, 1)]));
    }
};
const { Template } = await import(pathToFileURL(process.argv[2]).href);

function render({ template, context }) {
    try {
        return { text: new Template(template).render(context) };
    } catch (error) {
        return { error: String(error.message ?? error) };
    }
}

const items = JSON.parse(readFileSync(0, "utf8"));
process.stdout.write(JSON.stringify(items.map(render)));
