"""The exchanges of `/v1/responses`: each kind of reply, streamed and whole, and each kind of item, tool and error."""

from __future__ import annotations

from typing import Any

from tests.fakes.says import Said
from tests.transcripts.exchange import Exchange
from tests.transcripts.replies import PLAIN, SEQUENCES, openai_replies

JsonDict = dict[str, Any]
PATH = "/v1/responses"
_CITY: JsonDict = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
}
_WEATHER: JsonDict = {
    "type": "function", "name": "get_weather", "description": "The weather of the next days.", "strict": False,
    "parameters": _CITY,
}  # fmt: skip
_TIME: JsonDict = {"type": "function", "name": "get_time", "parameters": {"type": "object"}, "strict": None}
_PLAIN: JsonDict = {"model": "scripted", "input": "What is the weather in Paris?"}
_GUARDED: JsonDict = {**_PLAIN, "tools": [_WEATHER, _TIME]}
_PATCH: JsonDict = {"type": "custom", "name": "apply_patch", "description": "Edit files.", "format": {"type": "text"}}
_TOOLS: list[JsonDict] = [
    _PATCH,
    {"type": "namespace", "name": "docs", "description": "Docs.", "tools": [
        {"type": "function", "name": "search", "parameters": _CITY}, {"type": "custom", "name": "note"},
    ]},
    {"type": "local_shell"}, {"type": "shell", "environment": {"type": "local"}}, {"type": "apply_patch"},
    {"type": "tool_search", "execution": "client", "description": "Find tools."},
    {"type": "web_search"}, {"type": "image_generation"},
]  # fmt: skip
_CALLS = Said(
    "I look.",
    reasoning="Several things.",
    calls=(
        ("apply_patch", '{"input": "*** Begin Patch\\n"}'), ("docs__search", '{"city": "Paris"}'),
        ("docs__note", '{"input": "ü"}'), ("local_shell", '{"command": ["ls", "-l"]}'),
        ("shell", '{"commands": ["ls"]}'), ("tool_search", '{"query": "git"}'),
    ),
)  # fmt: skip
_HISTORY: list[JsonDict] = [
    {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be short."}]},
    {"role": "user", "content": "Look, then edit."},
    {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Look first."}]},
    {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
     "content": [{"type": "output_text", "text": "I look.", "annotations": []}]},
    {"type": "function_call", "id": "fc_1", "call_id": "call_1", "namespace": "docs", "name": "search",
     "arguments": '{"city": "Paris"}', "status": "completed"},
    {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_2", "name": "apply_patch", "input": "*** Begin"},
    {"type": "function_call_output", "call_id": "call_1", "output": [{"type": "input_text", "text": "sunny"}]},
    {"type": "custom_tool_call_output", "call_id": "call_2", "output": "Done."},
    {"type": "web_search_call", "id": "ws_1", "status": "completed"},
    {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "gAAAA"},
    {"role": "user", "content": [{"type": "input_text", "text": "And this?"},
                                 {"type": "input_image", "image_url": "data:image/png;base64,AA=="}]},
]  # fmt: skip
_FORMAT: JsonDict = {"type": "json_schema", "name": "weather", "schema": _CITY, "strict": True}
_OPTIONS: dict[str, tuple[tuple[Said, ...], JsonDict]] = {
    "every kind of tool": ((_CALLS,), {**_PLAIN, "tools": [_WEATHER, *_TOOLS[:4], *_TOOLS[5:]]}),
    "a history": ((PLAIN,) * 3, {**_PLAIN, "input": _HISTORY, "tools": _TOOLS[:2], "instructions": "You are a bot."}),
    "a reasoning summary, encrypted": (
        SEQUENCES["reasoning and a call"],
        {**_GUARDED, "reasoning": {"summary": "auto", "effort": "low"}, "include": ["reasoning.encrypted_content"]},
    ),
    "a schema": ((Said('{"city": "Paris"}'),), {**_PLAIN, "text": {"format": _FORMAT, "verbosity": "low"}}),
    "tool_choice of one tool": (
        SEQUENCES["another tool, then that one"], {**_GUARDED, "tool_choice": {"type": "function", "name": "get_time"}},
    ),
    "a cut response": ((Said("It is sun", finish="length"),), {**_PLAIN, "max_output_tokens": 5}),
    "what is dropped": ((PLAIN,), {**_PLAIN, "context_management": [{"type": "compaction"}], "truncation": "auto"}),
    "fields of the model server": ((PLAIN,), {**_PLAIN, "min_p": 0.1, "seed": 7, "temperature": 0, "top_p": 1}),
}  # fmt: skip
_WITHOUT_TOOLS = ("plain text", "reasoning and text", "native call", "cut text", "lost, then a call", "429", "overflow")
_WRONG: dict[str, Any] = {
    "no JSON": b"{",
    "no input": {"model": "scripted"},
    "an unknown model": {**_PLAIN, "model": "unknown"},
    "background": {**_PLAIN, "background": True, "store": False},
    "an unknown previous response": {**_PLAIN, "previous_response_id": "resp_unknown"},
    "a tool without a name": {**_PLAIN, "tools": [{"type": "function"}]},
    "an invalid schema": {**_PLAIN, "tools": [{**_WEATHER, "parameters": {"type": "strin"}}]},
    "tool_choice of a dropped tool": {**_PLAIN, "tools": [{"type": "web_search"}], "tool_choice": "required"},
    "an unknown reference": {**_PLAIN, "input": [{"type": "item_reference", "id": "msg_unknown"}]},
}


def response_exchanges() -> list[Exchange]:
    """All exchanges of the API, in order."""
    cases = {
        **_OPTIONS,
        **{f"{said}, without tools": (SEQUENCES[said], _PLAIN) for said in _WITHOUT_TOOLS},
        **{said: (replies, _GUARDED) for said, replies in SEQUENCES.items()},
    }
    made = [
        Exchange(f"{name}, {form}", openai_replies(replies, stream="tools" in body or stream),
                 {**body, "stream": True} if stream else body, path=PATH)
        for name, (replies, body) in cases.items()
        for stream, form in ((False, "whole"), (True, "streamed"))
    ]  # fmt: skip
    wrong = [Exchange(name, openai_replies((PLAIN,), stream=False), body, path=PATH) for name, body in _WRONG.items()]
    others = [
        Exchange("input tokens", body=_GUARDED, path=f"{PATH}/input_tokens"),
        *(
            Exchange(f"{method} {path}", method=method, path=f"{PATH}/resp_unknown{path}")
            for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/input_items"), ("POST", "/cancel"))
        ),
        Exchange("without v1", openai_replies((PLAIN,), stream=False), _PLAIN, path="/responses"),
    ]
    return [*made, *wrong, *others]
