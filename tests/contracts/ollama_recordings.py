"""Answers of Ollama's `/api/chat`, as their bytes. The first three were recorded from a real 0.34.4 and shortened;
the others are written after its documentation and its source.
"""

from __future__ import annotations

from forge_proxy.core.messages import ToolCall
from forge_proxy.core.stream import Reply
from tests.contracts.recordings import Recording

DONE = b'"done":true'
_TINY = '"model":"tiny-tools","created_at":"2026-11-21T19:34:19.700424593Z"'


def _recording(name: str, lines: list[str], whole: str, reply: Reply, tokens: int | None) -> Recording:
    events = [line.encode() for line in lines]
    streamed = b"".join(event + b"\n" for event in events)
    return Recording(name, streamed, events, whole.encode(), reply, tokens, DONE)


def _native() -> Recording:
    """The call is in the last line, because llama-server's parser has found it."""
    line = (
        '{"model":"tiny-tools","created_at":"2026-11-21T19:33:57.735561443Z","message":{"role":"assistant",'
        '"content":"","tool_calls":[{"id":"Ar7Rswdk","function":{"index":0,"name":"get_weather",'
        '"arguments":{"city":"Paris","days":3}}}]},"done":true,"done_reason":"stop","total_duration":277684337,'
        '"load_duration":261118048,"prompt_eval_count":112,"prompt_eval_cached_count":0,'
        '"prompt_eval_duration":5480000,"eval_count":30,"eval_duration":9876000}'
    )
    call = ToolCall("get_weather", '{"city":"Paris","days":3}', "Ar7Rswdk")
    return _recording("ollama-native", [line], line, Reply(calls=(call,), finish="tool_calls"), 142)


def _own_parser() -> Recording:
    """Each call has its own line, because Ollama's own parser has found it."""
    head = (
        '{"model":"tiny-tools","created_at":"2026-11-21T19:34:19.700424593Z","message":{"role":"assistant","content":""'
    )
    calls = [
        f'{{"id":"call_{identity}","function":{{"index":{index},"name":"get_weather","arguments":{{"city":"{city}"}}}}}}'
        for index, (identity, city) in enumerate([("crlx8s0n", "Zürich"), ("edesdwg2", "\\u003cOslo\\u003e")])
    ]
    counts = (
        '"done":true,"done_reason":"stop","total_duration":89091898,"load_duration":31845633,"prompt_eval_count":112,'
        '"prompt_eval_cached_count":85,"prompt_eval_duration":11125000,"eval_count":30,"eval_duration":40319000}'
    )
    lines = [*(f'{head},"tool_calls":[{call}]}},"done":false}}' for call in calls), f"{head}}},{counts}"]
    whole = f'{head},"tool_calls":[{",".join(calls)}]}},{counts}'
    made = (
        ToolCall("get_weather", '{"city":"Zürich"}', "call_crlx8s0n"),
        ToolCall("get_weather", '{"city":"<Oslo>"}', "call_edesdwg2"),
    )
    return _recording("ollama-parser", lines, whole, Reply(calls=made, finish="tool_calls"), 142)


def _leaked() -> Recording:
    """A call that its parser did not find, and that arrives as text."""
    head = (
        '{"model":"tiny-tools","created_at":"2026-11-21T19:33:57.792437298Z","message":{"role":"assistant","content":'
    )
    pieces = [
        "\\u003ctool_call\\u003e",
        "\\n",
        '{\\"',
        "name",
        '\\":',
        ' \\"get_weather\\"}',
        "\\n\\u003c/tool_call\\u003e",
    ]
    counts = (
        '"done":true,"done_reason":"stop","total_duration":21649543,"load_duration":4064659,"prompt_eval_count":112,'
        '"prompt_eval_cached_count":18,"prompt_eval_duration":5189000,"eval_count":30,"eval_duration":10252000}'
    )
    lines = [*(f'{head}"{piece}"}},"done":false}}' for piece in pieces), f'{head}""}},{counts}']
    reply = Reply(text='<tool_call>\n{"name": "get_weather"}\n</tool_call>', finish="stop")
    return _recording("ollama-leak", lines, f'{head}"{"".join(pieces)}"}},{counts}', reply, 142)


def _thinking() -> Recording:
    """Reasoning, text and an end at the token limit; no counts, as from some servers in front of it."""
    head = '{"model":"qwen3","created_at":"2025-06-01T10:00:00+02:00","message":{"role":"assistant",'
    lines = [
        head + '"content":"","thinking":"Hm 😀"},"done":false}',
        head + '"content":"","thinking":" so"},"done":false}',
        head + '"content":"Grüße "},"done":false}',
        head + '"content":"nach 東京"},"done":false}',
        head + '"content":""},"done":true,"done_reason":"length"}',
    ]
    whole = head + '"content":"Grüße nach 東京","thinking":"Hm 😀 so"},"done":true,"done_reason":"length"}'
    return _recording(
        "ollama-thinking", lines, whole, Reply(text="Grüße nach 東京", reasoning="Hm 😀 so", finish="length"), None
    )


def _old() -> Recording:
    """The format of older versions: no ids, no finish reason, and zeros omitted."""
    head = '{"model":"llama3.1","created_at":"2024-07-22T20:33:28.123648Z","message":{"role":"assistant","content":""'
    call = '"tool_calls":[{"function":{"name":"get_weather","arguments":{}}}]'
    lines = [f'{head},{call}}},"done":false}}', f'{head}}},"done":true,"eval_count":18}}']
    made = ToolCall("get_weather", "{}", "call_202407222033281236480")
    whole = f'{head},{call}}},"done":true,"eval_count":18}}'
    return _recording("ollama-old", lines, whole, Reply(calls=(made,), finish="tool_calls"), 18)


OLLAMA_RECORDINGS = (_native(), _own_parser(), _leaked(), _thinking(), _old())
