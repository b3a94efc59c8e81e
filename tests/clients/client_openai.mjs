// client_openai - openai-node: completions, chat, streams, choices, logprobs, embeddings, errors, retries.
// tests/clients/run copies it beside the installed package, where its import finds it.
import assert from "node:assert/strict";
import net from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import OpenAI from "openai";

const FULL_URL = process.env.LATENTD_FULL_URL;
const FULL_SEATS = 16;
const client = new OpenAI({ maxRetries: 0 });
const model = (await client.models.list()).data[0].id;
const messages = [{ role: "user", content: "Tell me about a little dog." }];

const complete = (fields) =>
    client.completions.create({ model, prompt: "Once upon a time", max_tokens: 24, temperature: 0, ...fields });
const chat = (fields) =>
    client.chat.completions.create({ model, messages, max_tokens: 24, temperature: 0, ...fields });

async function gather(stream) {
    const chunks = [];
    for await (const chunk of stream)
        chunks.push(chunk);
    return chunks;
}

async function awaitIdle(url) {
    for (let i = 0; i < 1000; i++) {
        const reply = await fetch(url + "/devices", { headers: { "x-api-key": process.env.OPENAI_API_KEY } });
        if (Object.values((await reply.json()).sequences).every((n) => n === 0))
            return;
        await sleep(10);
    }
    assert.fail("still at work after 10 s");
}

// A socket that asks for all places of the full server and reads nothing, so that they stay taken.
async function takeAllSeats() {
    await awaitIdle(FULL_URL);
    const body = JSON.stringify({ prompt: "Once", n: FULL_SEATS, max_tokens: 500, ignore_eos: true, logprobs: 20,
                                  stream: true });
    const at = new URL(FULL_URL);
    const holder = net.connect({ host: at.hostname, port: at.port, highWaterMark: 1024 });
    holder.write("POST /v1/completions HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer " + process.env.OPENAI_API_KEY +
                 `\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
    await new Promise((resolve) => holder.once("readable", resolve));
    return async () => {
        holder.destroy();
        await awaitIdle(FULL_URL);
    };
}

const tests = {
    async "the list and a single model are read as models"() {
        assert.equal((await client.models.retrieve(model)).id, model);
    },
    async "a completion has its text and a usage that adds up"() {
        const reply = await complete();
        assert.equal(reply.choices[0].finish_reason, "length");
        assert.equal(reply.usage.completion_tokens, 24);
        assert.equal(reply.usage.total_tokens, reply.usage.prompt_tokens + 24);
    },
    async "two prompts with n = 3 give six choices"() {
        const reply = await complete({ prompt: ["One day", "The sun"], n: 3 });
        assert.deepEqual(reply.choices.map((c) => c.index).sort(), [0, 1, 2, 3, 4, 5]);
    },
    async "the texts of a stream are the text of the whole reply"() {
        const whole = await complete();
        const chunks = await gather(await complete({ stream: true, stream_options: { include_usage: true } }));
        assert.equal(chunks.map((c) => c.choices[0]?.text ?? "").join(""), whole.choices[0].text);
        assert.equal(new Set(chunks.map((c) => c.id)).size, 1);
        assert.equal(chunks.at(-1).usage.completion_tokens, 24);
    },
    async "echo and logprobs spell the text"() {
        const { text, logprobs } = (await complete({ echo: true, logprobs: 2, max_tokens: 4 })).choices[0];
        assert.equal(logprobs.tokens.join(""), text);
        assert.equal(logprobs.token_logprobs[0], null);
        assert.equal(logprobs.token_logprobs.length, logprobs.text_offset.length);
    },
    async "null in optional fields means that they were not given"() {
        const nothing = { stop: null, logprobs: null, seed: null, n: null, user: null, logit_bias: null };
        assert.equal((await complete(nothing)).choices[0].text, (await complete()).choices[0].text);
    },
    async "a chat stream has the role first and once"() {
        const whole = await chat();
        const deltas = (await gather(await chat({ stream: true }))).map((c) => c.choices[0].delta);
        assert.deepEqual(deltas.filter((d) => d.role).length, 1);
        assert.equal(deltas[0].role, "assistant");
        assert.equal(deltas.map((d) => d.content ?? "").join(""), whole.choices[0].message.content);
    },
    async "the library's own accumulation of a stream ends at the same reply"() {
        const runner = client.chat.completions.stream({ model, messages, max_tokens: 24, temperature: 0 });
        assert.equal(await runner.finalContent(), (await chat()).choices[0].message.content);
    },
    async "chat logprobs spell the content"() {
        const choice = (await chat({ logprobs: true, top_logprobs: 3 })).choices[0];
        assert.equal(choice.logprobs.content.map((e) => e.token).join(""), choice.message.content);
        assert.ok(choice.logprobs.content.every((e) => e.top_logprobs.length === 3));
    },
    async "a schema as response_format gives JSON that fits"() {
        const schema = { type: "object", properties: { kind: { enum: ["dog", "cat"] } }, required: ["kind"],
                         additionalProperties: false };
        const response_format = { type: "json_schema", json_schema: { name: "animal", schema } };
        const reply = await chat({ max_tokens: 200, response_format });
        assert.ok(["dog", "cat"].includes(JSON.parse(reply.choices[0].message.content).kind));
    },
    async "embeddings are unit vectors, packed or not"() {
        const embed = async (fields) =>
            (await client.embeddings.create({ model, input: "a dog", ...fields })).data[0].embedding;
        const packed = await embed(), plain = await embed({ encoding_format: "float" });
        assert.ok(Math.abs(packed.reduce((sum, x) => sum + x * x, 0) - 1) < 1e-5);
        assert.equal(packed.length, plain.length);
        assert.ok(packed.every((x, i) => Math.abs(x - plain[i]) < 1e-6));
    },
    async "every refusal becomes the library's own class"() {
        const wrong = new OpenAI({ apiKey: "not-the-key", maxRetries: 0 });
        await assert.rejects(wrong.models.list(), OpenAI.AuthenticationError);
        await assert.rejects(complete({ model: "another" }), (e) =>
            e instanceof OpenAI.NotFoundError && e.code === "model_not_found");
        for (const stream of [false, true])
            await assert.rejects(complete({ max_tokens: 100000, stream }), (e) =>
                e instanceof OpenAI.BadRequestError && e.code === "context_length_exceeded" && !!e.requestID);
        await assert.rejects(complete({ temperature: "hot" }), (e) => e.param === "temperature");
    },
    async "a full server is a RateLimitError, and a retry after the wait it names is served"() {
        const statuses = [];
        let giveBack = await takeAllSeats();
        try {
            const ask = (maxRetries) => new OpenAI({
                baseURL: FULL_URL, maxRetries,
                fetch: async (...request) => {
                    const reply = await fetch(...request);
                    statuses.push(reply.status);
                    if (maxRetries > 0)
                        await giveBack();
                    return reply;
                },
            }).completions.create({ model, prompt: "a", max_tokens: 1 });
            await assert.rejects(ask(0), OpenAI.RateLimitError);
            const start = performance.now();
            assert.equal((await ask(2)).choices.length, 1);
            assert.ok(performance.now() - start >= 900, "asked again too early");
            assert.deepEqual(statuses, [429, 429, 200]);
        } finally {
            await giveBack();
        }
    },
    async "a stream that is left leaves nothing at work"() {
        for await (const chunk of await complete({ max_tokens: 500, n: 8, ignore_eos: true, stream: true }))
            if (chunk.choices.length > 0)
                break;
        await awaitIdle(process.env.OPENAI_BASE_URL);
    },
    async "twenty calls at once get what each gets alone"() {
        const prompts = Array.from({ length: 20 }, (_, i) => `${i} little birds`);
        const alone = [];
        for (const prompt of prompts)
            alone.push((await complete({ prompt })).choices[0].text);
        const together = await Promise.all(prompts.map((prompt) => complete({ prompt })));
        assert.deepEqual(together.map((r) => r.choices[0].text), alone);
    },
};

let passed = 0, failed = 0;
for (const [name, test] of Object.entries(tests)) {
    try {
        await test();
        passed++;
        console.log(`[       OK ] ${name}`);
    } catch (error) {
        failed++;
        console.log(`[  FAILED  ] ${name}\n`, error);
    }
}
console.log(`[  PASSED  ] ${passed} test(s).`);
if (failed > 0)
    console.log(`[  FAILED  ] ${failed} test(s), listed above.`);
process.exit(failed > 0 ? 1 : 0);
