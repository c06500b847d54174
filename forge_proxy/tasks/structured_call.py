"""Structured calls: a schema in, a validated value or a typed error out, on every model server.

The method follows the model's capability card: `response_format` with the schema, else one required tool with all
guardrails, else the schema in the prompt. The response is background work: it waits for interactive requests.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from forge_proxy.core.capability import CapabilityCard
from forge_proxy.core.errors import ForgeError
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.requests.records import RequestOrigin, TokenCounts
from forge_proxy.core.stream import Chunk
from forge_proxy.core.tasks.models import AssembledContext, CallMethod, CapabilityTier, LLMCallResult, ResponseForm
from forge_proxy.core.tasks.operations import ResponseKind
from forge_proxy.core.tasks.prompt.assemble import CHARACTERS_PER_TOKEN
from forge_proxy.core.tasks.records import CallForm, CallTerms
from forge_proxy.core.tasks.responses import ResponseCutOff, ResponseInvalid
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.ports import Clock
from forge_proxy.tasks.config import TierConfig, TiersConfig
from forge_proxy.tasks.model_cards import ModelCards, ModelUntested
from forge_proxy.tasks.model_replies import ModelReply, ReplyReader
from forge_proxy.tasks.request_bodies import (
    ResponseCorrection,
    build_body,
    limit_to_schema,
    to_streamed_request,
)
from forge_proxy.tasks.server_wait import ServerWait

T = TypeVar("T")
SendRequest: TypeAlias = Callable[[int, JsonObject], Awaitable[ModelReply]]
"""Returns the reply to the request with this number, from 1, and this body."""
_ORIGIN = RequestOrigin("tasks", program="forge-proxy-task", priority="background")
_BLOCKS = CallForm("blocks", "prompt")
_DEFAULT_OUTPUT = 4096
"""Tokens of a response if the window is not known."""


@dataclass(frozen=True, slots=True)
class StructuredCall(Generic[T]):
    """A prompt, and the form of the response to it. `parse` raises `ResponseInvalid`."""

    context: AssembledContext
    """Contains the schema if the method requires it (`add_schema_note`)."""
    tier: CapabilityTier
    form: ResponseForm
    schema: JsonObject
    parse: Callable[[str], T]
    request_id: str
    client: str
    """The client for which the request waits: slots are shared fairly among clients."""
    model: str | None = None
    """Replaces the model of the tier."""
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
    """The cost of a call so far, which also counts if the call ends without a valid response."""

    tokens: TokenCounts = field(default_factory=TokenCounts)
    requests: int = 0
    model: str = ""
    seconds: float = 0.0


class StructuredCaller:
    """Sends structured calls to models."""

    def __init__(self, engine: Engine, tiers: TiersConfig, clock: Clock) -> None:
        self._engine = engine
        self._tiers = tiers
        self._clock = clock
        self._cards = ModelCards(engine)

    def model_of(self, tier: CapabilityTier, model: str | None = None) -> str | None:
        """Return the model of a tier; None for the daemon's default model."""
        return model or self._tiers.of(tier).model

    async def form_of(self, tier: CapabilityTier, model: str | None, kind: ResponseKind) -> CallForm | None:
        """Return how responses of a kind are requested; None if the model has to be tested for it (`test`)."""
        config = self._tiers.of(tier)
        if kind == "files" and config.response_form == "blocks":
            return _BLOCKS
        if config.method != "auto" and (kind != "files" or config.response_form == "json"):
            return CallForm("json", config.method)
        try:
            card = await self._cards.find(self.model_of(tier, model))
        except ModelUntested:
            return None
        return _form_for(config, kind, card)

    async def test(self, tier: CapabilityTier, model: str | None, kind: ResponseKind, wait: ServerWait) -> CallForm:
        """Test the model of a tier, unless that was done before, and return how responses of a kind are requested.

        Waits for the model server. Raises `Cancelled`.
        """
        card = await wait.run(lambda: self._cards.find_or_test(self.model_of(tier, model)))
        return _form_for(self._tiers.of(tier), kind, card)

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
        body = build_body(self.model_of(tier, model), context, TierConfig(), 1)
        try:
            return (await self._engine.measure(to_streamed_request(body))).tokens
        except ForgeError:  # the call itself will raise it
            return context.tokens

    async def find_terms(self, wanted: StructuredCall[Any], method: CallMethod, wait: ServerWait) -> CallTerms:
        """Return how a call is made. Waits for the model server. Raises `Cancelled`."""
        window = await wait.run(lambda: self.window_of(wanted.tier, wanted.model))
        return CallTerms(method, self.output_of(wanted.tier, window), window)

    async def call(
        self, wanted: StructuredCall[T], terms: CallTerms, send: SendRequest, costs: CallCosts
    ) -> StructuredResult[T]:
        """Return a valid response. An invalid one is retried once with the reason, and a truncated one with more room.

        Equal replies lead to equal requests. The costs are added to `costs`. Raises `ResponseInvalid`,
        `ResponseCutOff`, and what `send` raises.
        """
        limit, correction, number = terms.limit, None, 0
        while True:
            number += 1
            costs.requests = number
            reply = await send(number, self._build_body(wanted, terms, limit, correction))
            costs.tokens += reply.tokens
            costs.model, costs.seconds = reply.model, costs.seconds + reply.seconds
            if reply.is_cut:
                larger = _find_more_room(wanted, limit, terms.window)
                if number > 1 or larger is None:
                    raise ResponseCutOff(limit)
                limit = larger
                continue
            try:
                value = wanted.parse(reply.text)
            except ResponseInvalid as error:
                if number > 1:
                    raise
                correction = ResponseCorrection(reply.text, str(error), _find_room(wanted, limit, terms.window, reply))
            else:
                result = LLMCallResult(
                    reply.text, wanted.tier, reply.model, wanted.form, costs.tokens.prompt, costs.tokens.cached,
                    costs.tokens.completion, costs.seconds,
                )  # fmt: skip
                return StructuredResult(value, result, number)

    async def send(self, wanted: StructuredCall[Any], wait: ServerWait, number: int, body: JsonObject) -> ModelReply:
        """Send a request (`SendRequest`). While the model server is unavailable, waits for it.

        Raises `Cancelled`, and the other errors of the engine.
        """
        began = self._clock.now()
        reader = await wait.run(lambda: self._stream(wanted, number, body))
        return self.read_reply(wanted, reader, self._clock.now() - began)

    def read_reply(self, wanted: StructuredCall[Any], reader: ReplyReader, seconds: float) -> ModelReply:
        """Return the reply to a request of a call. The request took `seconds`."""
        served = self._engine.models.resolve_cached(self.model_of(wanted.tier, wanted.model)).served
        return reader.reply(served, seconds)

    def _build_body(
        self, wanted: StructuredCall[Any], terms: CallTerms, limit: int, correction: ResponseCorrection | None
    ) -> JsonObject:
        model = self.model_of(wanted.tier, wanted.model)
        body = build_body(model, wanted.context, self._tiers.of(wanted.tier), limit, correction)
        return limit_to_schema(body, terms.method, wanted.schema)

    async def _stream(self, wanted: StructuredCall[Any], number: int, body: JsonObject) -> ReplyReader:
        reader = ReplyReader()
        answer = self._engine.answer(
            to_streamed_request(body),
            self._engine.policies.guardrails,
            request_id=f"{wanted.request_id}.{number}",
            client=wanted.client,
            origin=_ORIGIN,
        )
        async with aclosing(answer) as events:
            async for event in events:
                if isinstance(event, Chunk):
                    if event.deltas:
                        wanted.on_first_token()
                    reader.add(event)
        return reader


def _form_for(config: TierConfig, kind: ResponseKind, card: CapabilityCard | None) -> CallForm:
    is_limited = card is not None and card.constraint in ("grammar", "schema")
    if kind == "files" and config.response_form == "auto" and not is_limited:
        return _BLOCKS
    if config.method != "auto":
        return CallForm("json", config.method)
    if is_limited:
        return CallForm("json", "response_format")
    return CallForm("json", "tool" if card is not None and card.calls else "prompt")


def _find_room(wanted: StructuredCall[Any], limit: int, window: int | None, reply: ModelReply) -> int | None:
    """Return the characters that a correction of a reply may have; None if the window is not known."""
    if window is None:
        return None
    written = len(reply.text) / reply.tokens.completion if reply.tokens.completion else CHARACTERS_PER_TOKEN
    return max(0, int((window - wanted.context.tokens - limit) * min(written, CHARACTERS_PER_TOKEN)))


def _find_more_room(wanted: StructuredCall[Any], limit: int, window: int | None) -> int | None:
    """Return a larger limit for a response; None if there is no more room."""
    if window is None:
        return 2 * limit
    room = window - wanted.context.tokens
    return min(2 * limit, room) if room > limit else None
