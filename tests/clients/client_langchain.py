"""client_langchain - LangChain's OpenAI models: invoke, stream, batch, structured output, embeddings."""
import asyncio
import math

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings

from cases import BASE_URL, ask, check, run

MODEL = ask(BASE_URL, "/models")["data"][0]["id"]
CHAT = ChatOpenAI(model=MODEL, temperature=0, max_tokens=24, max_retries=0)
MESSAGES = [SystemMessage("You tell stories."), HumanMessage("Tell me about a little dog.")]


def test_invoke():
    """A reply is an AIMessage with content, metadata and a usage that adds up."""
    reply = CHAT.invoke(MESSAGES)
    check(isinstance(reply, AIMessage) and reply.content, reply)
    check(reply.response_metadata["finish_reason"] == "length", reply.response_metadata)
    usage = reply.usage_metadata
    check(usage["output_tokens"] == 24 and usage["total_tokens"] == usage["input_tokens"] + 24, usage)


def test_stream():
    """The chunks of a stream add up to the message, its usage included."""
    chunks = list(CHAT.stream(MESSAGES, stream_usage=True))
    total = chunks[0]
    for chunk in chunks[1:]:
        total += chunk
    whole = CHAT.invoke(MESSAGES)
    check(len(chunks) > 5 and total.content == whole.content, total)
    check(total.usage_metadata["output_tokens"] == 24, total.usage_metadata)


def test_batch():
    """A batch gives every question its own answer, in order."""
    questions = [f"Tell me about {n} birds." for n in range(8)]
    check([r.content for r in CHAT.batch(questions)] == [CHAT.invoke(q).content for q in questions])


def test_asynchronous():
    """The asynchronous calls give the same."""
    async def all_of_them():
        return ((await CHAT.ainvoke(MESSAGES)).content, "".join([c.content async for c in CHAT.astream(MESSAGES)]),
                [r.content for r in await CHAT.abatch([MESSAGES, MESSAGES])])
    whole = CHAT.invoke(MESSAGES).content
    check(asyncio.run(all_of_them()) == (whole, whole, [whole, whole]))


def test_chain():
    """A template, the model with a stop string, and a parser in a row."""
    chain = ChatPromptTemplate([("system", "You tell stories."), ("user", "{question}")]) | CHAT.bind(stop=["."])
    reply = chain.invoke({"question": "Tell me about a little dog."})
    check("." not in reply.content, reply)


def test_structured_output():
    """A schema given to with_structured_output comes back filled."""
    schema = {"title": "animal", "type": "object", "required": ["kind", "is_small"], "additionalProperties": False,
              "properties": {"kind": {"type": "string", "enum": ["dog", "cat"]}, "is_small": {"type": "boolean"}}}
    model = ChatOpenAI(model=MODEL, temperature=0, max_retries=0)
    found = model.with_structured_output(schema, method="json_schema").invoke(MESSAGES)
    check(found["kind"] in ("dog", "cat") and isinstance(found["is_small"], bool), found)


def test_logprobs():
    """Logprobs reach the metadata of the message."""
    reply = CHAT.bind(logprobs=True, top_logprobs=2).invoke(MESSAGES)
    entries = reply.response_metadata["logprobs"]["content"]
    check("".join(e["token"] for e in entries) == reply.content, entries)


def test_completions():
    """The text model continues prompts: alone, as a stream, and several with several choices."""
    model = OpenAI(model=MODEL, temperature=0, max_tokens=16, max_retries=0)
    check("".join(model.stream("Once upon a time")) == model.invoke("Once upon a time") != "")
    several = OpenAI(model=MODEL, temperature=0, max_tokens=16, n=2, max_retries=0).generate(["One day", "The sun"])
    check([len(g) for g in several.generations] == [2, 2], several)


def test_embeddings():
    """Documents become unit vectors, and the query's is its document's."""
    # Else it would send tokens of another vocabulary.
    model = OpenAIEmbeddings(model=MODEL, check_embedding_ctx_length=False)
    vectors = model.embed_documents(["a dog ran home", "the moon"])
    check(all(abs(math.fsum(x * x for x in v) - 1) < 1e-5 for v in vectors))
    query = model.embed_query("a dog ran home")
    check(max(abs(x - y) for x, y in zip(query, vectors[0])) < 1e-6)


run(globals())
