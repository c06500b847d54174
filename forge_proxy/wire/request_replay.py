"""Turns stored requests into requests that the engine answers again, and into golden cases. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from forge_proxy.core.chat import ChatRequest
from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object
from forge_proxy.core.requests.content import StoredContent
from forge_proxy.core.rescue.golden_cases import GoldenCase, GoldenFile
from forge_proxy.wire.clients.chat_completions.request import decode_request

_STREAM_FIELDS = ("stream", "stream_options")
_GOLDEN_FIELDS = ("tools", "tool_choice", "parallel_tool_calls", "max_tokens", "max_completion_tokens")
"""Fields of a request that affect what its response may be."""


def to_chat_request(content: StoredContent, changes: Mapping[str, Json]) -> ChatRequest:
    """Return the client's request with some fields changed, for a whole response. Raises `InvalidRequest`."""
    body = {name: value for name, value in content.request.items() if name not in _STREAM_FIELDS}
    request = decode_request({**body, **changes})
    tools = tuple(replace(tool, grammar=content.grammars.get(tool.name)) for tool in request.tools)
    return replace(request, tools=tools, is_converted=content.is_converted, anthropic=content.anthropic)


def to_golden_file(content: StoredContent, title: str) -> GoldenFile | None:
    """Return a golden case for each attempt whose response has text; None if there is none."""
    cases = [
        GoldenCase.of(f"{title}, {where}", text, names) for where, text, names in _texts(content)
    ]  # fmt: skip
    if not cases:
        return None
    # A file has one list of tools. Those of attempts differ only by the respond tool.
    longest = max((case.tools for case in cases), key=len)
    cases = [case if case.tools == longest else GoldenCase.of(case.title, case.said, longest) for case in cases]
    request = {name: content.request[name] for name in _GOLDEN_FIELDS if content.request.get(name) is not None}
    return GoldenFile(tuple(cases), request if request.get("tools") else None)


def _texts(content: StoredContent) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield each text that the model wrote, with where it is from and the tools that were offered."""
    body: JsonObject = content.request
    for attempt in content.attempts:
        body = attempt.call.apply(body)
        for reply in attempt.replies:
            if reply.text and reply.text.strip():
                choice = f", choice {reply.choice}" if len(attempt.replies) > 1 else ""
                yield f"attempt {attempt.number}{choice}", reply.text, _tool_names(body, content.request)


def _tool_names(body: JsonObject, request: JsonObject) -> tuple[str, ...]:
    """Return the names of the tools of a call; of the request if they were in the prompt."""
    tools = body.get("tools") or request.get("tools")
    functions = [tool.get("function") for tool in tools if is_object(tool)] if is_list(tools) else []
    names = [function.get("name") for function in functions if is_object(function)]
    return tuple(name for name in names if isinstance(name, str))
