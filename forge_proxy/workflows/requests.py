"""Builds the request of one iteration of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from forge_proxy.core.chat import ChatRequest, ToolChoice, ToolSpec
from forge_proxy.core.guardrails import GuardPolicy, Turn, open_turn
from forge_proxy.core.jsontypes import Json, JsonObject, is_integer
from forge_proxy.core.messages import Message, MessageType
from forge_proxy.core.workflow.definition import Workflow
from forge_proxy.core.workflow.run import Limits, RunState

_REQUIRED = ToolChoice("required")
_LIMITS = ("max_tokens", "max_completion_tokens")


def request_for(workflow: Workflow, messages: Sequence[Message], model: str | None, options: JsonObject) -> ChatRequest:
    """Build the request, which offers every tool and requires a call.

    `tool_choice` is sent to the model server only with the last retry: many servers then apply a grammar that forces
    the model to call before any reasoning. `options` are more fields of the body (`temperature`, …).
    """
    encoded = spoken(messages)
    tools: list[Json] = [encode_tool(spec) for spec in workflow.get_tool_specs()]
    body: dict[str, Json] = {**options, "messages": [*encoded], "tools": tools, "stream": True}
    if model is not None:
        body["model"] = model
    return ChatRequest(
        body,
        tuple(encoded),
        model,
        tuple(workflow.get_tool_specs()),
        _REQUIRED,
        stream=True,
        include_usage=True,
        # llama.cpp uses -1 for "no limit"
        limit=min(
            (number for name in _LIMITS if is_integer(number := options.get(name)) and number >= 0), default=None
        ),
    )


def turn_for(request: ChatRequest, policy: GuardPolicy, state: RunState, limits: Limits, run_id: str) -> Turn:
    """Open the turn of this iteration with the retries that are left."""
    turn = open_turn(request, policy, request_id=f"{run_id}/{state.iteration}", nudge_text=False)
    if turn is None:
        raise AssertionError("a workflow has tools and at least one guardrail")
    retries_left = max(0, limits.max_retries - state.retries)
    return replace(
        turn,
        retries_left=retries_left,
        cut_retries_left=min(1, retries_left),
        attempt=state.retries + 1,
        held=state.held,
    )


def spoken(messages: Sequence[Message]) -> list[dict[str, Json]]:
    """Return the messages in the API's format. Reasoning becomes the content of the calls that it led to."""
    out: list[dict[str, Json]] = []
    reasoning = ""
    for message in messages:
        if message.type is MessageType.REASONING:
            reasoning = message.content
            continue
        encoded = message.to_api_dict()
        if message.tool_calls and reasoning:
            encoded["content"] = "\n".join(part for part in (reasoning, message.content) if part)
        reasoning = ""
        out.append(encoded)
    return out


def encode_tool(spec: ToolSpec) -> Json:
    """Return a tool in the format of a request."""
    function: dict[str, Json] = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return {"type": "function", "function": function}
