"""Executes runs through the proxy, with a plain agent loop over HTTP that does not know forge-proxy.

The loop sends requests, executes the calls and sends the results. How it ends is the client's kind (`clients`).
It repairs nothing: differences between presets are the effect of the proxy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import aiohttp

from forge_proxy.core.backend_errors import BackendBroke, BackendError, BackendUnreachable
from forge_proxy.core.jsontypes import Json, JsonObject, is_object, read_object
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.stream import CompletionBuilder, Reply
from forge_proxy.core.workflow.definition import ToolDef, Workflow
from forge_proxy.evals.clients import MAX_REPROMPTS, REPROMPT, RESPOND
from forge_proxy.evals.scenario import ScenarioState
from forge_proxy.evals.single_run import PlannedRun, RunCounter, RunOutcome, is_server_fault
from forge_proxy.wire.backends.openai.response import decode_response
from forge_proxy.wire.backends.openai.stream import ChatStreamReader
from forge_proxy.wire.backends.responses import UnreadableResponse
from forge_proxy.workflows.tools import CallableTools

_ATTEMPTS = re.compile(rb"x-forge-attempts=(\d+)")
"""Matches the comment at the end of a stream."""
_SECONDS = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=1800)
_OF_THE_SERVER = frozenset({"backend_unreachable", "backend_error", None})


class ProxyHarness:
    """`Harness` over a proxy at `url`, which ends in `/v1`. Close it at the end.

    `presets` are the URLs of the presets that have a daemon of their own.
    """

    def __init__(self, url: str, model: str | None = None, presets: Mapping[str, str] = MappingProxyType({})) -> None:
        self.url = url
        self._presets = presets
        self._model = model
        self._session = aiohttp.ClientSession(timeout=_SECONDS)

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def execute(self, job: PlannedRun, scenario_state: ScenarioState, counter: RunCounter) -> RunOutcome:
        """Execute the run."""
        workflow, ends_with_text = scenario_state.workflow, _ends_with_text(job, scenario_state.workflow)
        messages: list[Json] = [
            {"role": "system", "content": workflow.build_system_prompt()},
            {"role": "user", "content": scenario_state.user_message},
        ]
        offered = [_encode(tool) for name, tool in workflow.tools.items() if not (ends_with_text and name == RESPOND)]
        reprompts = MAX_REPROMPTS if job.config.client == "reprompting" else 0
        while counter.iterations < job.scenario.max_iterations:
            body: dict[str, Json] = {
                **job.options,
                "model": self._model or "default",
                "messages": messages,
                "tools": [*offered],
                "stream": job.config.stream,
                **({"stream_options": {"include_usage": True}} if job.config.stream else {}),
            }
            answer = await self._ask(self._presets.get(job.preset.name, self.url), body, job.preset.header, counter)
            if isinstance(answer, RunOutcome):
                return answer
            if not answer.calls:
                if ends_with_text and answer.text:
                    return RunOutcome(RESPOND, {"message": answer.text})
                if reprompts:
                    reprompts -= 1
                    messages += _reprompt(answer, workflow)
                    continue
                return RunOutcome(error="TextAnswer", detail=answer.text)
            messages.append(_encode_reply(answer))
            ended, results = await _execute_calls(answer.calls, workflow, counter)
            if ended is not None:
                return ended
            messages += results
        return RunOutcome(error="MaxIterationsError", detail=f"no terminal tool in {counter.iterations} responses")

    async def _ask(self, url: str, body: JsonObject, guardrails: str, counter: RunCounter) -> Reply | RunOutcome:
        """Return the response, or the outcome of the run if it is an error. Raises errors of the model server."""
        url = f"{url}/chat/completions"
        try:
            async with self._session.post(url, json=body, headers={"x-forge-guardrails": guardrails}) as response:
                raw = await response.read()
                answer = _ProxyResponse(url, response.status, response.headers, raw, is_stream=bool(body["stream"]))
        except (aiohttp.ClientError, OSError) as exc:
            raise BackendUnreachable(url, str(exc) or type(exc).__name__) from exc
        attempts = answer.attempts
        counter.iterations += attempts
        counter.retry_nudges += attempts - 1
        if answer.status != 200:
            return answer.to_outcome()
        builder = answer.assemble()
        if usage := builder.completion().usage:
            counter.add_usage(usage)
        replies = builder.completion().replies
        return replies[0] if replies else Reply()


@dataclass(frozen=True, slots=True)
class _ProxyResponse:
    """A response of the proxy."""

    url: str
    status: int
    headers: Mapping[str, str]
    raw: bytes
    is_stream: bool

    @property
    def attempts(self) -> int:
        """Number of attempts; 1 if the proxy does not report it."""
        if attempts := self.headers.get("x-forge-attempts"):
            return int(attempts)
        found = _ATTEMPTS.search(self.raw) if self.is_stream else None
        return int(found[1]) if found else 1

    def to_outcome(self) -> RunOutcome:
        """Return the outcome of the run for an error response. Raises errors of the model server."""
        body = read_object(self.raw.decode(errors="replace")) or {}
        fields = body.get("error")
        code = fields.get("code") if is_object(fields) else None
        if code == "backend_broke_off":
            raise BackendBroke(self.url, "reported by the proxy")
        error = BackendError(self.url, self.status, body or "no JSON", {})
        is_model = self.status == 502 and code not in _OF_THE_SERVER  # such as tool_call_invalid
        if is_server_fault(error) and not is_model:
            raise error
        return RunOutcome(error=str(code or f"HTTP {self.status}"), detail=error.server_message)

    def assemble(self) -> CompletionBuilder:
        """Assemble the response. Raises `BackendBroke`."""
        builder = CompletionBuilder()
        try:
            if not self.is_stream:
                builder.add(decode_response(self.raw))
                return builder
        except UnreadableResponse as exc:
            raise BackendBroke(self.url, str(exc)) from exc
        reader = ChatStreamReader()
        for chunk in (*reader.feed(self.raw), *reader.end()):
            builder.add(chunk)
        if reader.fault:
            raise BackendBroke(self.url, str(reader.fault))
        return builder


async def _execute_calls(
    calls: Iterable[ToolCall], workflow: Workflow, counter: RunCounter
) -> tuple[RunOutcome | None, list[Json]]:
    """Execute calls. Returns the outcome of the run if one of them ended it, and the messages with the results."""
    tools, results, ended = CallableTools(workflow), list[Json](), None
    for call in calls:
        outcome = await tools.execute(call, call.id)
        if outcome is None:
            raise TypeError(f"{workflow.name}: {call.tool} has no callable")
        counter.tool_errors += outcome.status == "error"
        if call.tool in workflow.terminal_tools and outcome.status == "ok" and ended is None:
            ended = RunOutcome(call.tool, call.args() or {})
        results.append({"role": "tool", "tool_call_id": call.id, "content": outcome.text})
    return ended, results


def _ends_with_text(job: PlannedRun, workflow: Workflow) -> bool:
    """Return whether a plain-text response ends the run: if `respond` does, because the proxy adds its own."""
    return RESPOND in workflow.terminal_tools and "tool_choice" not in job.options


def _reprompt(answer: Reply, workflow: Workflow) -> list[Json]:
    """Return the plain text and the client's message that asks for a call."""
    ends = " or ".join(sorted(workflow.terminal_tools))
    return [
        {"role": "assistant", "content": answer.text},
        {"role": "user", "content": REPROMPT.format(end=ends)},
    ]


def _encode_reply(reply: Reply) -> Json:
    return {"role": "assistant", "content": reply.text, "tool_calls": [_call(call) for call in reply.calls]}


def _call(call: ToolCall) -> Json:
    return {"id": call.id, "type": "function", "function": {"name": call.tool, "arguments": call.arguments}}


def _encode(tool: ToolDef) -> Json:
    spec = tool.spec
    function: Json = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return {"type": "function", "function": function}
