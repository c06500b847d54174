"""Finds the tool that a backend rejects, by bisection with one-token requests that contain only tools."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from forge_proxy.core.backend_errors import BackendError, RequestFormatRejected, ToolsRejected
from forge_proxy.core.chat import ModelCall
from forge_proxy.core.errors import ForgeError
from forge_proxy.core.jsontypes import Json, is_list, is_object
from forge_proxy.engine.ports import Backend

_SECONDS = 30.0
"""Time limit of the whole search: a client is waiting for the error that it improves."""


@dataclass(frozen=True, slots=True)
class RejectedTool:
    """The tool, of `offered` ones, for which the backend rejects a call.

    If `proven`, it is the one at `index`, or all together if `index` is None; otherwise the tools may not be the cause.
    """

    offered: int
    proven: bool = False
    index: int | None = None
    tool: str | None = None

    def error(self, refusal: RequestFormatRejected) -> BackendError:
        """Return the error for the client whose call was rejected."""
        return ToolsRejected(refusal, self.tool, self.index, self.offered) if self.proven else refusal


async def find_rejected_tool(backend: Backend, call: ModelCall) -> RejectedTool:
    """Find the tool because of which a call was rejected.

    Sends one request for each bisection step, and one or two to verify the result.
    """
    tools = call.request.body.get("tools")
    if not is_list(tools):
        return RejectedTool(0)
    suspects = list(enumerate(tools))
    try:
        async with asyncio.timeout(_SECONDS):
            while len(suspects) > 1:
                half = suspects[: len(suspects) // 2]
                suspects = half if await _is_refused(backend, call, half) else suspects[len(half) :]
            index, tool = suspects[0]
            if await _is_refused(backend, call, suspects):
                return RejectedTool(len(tools), proven=True, index=index, tool=_name(tool))
            # No single tool: together they are too much, or the cause is something else in the request.
            return RejectedTool(len(tools), proven=await _is_refused(backend, call, list(enumerate(tools))))
    except (ForgeError, TimeoutError):
        return RejectedTool(len(tools))


async def _is_refused(backend: Backend, call: ModelCall, tools: Sequence[tuple[int, Json]]) -> bool:
    """Return whether the backend rejects these tools. Raises any other error of the request."""
    body: dict[str, Json] = {
        "model": call.model.requested,
        "messages": [{"role": "user", "content": "."}],
        "tools": [_bare(tool) for _, tool in tools],
        "max_tokens": 1,
        "stream": True,
    }
    if call.request.tool_choice.mode == "required":
        body["tool_choice"] = "required"  # it uses a different grammar
    request = replace(call.request, body=body, messages=(), stream=True)
    probe = ModelCall(request, stream=True, resolved=call.resolved, dialect=call.dialect)
    try:
        async with aclosing(backend.stream(probe)) as chunks:
            async for _ in chunks:
                return False
    except RequestFormatRejected as refusal:
        if not refusal.need.is_about_tools:
            raise
        return True
    return False


def _bare(tool: Json) -> Json:
    """Return a tool without its description, which costs prompt processing time."""
    function = tool.get("function") if is_object(tool) else None
    if not is_object(tool) or not is_object(function):
        return tool
    return {**tool, "function": {key: value for key, value in function.items() if key != "description"}}


def _name(tool: Json) -> str | None:
    function = tool.get("function") if is_object(tool) else None
    name = function.get("name") if is_object(function) else None
    return name if isinstance(name, str) else None
