"""What is asked of the engine in one iteration of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from forge_proxy.core.chat import ChatRequest, ToolChoice, ToolSpec
from forge_proxy.core.guardrails import GuardPolicy, Turn, open_turn
from forge_proxy.core.jsontypes import Json, JsonObject, is_integer
from forge_proxy.core.messages import Message, MessageType
from forge_proxy.core.workflow.definition import Workflow
from forge_proxy.core.workflow.run import Limits, RunState

_A_CALL = ToolChoice("required")
_LIMITS = ("max_tokens", "max_completion_tokens")


def request_for(workflow: Workflow, messages: Sequence[Message], model: str | None, options: JsonObject) -> ChatRequest:
    """The request: every tool is offered, and a call is demanded.

    The model server is not told of the demand until the last retry: many then hold the model to a grammar that makes
    it call before it has thought. `options` are more fields of the body (`temperature`, …).
    """
    told = spoken(messages)
    tools: list[Json] = [encode_tool(spec) for spec in workflow.get_tool_specs()]
    body: dict[str, Json] = {**options, "messages": [*told], "tools": tools, "stream": True}
    if model is not None:
        body["model"] = model
    return ChatRequest(
        body,
        tuple(told),
        model,
        tuple(workflow.get_tool_specs()),
        _A_CALL,
        stream=True,
        include_usage=True,
        # -1 is llama.cpp's word for "no limit"
        limit=min((said for name in _LIMITS if is_integer(said := options.get(name)) and said >= 0), default=None),
    )


def turn_for(request: ChatRequest, policy: GuardPolicy, state: RunState, limits: Limits, run_id: str) -> Turn:
    """The turn of this iteration: what is left of the retries is left for it."""
    turn = open_turn(request, policy, request_id=f"{run_id}/{state.iteration}", nudge_text=False)
    if turn is None:
        raise AssertionError("a workflow has tools, and guardrails that are on")
    left = max(0, limits.max_retries - state.retries)
    return replace(turn, retries_left=left, cut_retries_left=min(1, left), attempt=state.retries + 1, held=state.held)


def spoken(messages: Sequence[Message]) -> list[dict[str, Json]]:
    """The messages as a model server takes them. Thoughts are told as the content of the calls they led to."""
    out: list[dict[str, Json]] = []
    thought = ""
    for message in messages:
        if message.type is MessageType.REASONING:
            thought = message.content
            continue
        told = message.to_api_dict()
        if message.tool_calls and thought:
            told["content"] = "\n".join(part for part in (thought, message.content) if part)
        thought = ""
        out.append(told)
    return out


def encode_tool(spec: ToolSpec) -> Json:
    """A tool as a request offers it."""
    function: dict[str, Json] = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return {"type": "function", "function": function}
