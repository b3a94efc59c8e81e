"""client_openai - openai-python: completions, chat, streams, choices, logprobs, embeddings, errors, retries."""
import asyncio
import math
import time
from typing import Literal

import openai
import pydantic

from cases import BASE_URL, FULL_URL, all_seats_taken, await_idle, check, run

CLIENT = openai.OpenAI(max_retries=0)
MODEL = CLIENT.models.list().data[0].id
HELLO = [{"role": "user", "content": "Tell me about a little dog."}]


def complete(**fields):
    return CLIENT.completions.create(model=MODEL, **{"prompt": "Once upon a time", "max_tokens": 24,
                                                     "temperature": 0, **fields})


def chat(**fields):
    return CLIENT.chat.completions.create(model=MODEL, **{"messages": HELLO, "max_tokens": 24, "temperature": 0,
                                                          **fields})


def refusal(kind, call, **fields):
    """The error of that class which the call must end with."""
    try:
        call(**fields)
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__} for {fields}")


def test_models():
    """The list and a single model are read as models."""
    models = CLIENT.models.list().data
    check(len(models) == 1 and models[0].object == "model" and models[0].created > 0, models)
    check(CLIENT.models.retrieve(MODEL).id == MODEL)


def test_completion():
    """A completion has its text, one reason to end, and a usage that adds up."""
    reply = complete()
    check(reply.object == "text_completion" and reply.model == MODEL and reply.id.startswith("cmpl-"), reply)
    check(len(reply.choices) == 1 and reply.choices[0].text and reply.choices[0].finish_reason == "length", reply)
    usage = reply.usage
    check(usage.completion_tokens == 24 and usage.total_tokens == usage.prompt_tokens + 24, usage)
    check(isinstance(reply.created, int) and abs(reply.created - time.time()) < 60, reply.created)


def test_completion_of_tokens():
    """A prompt given as tokens is the prompt: the same tokens, the same text."""
    first = complete(prompt=[1000, 1001, 1002])
    nested = complete(prompt=[[1000, 1001, 1002]])
    check(first.usage.prompt_tokens == 3 and first.choices[0].text == nested.choices[0].text, (first, nested))


def test_prompts_times_choices():
    """Two prompts with n = 3 give six choices, numbered prompt by prompt."""
    reply = complete(prompt=["One day", "The sun"], n=3, temperature=0.9, seed=7)
    check(sorted(c.index for c in reply.choices) == list(range(6)), reply)
    check(len({c.text for c in reply.choices}) > 2, "all choices are equal")
    greedy = complete(prompt=["One day", "The sun"], n=2)
    texts = [c.text for c in sorted(greedy.choices, key=lambda c: c.index)]
    check(texts[0] == texts[1] != texts[2] == texts[3], texts)
    check(texts[0] == complete(prompt="One day").choices[0].text, texts)


def test_completion_stream():
    """The texts of a stream, joined, are the text of the whole reply, under one id."""
    whole = complete()
    chunks = list(complete(stream=True, stream_options={"include_usage": True}))
    check("".join(c.choices[0].text for c in chunks if c.choices) == whole.choices[0].text)
    check(len({(c.id, c.created, c.model) for c in chunks}) == 1, "chunks of several replies")
    check([c.choices[0].finish_reason for c in chunks if c.choices][-1] == "length")
    last = chunks[-1]
    check(not last.choices and last.usage.completion_tokens == whole.usage.completion_tokens, last)


def test_completion_logprobs():
    """Echo and logprobs: four arrays of one length that spell the text; the first token has no logprob."""
    choice = complete(echo=True, logprobs=3, max_tokens=5).choices[0]
    told = choice.logprobs
    n = len(told.tokens)
    check(len(told.token_logprobs) == len(told.top_logprobs) == len(told.text_offset) == n > 5, told)
    check("".join(told.tokens) == choice.text and choice.text.startswith("Once upon a time"), told.tokens)
    check(told.token_logprobs[0] is None and all(x <= 0 for x in told.token_logprobs[1:]), told.token_logprobs)
    check(all(choice.text.startswith(t, at) for t, at in zip(told.tokens, told.text_offset)), told.text_offset)
    for token, top in list(zip(told.token_logprobs, told.top_logprobs))[-5:]:
        check(token == max(top.values()) and 3 <= len(top) <= 4, "greedy is not the likeliest")


def test_chat():
    """A conversation with all roles and with content in parts is answered by the assistant."""
    parts = [{"type": "text", "text": "And"}, {"type": "text", "text": "then?"}]
    reply = chat(messages=[{"role": "system", "content": "You tell stories."}, *HELLO,
                           {"role": "assistant", "content": "There was a dog."}, {"role": "user", "content": parts}])
    check(reply.object == "chat.completion" and reply.choices[0].message.role == "assistant", reply)
    check(reply.choices[0].message.content and reply.choices[0].finish_reason == "length", reply)
    check(reply.usage.completion_tokens == 24, reply.usage)


def test_chat_stream():
    """The role comes first and once; the contents, joined, are those of the whole reply; usage comes last."""
    whole = chat()
    chunks = list(chat(stream=True, stream_options={"include_usage": True}))
    deltas = [c.choices[0].delta for c in chunks if c.choices]
    check([d.role for d in deltas] == ["assistant"] + [None] * (len(deltas) - 1), deltas)
    check("".join(d.content or "" for d in deltas) == whole.choices[0].message.content)
    check(chunks[-1].usage.total_tokens == whole.usage.total_tokens, chunks[-1])


def test_chat_stream_of_choices():
    """Three choices in one stream: each ends once, and each is the whole reply's."""
    fields = {"n": 3, "temperature": 0.8, "seed": 11}
    texts, ends = ["", "", ""], [0, 0, 0]
    for chunk in chat(stream=True, **fields):
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
            ends[choice.index] += choice.finish_reason is not None
    whole = sorted(chat(**fields).choices, key=lambda c: c.index)
    check(ends == [1, 1, 1] and texts == [c.message.content for c in whole], (ends, texts))


def test_stream_helper():
    """The library's own accumulation of a stream ends at the same reply."""
    # It takes a text that ends for its length as an error.
    fields = {"max_tokens": 24, "stop": chat().choices[0].message.content.split()[3]}
    with CLIENT.chat.completions.stream(model=MODEL, messages=HELLO, temperature=0, **fields) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_completion()
    check({"chunk", "content.delta", "content.done"} <= kinds, kinds)
    check(final.choices[0].message.content == chat(**fields).choices[0].message.content != "", final)


def test_chat_logprobs():
    """Every token has its bytes and likeliest others, and the tokens spell the content."""
    choice = chat(logprobs=True, top_logprobs=4).choices[0]
    entries = choice.logprobs.content
    check(len(entries) == 24 and "".join(e.token for e in entries) == choice.message.content, entries)
    check(bytes(b for e in entries for b in e.bytes).decode() == choice.message.content)
    check(all(len(e.top_logprobs) == 4 and e.logprob == e.top_logprobs[0].logprob for e in entries))


def test_stop():
    """A text ends before its first stop string, whole and streamed."""
    text = complete().choices[0].text
    word = text.split()[3]
    before = text[:text.index(word)]
    choice = complete(stop=[word, "\0never"]).choices[0]
    check(choice.text == before and choice.finish_reason == "stop", (choice.text, before))
    check("".join(c.choices[0].text for c in complete(stop=word, stream=True)) == before)


class Animal(pydantic.BaseModel):
    kind: Literal["dog", "cat", "bird"]
    is_small: bool


def test_parsed_reply():
    """A pydantic class as response_format: the reply is an instance of it."""
    reply = CLIENT.chat.completions.parse(model=MODEL, messages=HELLO, response_format=Animal, temperature=0)
    check(isinstance(reply.choices[0].message.parsed, Animal), reply)


def test_tools_are_accepted():
    """A list of tools with tool_choice auto is taken, and the reply is text."""
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
    message = chat(tools=[tool], tool_choice="auto").choices[0].message
    check(message.content and not message.tool_calls, message)


def test_embeddings():
    """Unit vectors, the same as base64 (what the library asks for by itself) and as numbers."""
    texts = ["a dog ran home", "the moon"]
    packed = CLIENT.embeddings.create(model=MODEL, input=texts)
    plain = CLIENT.embeddings.create(model=MODEL, input=texts, encoding_format="float")
    check([d.index for d in packed.data] == [0, 1] and packed.usage.total_tokens > 2, packed.usage)
    for a, b in zip(packed.data, plain.data):
        check(abs(math.fsum(x * x for x in a.embedding) - 1) < 1e-5, "no unit vector")
        check(max(abs(x - y) for x, y in zip(a.embedding, b.embedding)) < 1e-6, "two answers")
    check(packed.data[0].embedding != packed.data[1].embedding)


def test_errors():
    """Every refusal becomes the library's own class, with param, code and request id."""
    wrong = openai.OpenAI(api_key="not-the-key", max_retries=0)
    check(refusal(openai.AuthenticationError, wrong.models.list).status_code == 401)
    check(refusal(openai.NotFoundError, chat, extra_body={"model": "another"}).code == "model_not_found")
    check(refusal(openai.BadRequestError, chat, temperature=-1).param == "temperature")
    check(refusal(openai.BadRequestError, chat, messages=[]).param == "messages")
    for stream in (False, True):
        error = refusal(openai.BadRequestError, complete, prompt="a", max_tokens=100000, stream=stream)
        check(error.code == "context_length_exceeded" and "maximum context length" in str(error), error)
        check(error.request_id == error.response.headers["x-request-id"] != "", error.response.headers)


def test_request_id():
    """The id that a client sends comes back."""
    raw = CLIENT.completions.with_raw_response.create(model=MODEL, prompt="a", max_tokens=1,
                                                      extra_headers={"x-request-id": "mine-1"})
    check(raw.headers["x-request-id"] == "mine-1" and raw.parse()._request_id == "mine-1", raw.headers)


def test_overload():
    """A full server is a RateLimitError that says when to come again."""
    client = openai.OpenAI(base_url=FULL_URL, max_retries=0)
    with all_seats_taken():
        error = refusal(openai.RateLimitError, client.completions.create, model=MODEL, prompt="a", max_tokens=1)
    check(error.status_code == 429 and error.response.headers["retry-after"] == "1", error.response.headers)
    check(error.type == "overloaded_error", error.body)


def test_retry():
    """The library waits as long as Retry-After says, asks again, and is served."""
    statuses = []
    with all_seats_taken() as give_back:
        def on_response(response):
            statuses.append(response.status_code)
            give_back()
        with openai.DefaultHttpxClient(event_hooks={"response": [on_response]}) as http:
            client = openai.OpenAI(base_url=FULL_URL, max_retries=2, http_client=http)
            start = time.monotonic()
            reply = client.completions.create(model=MODEL, prompt="a", max_tokens=1)
    check(statuses == [429, 200] and reply.choices, statuses)
    check(time.monotonic() - start >= 0.9, "asked again too early")


def test_leaving():
    """A stream that is closed after its first chunk leaves nothing at work."""
    stream = complete(max_tokens=500, n=8, stream=True, extra_body={"ignore_eos": True})
    next(iter(stream))
    stream.close()
    await_idle(BASE_URL, seconds=2)


def test_many_at_once():
    """Forty asynchronous calls, half of them streams, get what each gets alone."""
    prompts = [f"{n} little birds" for n in range(20)]
    alone = [complete(prompt=p).choices[0].text for p in prompts]

    async def whole(client, prompt):
        reply = await client.completions.create(model=MODEL, prompt=prompt, max_tokens=24, temperature=0)
        return reply.choices[0].text

    async def streamed(client, prompt):
        stream = await client.completions.create(model=MODEL, prompt=prompt, max_tokens=24, temperature=0, stream=True)
        return "".join([c.choices[0].text async for c in stream])

    async def all_of_them():
        async with openai.AsyncOpenAI(max_retries=0) as client:
            return await asyncio.gather(*(f(client, p) for f in (whole, streamed) for p in prompts))

    check(asyncio.run(all_of_them()) == alone + alone, "another text in company")


run(globals())
