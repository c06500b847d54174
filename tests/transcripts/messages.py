"""The exchanges of `/v1/messages`: each kind of reply, streamed and whole, and each kind of block, tool and error."""

from __future__ import annotations

from typing import Any

from tests.fakes.says import Said
from tests.transcripts.exchange import Exchange
from tests.transcripts.replies import PLAIN, SEQUENCES, openai_replies

JsonDict = dict[str, Any]
PATH = "/v1/messages"
_WEATHER: JsonDict = {
    "name": "get_weather",
    "description": "The weather of the next days.",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"],
    },
}
_TIME: JsonDict = {"name": "get_time", "input_schema": {"type": "object"}}
_USER: JsonDict = {"role": "user", "content": "What is the weather in Paris?"}
_PLAIN: JsonDict = {"model": "claude-any", "max_tokens": 1000, "messages": [_USER]}
_GUARDED: JsonDict = {**_PLAIN, "tools": [_WEATHER, _TIME]}
_IMAGE: JsonDict = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
_CACHED: JsonDict = {"cache_control": {"type": "ephemeral"}}
_HISTORY: list[JsonDict] = [
    {"role": "user", "content": [{"type": "text", "text": "Context."}, {"type": "text", "text": "Look.", **_CACHED}]},
    {"role": "system", "content": [{"type": "text", "text": "Mind the time.", **_CACHED}]},
    {"role": "assistant", "content": [
        {"type": "thinking", "thinking": "Look first.", "signature": "forge-proxy.1.aa"},
        {"type": "redacted_thinking", "data": "Abc"},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Paris"}},
        {"type": "tool_use", "id": "toolu_2", "name": "get_time", "input": {}},
    ]},
    {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "sunny"}, _IMAGE]},
        {"type": "tool_result", "tool_use_id": "toolu_2", "content": "no clock", "is_error": True, **_CACHED},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "Words."}, "title": "T"},
        {"type": "text", "text": "And this?"},
    ]},
]  # fmt: skip
_SYSTEM: list[JsonDict] = [
    {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1; cch=1a2b3;"},
    {"type": "text", "text": "You are an agent.", **_CACHED},
]
_TOOLS: list[JsonDict] = [
    _WEATHER,
    {"type": "bash_20250124", "name": "bash"},
    {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"},
    {"type": "web_search_20250305", "name": "web_search"},
    {**_TIME, "defer_loading": True},
]
_BASH = Said(calls=(("bash", '{"command": "ls"}'),))
_FORMAT: JsonDict = {"format": {"type": "json_schema", "schema": _WEATHER["input_schema"]}, "effort": "max"}
_OPTIONS: dict[str, tuple[tuple[Said, ...], JsonDict]] = {
    "every kind of tool": ((_BASH,), {**_PLAIN, "tools": _TOOLS}),
    "a history": ((PLAIN,) * 3, {**_GUARDED, "messages": _HISTORY, "system": _SYSTEM}),
    "omitted reasoning": (
        SEQUENCES["reasoning and a call"],
        {**_GUARDED, "thinking": {"type": "enabled", "budget_tokens": 1024, "display": "omitted"}},
    ),
    "a schema": ((Said('{"city": "Paris"}'),), {**_PLAIN, "output_config": _FORMAT}),
    "tool_choice of one tool": (
        SEQUENCES["another tool, then that one"], {**_GUARDED, "tool_choice": {"type": "tool", "name": "get_time"}},
    ),
    "one call at a time": (
        SEQUENCES["two native calls"],
        {**_GUARDED, "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
    ),
    "a cut response": ((Said("It is sun", finish="length"),), {**_PLAIN, "max_tokens": 5}),
    "a full window": ((Said("It is sun", finish="length"),), {**_PLAIN, "max_tokens": 5000}),
    "a refusal": ((Said("No.", finish="content_filter"),), _PLAIN),
    "what is dropped": (
        (PLAIN,), {**_PLAIN, "context_management": {"edits": [{"type": "compact_20260112"}]}, "betas": ["x"]},
    ),
    "options": (
        (PLAIN,),
        {**_PLAIN, "stop_sequences": ["###"], "temperature": 0, "top_p": 1, "top_k": 5, "metadata": {"user_id": "u"},
         "thinking": {"type": "disabled"}},
    ),
}  # fmt: skip
_WITHOUT_TOOLS = ("plain text", "reasoning and text", "native call", "cut text", "lost, then a call", "429", "overflow")
_WRONG: dict[str, Any] = {
    "no JSON": b"{",
    "no messages": {"model": "scripted", "max_tokens": 5},
    "an unknown role": {**_PLAIN, "messages": [{"role": "usr", "content": "hi"}]},
    "a stored file": {**_PLAIN, "messages": [{"role": "user", "content": [
        {"type": "document", "source": {"type": "file", "file_id": "file_1"}}]}]},
    "a thread": {**_PLAIN, "thread": {"type": "create"}},
    "a tool without a schema": {**_PLAIN, "tools": [{"name": "now"}]},
    "an invalid schema": {**_PLAIN, "tools": [{**_WEATHER, "input_schema": {"type": "strin"}}]},
    "tool_choice of a dropped tool": {**_PLAIN, "tools": _TOOLS[3:4], "tool_choice": {"type": "any"}},
}  # fmt: skip


def message_exchanges() -> list[Exchange]:
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
    version = {"anthropic-version": "2023-06-01"}
    others = [
        Exchange("beta", openai_replies((PLAIN,), stream=False), _PLAIN, path=f"{PATH}?beta=true"),
        Exchange("tokens", body=_GUARDED, path=f"{PATH}/count_tokens"),
        Exchange("models", method="GET", path="/v1/models", headers=version),
        Exchange("one model", method="GET", path="/v1/models/scripted", headers=version),
        Exchange("no such path", body={}, path=f"{PATH}/batches"),
        Exchange("no such method", method="GET", path=PATH),
    ]
    return [*made, *wrong, *others]
