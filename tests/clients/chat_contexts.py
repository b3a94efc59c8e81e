"""The conversations every chat template is rendered with: written to stdout as a
JSON object, name to variables.  They cover what clients send: system prompts,
turns, tools with nested schemas, tool calls and results, content parts, past
reasoning, documents, extra variables, and conversations that templates refuse."""
import json

BASE = {"bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": True}

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "Weather of a city.\nOne call per city.",
    "parameters": {"type": "object", "properties": {
        "city": {"type": "string", "description": "The city's name, e.g. \"Zürich\""},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
        "days": {"type": "integer", "minimum": 1, "maximum": 7},
        "where": {"type": "object", "description": "A place", "properties": {
            "lat": {"type": "number"}, "lon": {"type": ["number", "null"]},
            "tags": {"type": "array", "items": {"type": "string"}}}, "required": ["lat", "lon"]}},
        "required": ["city"]}}}
CLOCK = {"type": "function", "function": {
    "name": "now", "description": "The time", "parameters": {"type": "object", "properties": {}}}}
SEARCH = {"type": "function", "function": {
    "name": "search", "description": "Search & rank <documents>",
    "parameters": {"type": "object", "properties": {
        "queries": {"type": "array", "items": {"type": "object", "properties": {
            "text": {"type": "string"}, "weight": {"type": "number", "default": 0.5}}, "required": ["text"]}},
        "exact": {"type": "boolean"}, "any": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "extra": {"type": "object", "additionalProperties": {"type": "string"}}},
        "required": ["queries"]}, "return": {"type": "string", "description": "what was found"}}}


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def call(ident, name, arguments):
    return {"id": ident, "type": "function", "function": {"name": name, "arguments": arguments}}


SYSTEM = {"role": "system", "content": "You are terse.\n\nAnswer in one line."}
TURNS = [SYSTEM, user("Hi, who's \"there\"?"), assistant("Nobody. <tag> & 'quotes' \\ slash"), user("  Grüezi 世界 🎉\n")]
TOOL_TURNS = [
    user("Weather in Bern?"),
    assistant("Let me look.", tool_calls=[call("call12345", "get_weather", {"city": "Bern", "days": 2, "where": {
        "lat": 46.9, "lon": None, "tags": ["a", "b"]}})]),
    {"role": "tool", "name": "get_weather", "tool_call_id": "call12345", "content": "{\"temp\": 21.5, \"ok\": true}"},
    assistant("21.5 degrees."), user("And the time, and in Basel?"),
    assistant("", tool_calls=[call("abcde0001", "now", {}), call("abcde0002", "get_weather", {
        "city": "Basel", "unit": "celsius"})]),
    {"role": "tool", "name": "now", "tool_call_id": "abcde0001", "content": "12:00"},
    {"role": "tool", "name": "get_weather", "tool_call_id": "abcde0002", "content": "rain"}]
STRING_ARGUMENTS = [
    user("Weather?"), assistant(None, tool_calls=[call("functions.get_weather:0", "get_weather", "{\"city\": \"Bern\"}")]),
    {"role": "tool", "tool_call_id": "functions.get_weather:0", "content": "sunny"}]
REASONED = [
    user("1+1?"), assistant("<think>\nOne and one.\n</think>\n\n2"), user("2+2?"),
    assistant("4", reasoning_content="Two and two.", reasoning="Two and two.", thinking="Two and two."), user("3+3?")]
PARTS = [
    {"role": "system", "content": [{"type": "text", "text": "Be kind."}]},
    {"role": "user", "content": [{"type": "text", "text": "First part. "}, {"type": "text", "text": "Second part."}]},
    {"role": "assistant", "content": [{"type": "text", "text": "Seen."}]},
    {"role": "user", "content": [{"type": "text", "text": "Third"}]}]
PICTURE = [{"role": "user", "content": [
    {"type": "image", "image": "cat.png"}, {"type": "text", "text": "What is this?"}]}]

CONTEXTS = {
    "one_turn": {"messages": [user("Hello")]},
    "one_turn_no_prompt": {"messages": [user("Hello")], "add_generation_prompt": False},
    "turns": {"messages": TURNS},
    "turns_thinking": {"messages": TURNS, "enable_thinking": True, "thinking": True, "reasoning_effort": "high"},
    "turns_no_thinking": {"messages": TURNS, "enable_thinking": False, "thinking": False},
    "answered": {"messages": TURNS + [assistant("Hello 世界")], "add_generation_prompt": False},
    "tools_offered": {"messages": TURNS, "tools": [WEATHER, CLOCK, SEARCH]},
    "tools_used": {"messages": TOOL_TURNS, "tools": [WEATHER, CLOCK]},
    "tools_used_system": {"messages": [SYSTEM] + TOOL_TURNS, "tools": [WEATHER, CLOCK, SEARCH],
                          "enable_thinking": True},
    "tool_arguments_text": {"messages": STRING_ARGUMENTS, "tools": [WEATHER]},
    "tools_empty": {"messages": TURNS, "tools": []},
    "tools_null": {"messages": TURNS, "tools": None, "documents": None},
    "reasoned": {"messages": REASONED},
    "reasoned_kept": {"messages": REASONED, "clear_thinking": False, "preserve_thinking": True,
                      "enable_thinking": True},
    "parts": {"messages": PARTS},
    "picture": {"messages": PICTURE},
    "documents": {"messages": TURNS, "documents": [{"title": "Alps", "text": "High.\nVery."},
                                                   {"title": "Sea", "text": "Wide."}]},
    "developer": {"messages": [{"role": "developer", "content": "Obey."}, user("Go")]},
    "empty": {"messages": []},
    "two_users": {"messages": [user("One"), user("Two")]},
    "assistant_first": {"messages": [assistant("I begin."), user("Fine")]},
    "unknown_role": {"messages": [{"role": "wizard", "content": "abracadabra"}, user("?")]},
    "content_missing": {"messages": [user("x"), {"role": "assistant"}, user("y")]},
}

if __name__ == "__main__":
    json.dump({name: {**BASE, **variables} for name, variables in CONTEXTS.items()}, __import__("sys").stdout)
