"""Structured calls: a schema in, a validated value or a typed error out, on every model server.

The method follows the model's capability card: `response_format` with the schema, else one required tool with all
guardrails, else the schema in the prompt. The response is background work: it waits for interactive requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from forge_proxy.core.backend_errors import (
    BackendFault,
    BackendLost,
    BackendNotReady,
    BackendUnreachable,
    ModelNotLoaded,
)
from forge_proxy.core.capability import CapabilityCard
from forge_proxy.core.chat import ChatRequest, ToolChoice, ToolSpec
from forge_proxy.core.errors import ForgeError, Overloaded
from forge_proxy.core.jsontypes import Json, JsonObject, is_object, write
from forge_proxy.core.requests.records import RequestOrigin, TokenCounts, read_token_counts
from forge_proxy.core.stream import Chunk, ReplyBuilder
from forge_proxy.core.tasks.models import AssembledContext, CapabilityTier, LLMCallResult, ResponseForm
from forge_proxy.core.tasks.responses import ResponseCutOff, ResponseInvalid
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.ports import Clock
from forge_proxy.jobs.cancellation import run_cancellable
from forge_proxy.tasks.config import TierConfig, TiersConfig

T = TypeVar("T")
_R = TypeVar("_R")
CallMethod: TypeAlias = Literal["response_format", "tool", "prompt"]
ReportWait: TypeAlias = Callable[[ForgeError, float], Awaitable[None]]
"""Called with the error of an unavailable model server and the seconds until the next attempt."""
TEMPORARY_ERRORS = (BackendLost, BackendNotReady, BackendUnreachable, ModelNotLoaded, Overloaded)
"""Errors after which a call waits for the model server and is sent again."""
_WAIT_SECONDS = (1, 2, 5, 10, 20, 30)
"""Seconds between the attempts to reach an unavailable model server; the last one repeats."""
_TOOL = "llm_response"
_ORIGIN = RequestOrigin("tasks", program="forge-proxy-task", priority="background")
_DEFAULT_OUTPUT = 4096
"""Tokens of a response if the window is not known."""
_SCHEMA_NOTE = "\n\nRespond with one JSON value, and nothing else, that is valid under this JSON Schema:\n\n"


@dataclass(frozen=True, slots=True)
class StructuredCall(Generic[T]):
    """What is requested. `parse` raises `ResponseInvalid`."""

    context: AssembledContext
    tier: CapabilityTier
    form: ResponseForm
    schema: JsonObject
    parse: Callable[[str], T]
    request_id: str
    client: str
    """By whom slots are shared."""
    model: str | None = None
    """In place of the tier's."""
    on_first_token: Callable[[], None] = lambda: None
    """Called when the model has begun to respond, perhaps more than once."""


@dataclass(frozen=True, slots=True)
class StructuredResult(Generic[T]):
    """A valid response, and the number of requests that it took."""

    value: T
    call: LLMCallResult
    requests: int


@dataclass
class CallCosts:
    """What a call has cost so far; it also counts if there is no valid response in the end."""

    tokens: TokenCounts = field(default_factory=TokenCounts)
    requests: int = 0
    model: str = ""
    seconds: float = 0.0


class StructuredCaller:
    """Has models answer with values."""

    def __init__(self, engine: Engine, tiers: TiersConfig, clock: Clock) -> None:
        self._engine = engine
        self._tiers = tiers
        self._clock = clock

    def model_of(self, tier: CapabilityTier, model: str | None = None) -> str | None:
        """Return the model of a tier; None for the daemon's usual one."""
        return model or self._tiers.of(tier).model

    async def form_of(self, tier: CapabilityTier, model: str | None = None) -> ResponseForm:
        """Return the form in which files are requested."""
        form = self._tiers.of(tier).response_form
        if form != "auto":
            return form
        card = await self._card(self.model_of(tier, model))
        return "json" if card is not None and card.constraint in ("grammar", "schema") else "blocks"

    async def window_of(self, tier: CapabilityTier, model: str | None = None) -> int | None:
        """Return the tokens of prompt and response together; None if they are not known."""
        return (await self._engine.budgets.of(self.model_of(tier, model))).tokens

    def output_of(self, tier: CapabilityTier, window: int | None) -> int:
        """Return the limit of a response in tokens, which the prompt has to leave free."""
        own = self._tiers.of(tier).max_output
        if own is not None:
            return own
        return _DEFAULT_OUTPUT if window is None else max(64, window // 4)

    async def count(self, context: AssembledContext, tier: CapabilityTier, model: str | None = None) -> int:
        """Return the tokens of a prompt: counted by the server, else calibrated by earlier calls, else estimated."""
        request = _build_request(self.model_of(tier, model), context, TierConfig(), 1)
        try:
            return (await self._engine.measure(request)).tokens
        except ForgeError:  # the call itself will raise it
            return context.tokens

    async def call(
        self, wanted: StructuredCall[T], cancel: asyncio.Event, report_wait: ReportWait, costs: CallCosts | None = None
    ) -> StructuredResult[T]:
        """Return a valid response. An invalid one is retried once with the reason, and a truncated one with more room.

        The costs are added to `costs`. While the model server is unavailable, the call waits for it. Raises
        `Cancelled`, `ResponseInvalid`, `ResponseCutOff`, and other errors of the engine.
        """
        window = await self._wait_for_server(lambda: self.window_of(wanted.tier, wanted.model), cancel, report_wait)
        limit = self.output_of(wanted.tier, window)
        method = await self._wait_for_server(lambda: self._method_of(wanted), cancel, report_wait)
        began, correction, requests = self._clock.now(), None, 0
        costs = costs or CallCosts()
        while True:
            requests += 1
            costs.requests = requests
            request = self._request(wanted, method, limit, correction)
            reply = await self._wait_for_server(lambda: self._send(wanted, request, requests), cancel, report_wait)  # noqa: B023
            costs.tokens += reply.tokens
            costs.model, costs.seconds = reply.model, self._clock.now() - began
            if reply.is_cut:
                larger = self._more_room(wanted, limit, window)
                if requests > 1 or larger is None:
                    raise ResponseCutOff(limit)
                limit = larger
                continue
            try:
                value = wanted.parse(reply.text)
            except ResponseInvalid as error:
                if requests > 1:
                    raise
                correction = _Correction(reply.text, str(error))
            else:
                result = LLMCallResult(
                    reply.text, wanted.tier, reply.model, wanted.form, costs.tokens.prompt, costs.tokens.cached,
                    costs.tokens.completion, costs.seconds,
                )  # fmt: skip
                return StructuredResult(value, result, requests)

    async def _card(self, model: str | None) -> CapabilityCard | None:
        """Return the card of a model, which is tested first if it has none. None if it cannot be tested."""
        engine = self._engine
        try:
            name = engine.models.resolve_cached(model).served or await engine.models.default_name()
            return engine.capabilities.cards.get(name) or await engine.test(name)
        except TEMPORARY_ERRORS:
            raise
        except (BackendFault, ForgeError):
            return None

    async def _method_of(self, wanted: StructuredCall[T]) -> CallMethod:
        if wanted.form == "blocks":
            return "prompt"
        method = self._tiers.of(wanted.tier).method
        if method != "auto":
            return method
        card = await self._card(self.model_of(wanted.tier, wanted.model))
        if card is None:
            return "prompt"
        if card.constraint in ("grammar", "schema"):
            return "response_format"
        return "tool" if card.calls else "prompt"

    def _more_room(self, wanted: StructuredCall[T], limit: int, window: int | None) -> int | None:
        """Return a larger limit for a response; None if there is no more room."""
        if window is None:
            return 2 * limit
        room = window - wanted.context.tokens
        return min(2 * limit, room) if room > limit else None

    def _request(
        self, wanted: StructuredCall[T], method: CallMethod, limit: int, correction: _Correction | None
    ) -> ChatRequest:
        tier, context = self._tiers.of(wanted.tier), wanted.context
        if method == "prompt" and wanted.form == "json":
            context = replace(context, user_prompt=context.user_prompt + _SCHEMA_NOTE + write(wanted.schema))
        request = _build_request(self.model_of(wanted.tier, wanted.model), context, tier, limit, correction)
        if method == "response_format":
            form: JsonObject = {
                "type": "json_schema",
                "json_schema": {"name": _TOOL, "strict": True, "schema": wanted.schema},
            }
            return replace(request, body={**request.body, "response_format": form})
        if method == "tool":
            return _with_tool(request, wanted.schema)
        return request

    async def _send(self, wanted: StructuredCall[T], request: ChatRequest, number: int) -> _Reply:
        builder, usage, model = ReplyBuilder(), None, ""
        answer = self._engine.answer(
            request,
            self._engine.policies.guardrails,
            request_id=f"{wanted.request_id}.{number}",
            client=wanted.client,
            origin=_ORIGIN,
        )
        async with aclosing(answer) as events:
            async for event in events:
                if not isinstance(event, Chunk):
                    continue
                for delta in event.deltas:
                    wanted.on_first_token()
                    builder.add(delta)
                usage = event.usage or usage
                named = event.head.get("model")
                model = named if isinstance(named, str) else model
        reply = builder.reply()
        text = next((call.arguments for call in reply.calls if call.tool == _TOOL), reply.text or "")
        served = self._engine.models.resolve_cached(request.model).served
        return _Reply(text, reply.finish == "length", read_token_counts(usage), served or model)

    async def _wait_for_server(
        self,
        work: Callable[[], Coroutine[Any, Any, _R]],
        cancel: asyncio.Event,
        report_wait: ReportWait,
    ) -> _R:
        waits = 0
        while True:
            try:
                return await run_cancellable(cancel, work())
            except TEMPORARY_ERRORS as error:
                seconds = _WAIT_SECONDS[min(waits, len(_WAIT_SECONDS) - 1)]
                waits += 1
                await report_wait(error, seconds)
                await run_cancellable(cancel, asyncio.sleep(seconds))


@dataclass(frozen=True, slots=True)
class _Reply:
    text: str
    is_cut: bool
    tokens: TokenCounts
    model: str


@dataclass(frozen=True, slots=True)
class _Correction:
    """A response that was invalid, and why."""

    response: str
    reason: str


def _build_request(
    model: str | None, context: AssembledContext, tier: TierConfig, limit: int, correction: _Correction | None = None
) -> ChatRequest:
    messages: list[dict[str, Json]] = [
        {"role": "system", "content": context.system_prompt},
        {"role": "user", "content": context.user_prompt},
    ]
    if correction is not None:
        messages.append({"role": "assistant", "content": correction.response})
        text = f"The response is invalid: {correction.reason}. Respond again, completely, in the required form."
        messages.append({"role": "user", "content": text})
    body: dict[str, Json] = {
        "messages": [*messages], "max_tokens": limit, "stream": True, "stream_options": {"include_usage": True},
    }  # fmt: skip
    body |= tier.sampling
    if tier.thinking is not None:
        body["chat_template_kwargs"] = {"enable_thinking": tier.thinking}
    if model is not None:
        body["model"] = model
    return ChatRequest(body, tuple(messages), model, stream=True, include_usage=True, limit=limit, is_converted=True)


def _with_tool(request: ChatRequest, schema: JsonObject) -> ChatRequest:
    parameters = schema if is_object(schema) and schema.get("type") == "object" else {"type": "object", **schema}
    tool = ToolSpec(_TOOL, parameters, "Respond with the requested value.")
    function: JsonObject = {"name": tool.name, "description": tool.description, "parameters": parameters}
    choice: JsonObject = {"type": "function", "function": {"name": tool.name}}
    body = {**request.body, "tools": [{"type": "function", "function": function}], "tool_choice": choice}
    return replace(request, body=body, tools=(tool,), tool_choice=ToolChoice("required", (tool.name,)))
