"""Makes runs the way a harness does that has never heard of us: an OpenAI-style loop before the proxy, over HTTP.

It asks, executes what is called, tells the results, and ends with the terminal tool or with an answer in words. It
repairs nothing, so what differs between the presets is what the proxy does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import aiohttp

from forge_proxy.core.errors import BackendBroke, BackendError, BackendUnreachable
from forge_proxy.core.jsontypes import Json, JsonObject, is_object, read_object
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.stream import CompletionBuilder, Reply
from forge_proxy.core.workflow.definition import ToolDef, Workflow
from forge_proxy.evals.scenario import ScenarioState
from forge_proxy.evals.single_run import PlannedRun, RunCounter, RunOutcome, is_no_result
from forge_proxy.wire.backends.openai.response import decode_response
from forge_proxy.wire.backends.openai.stream import ChatStreamReader
from forge_proxy.wire.backends.responses import UnreadableResponse
from forge_proxy.workflows.sdk.respond import respond_tool
from forge_proxy.workflows.tools import CallableTools

_ATTEMPTS = re.compile(rb"x-forge-attempts=(\d+)")
"""In the comment at the end of a stream."""
_SECONDS = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=1800)
_OF_THE_SERVER = frozenset({"backend_unreachable", "backend_error", None})
_RESPOND = respond_tool().name


class ProxyHarness:
    """`Harness` over a proxy that listens at `url`, which ends in `/v1`. Close it at the end."""

    def __init__(self, url: str, model: str | None = None) -> None:
        self._url = f"{url}/chat/completions"
        self._model = model
        self._session = aiohttp.ClientSession(timeout=_SECONDS)

    async def close(self) -> None:
        """Close its connections."""
        await self._session.close()

    async def play(self, job: PlannedRun, world: ScenarioState, tally: RunCounter) -> RunOutcome:
        """Make the run."""
        workflow, words = world.workflow, _answers_in_words(job, world.workflow)
        messages: list[Json] = [
            {"role": "system", "content": workflow.build_system_prompt()},
            {"role": "user", "content": world.user_message},
        ]
        offered = [_encode(tool) for name, tool in workflow.tools.items() if not (words and name == _RESPOND)]
        while tally.iterations < job.scenario.max_iterations:
            body: dict[str, Json] = {
                **job.options,
                "model": self._model or "default",
                "messages": messages,
                "tools": [*offered],
                "stream": job.config.stream,
                **({"stream_options": {"include_usage": True}} if job.config.stream else {}),
            }
            answer = await self._ask(body, job.preset.header, tally)
            if isinstance(answer, RunOutcome):
                return answer
            if not answer.calls:
                if words and answer.text:
                    return RunOutcome(_RESPOND, {"message": answer.text})
                return RunOutcome(error="TextAnswer", detail=answer.text)
            messages.append(_said(answer))
            ended, results = await _executed(answer.calls, workflow, tally)
            if ended is not None:
                return ended
            messages += results
        return RunOutcome(error="MaxIterationsError", detail=f"no terminal tool in {tally.iterations} answers")

    async def _ask(self, body: JsonObject, guardrails: str, tally: RunCounter) -> Reply | RunOutcome:
        """The answer, or how the run ended for want of one. Raises what says nothing of the model."""
        try:
            async with self._session.post(self._url, json=body, headers={"x-forge-guardrails": guardrails}) as response:
                raw = await response.read()
                answer = _Answer(self._url, response.status, response.headers, raw, is_stream=bool(body["stream"]))
        except (aiohttp.ClientError, OSError) as exc:
            raise BackendUnreachable(self._url, str(exc) or type(exc).__name__) from exc
        attempts = answer.attempts
        tally.iterations += attempts
        tally.retry_nudges += attempts - 1
        if answer.status != 200:
            return answer.failed()
        builder = answer.read()
        if usage := builder.completion().usage:
            tally.spend(usage)
        replies = builder.completion().replies
        return replies[0] if replies else Reply()


@dataclass(frozen=True, slots=True)
class _Answer:
    """What came over HTTP."""

    url: str
    status: int
    headers: Mapping[str, str]
    raw: bytes
    is_stream: bool

    @property
    def attempts(self) -> int:
        """How often the model was asked: once, where the proxy does not say."""
        if said := self.headers.get("x-forge-attempts"):
            return int(said)
        found = _ATTEMPTS.search(self.raw) if self.is_stream else None
        return int(found[1]) if found else 1

    def failed(self) -> RunOutcome:
        """How the run ended with this error. Raises it where it says nothing of the model."""
        body = read_object(self.raw.decode(errors="replace")) or {}
        said = body.get("error")
        code = said.get("code") if is_object(said) else None
        if code == "backend_broke_off":
            raise BackendBroke(self.url, "as the proxy says")
        error = BackendError(self.url, self.status, body or "no JSON", {})
        is_model = self.status == 502 and code not in _OF_THE_SERVER  # tool_call_invalid and its like
        if is_no_result(error) and not is_model:
            raise error
        return RunOutcome(error=str(code or f"HTTP {self.status}"), detail=error.words)

    def read(self) -> CompletionBuilder:
        """The answer put together. Raises `BackendBroke`."""
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


async def _executed(
    calls: Iterable[ToolCall], workflow: Workflow, tally: RunCounter
) -> tuple[RunOutcome | None, list[Json]]:
    """The results of some calls, and how the run ended, if one of them ended it."""
    tools, results, ended = CallableTools(workflow), list[Json](), None
    for call in calls:
        outcome = await tools.execute(call, call.id)
        if outcome is None:
            raise TypeError(f"{workflow.name}: {call.tool} has no callable")
        tally.tool_errors += outcome.status == "error"
        if call.tool in workflow.terminal_tools and outcome.status == "ok" and ended is None:
            ended = RunOutcome(call.tool, call.args() or {})
        results.append({"role": "tool", "tool_call_id": call.id, "content": outcome.text})
    return ended, results


def _answers_in_words(job: PlannedRun, workflow: Workflow) -> bool:
    """Whether an answer in words ends the run: where `respond` would, which the proxy has a tool of its own for."""
    return _RESPOND in workflow.terminal_tools and job.config.tool_choice == "auto"


def _said(reply: Reply) -> Json:
    return {"role": "assistant", "content": reply.text, "tool_calls": [_call(call) for call in reply.calls]}


def _call(call: ToolCall) -> Json:
    return {"id": call.id, "type": "function", "function": {"name": call.tool, "arguments": call.arguments}}


def _encode(tool: ToolDef) -> Json:
    spec = tool.spec
    function: Json = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return {"type": "function", "function": function}
