"""Determines by a few short requests how to present tools to a model on its server, and what else works there."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, replace

from forge_proxy.core.backend_errors import BackendError, BackendTimeout, UnreadCall
from forge_proxy.core.capability import CapabilityCard
from forge_proxy.core.chat import ChatRequest, Constraint, ModelCall, ToolChoice, ToolSpec
from forge_proxy.core.dialect import Dialect, ToolMode
from forge_proxy.core.guardrails import GuardPolicy, Outcome, open_turn
from forge_proxy.core.guardrails.check import check
from forge_proxy.core.guardrails.extraction import Extraction, extract
from forge_proxy.core.guardrails.nudges import Problem
from forge_proxy.core.guardrails.policy import Switches
from forge_proxy.core.jsontypes import Json, JsonObject, is_integer, is_object
from forge_proxy.core.stream import Completion, CompletionBuilder, Reply
from forge_proxy.engine.compat import CompatibleBackend
from forge_proxy.engine.events import Event
from forge_proxy.engine.ports import Backend

_SECONDS = 60.0
"""Timeout of each request: a small model on slow hardware needs less."""
_LIMIT = 512
"""Completion tokens of a response: room for some reasoning, a bound on endless output."""
_REFUSALS = frozenset({400, 422, 500, 501})
"""Statuses with which servers reject tools. After any other error nothing is known of the model, so it gets no card."""
_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
}
_TOOL = ToolSpec("get_weather", _SCHEMA, "get the weather")
_ONE = "Please get the weather with city Paris and days 3."
_TWO = "Please get the weather with city Paris and days 3, and the weather with city Rome and days 2."
_GREETING = "Hello."
_MODES: tuple[ToolMode, ...] = ("native", "prompt")
_POLICY = GuardPolicy(enabled=Switches(respond=False))


@dataclass(frozen=True, slots=True)
class _TestResponse:
    """A response, and the number of valid calls in it."""

    completion: Completion
    extraction: Extraction
    valid: int

    @property
    def markup(self) -> str | None:
        """The format of the first call that the rescue parser recovered from text."""
        forms = [mark.detail for mark in self.extraction.interventions if mark.kind is Outcome.RESCUED]
        return forms[0].rpartition(" at ")[0] if forms else None

    def read_from_cache(self) -> bool | None:
        """Return whether most of the prompt came from the cache, by llama-server's timings, else by the usage."""
        match self.completion.head.get("timings"):
            case {"cache_n": int(cached), "prompt_n": int(read_now)}:
                return cached > read_now
            case _:
                details = (self.completion.usage or {}).get("prompt_tokens_details")
        cached = details.get("cached_tokens") if is_object(details) else None
        prompt = self.prompt_tokens
        return cached * 2 > prompt if is_integer(cached) and prompt is not None else None

    @property
    def prompt_tokens(self) -> int | None:
        tokens = (self.completion.usage or {}).get("prompt_tokens")
        return tokens if is_integer(tokens) else None


async def self_test(backend: Backend, model: str, dialect: Dialect) -> CapabilityCard:
    """Return the capability card of a model. Takes about seven short generations in sequence. Raises `BackendFault`."""
    return await _SelfTest(backend, model, dialect).run()


class _SelfTest:
    def __init__(self, backend: Backend, model: str, dialect: Dialect) -> None:
        self._url = backend.url
        self._model = model
        # Roles and schemas are adapted to the server as for every request; they are not what is tested.
        self._backends: dict[ToolMode, CompatibleBackend] = {
            mode: CompatibleBackend(backend, _ignore_event, replace(dialect, tools=mode)) for mode in _MODES
        }

    async def run(self) -> CapabilityCard:
        native = await self._ask("native", _ONE)
        if native is not None and native.valid:
            return await self._card("native", "it called a tool that was offered in the request", native)
        reach = await self._tools_reach_prompt(native)
        prompted = await self._ask("prompt", _ONE)
        if prompted is not None and prompted.valid:
            reasons = {
                None: "it called only a tool that was described in the prompt",
                False: "its chat template drops tools",
            }
            reason = "the server does not support tools" if native is None else reasons.get(reach, reasons[None])
            return await self._card("prompt", reason, prompted, reach=reach)
        if native is None or reach is False:
            return await self._card(
                "prompt",
                "tools in the request do not reach the model, and it made no call with tools in the prompt",
                None,
                reach=reach,
            )
        return await self._card(
            "native", "it made no call with tools in the request or in the prompt", None, reach=reach
        )

    async def _card(
        self, mode: ToolMode, reason: str, response: _TestResponse | None, *, reach: bool | None = None
    ) -> CapabilityCard:
        card = CapabilityCard(
            self._model,
            "prompt" if mode == "prompt" else "native",
            reason,
            calls=response is not None,
            markup=response.markup if response else None,
            tools_reach_prompt=True if response and mode == "native" else reach,
        )
        if response is None:
            return card
        again = await self._ask(mode, _ONE)
        both = await self._ask(mode, _TWO)
        forced = await self._ask(mode, _GREETING, choice="required") if mode == "native" else None
        limited = await self._ask(mode, _GREETING, limited=True)
        return replace(
            card,
            constraint=self._constraint(mode, limited, forced),
            prefix_cache=again.read_from_cache() if again else None,
            parallel=both.valid > 1 if both else None,
            required=None if mode == "prompt" else forced is not None and bool(forced.extraction.calls),
        )

    def _constraint(self, mode: ToolMode, limited: _TestResponse | None, forced: _TestResponse | None) -> Constraint:
        """Return what led to a call where plain text would suffice."""
        constraint = self._backends[mode].find_constraint(self._call(_GREETING, limited=True))
        if limited is not None and limited.valid and constraint != "none":
            return constraint
        return "tool_choice" if forced is not None and forced.valid else "none"

    async def _tools_reach_prompt(self, offered: _TestResponse | None) -> bool | None:
        """Return whether a prompt is longer with tools than without."""
        if offered is None:
            return None
        with_tools, without = self._call(_ONE), self._call(_ONE, tools=False)
        try:
            backend = self._backends["native"]
            counted = await backend.count_tokens(with_tools), await backend.count_tokens(without)
        except BackendError:
            counted = None, None
        if None in counted:
            bare = await self._ask("native", _ONE, tools=False)
            counted = offered.prompt_tokens, bare.prompt_tokens if bare else None
        more, less = counted
        return more > less if more is not None and less is not None else None

    async def _ask(
        self, mode: ToolMode, text: str, *, choice: str = "auto", tools: bool = True, limited: bool = False
    ) -> _TestResponse | None:
        """Return the response to one request; None if the server rejects it.

        If `limited`, the schema of a call constrains the response, unless the server rejects that.
        """
        call = self._call(text, choice=choice, tools=tools, limited=limited)
        builder = CompletionBuilder()
        try:
            async with asyncio.timeout(_SECONDS), aclosing(self._backends[mode].stream(call)) as chunks:
                async for chunk in chunks:
                    builder.add(chunk)
        except TimeoutError as exc:  # a timeout does not show what the model can do
            raise BackendTimeout(self._url, _SECONDS) from exc
        except UnreadCall:  # a call that the server's parser failed on is a response, though not a valid one
            pass
        except BackendError as refusal:
            if refusal.status not in _REFUSALS:
                raise
            return None
        completion = builder.completion()
        request = call.request if tools else replace(call.request, tools=(_TOOL,))
        turn = open_turn(request, _POLICY, request_id="self-test", nudge_text=False)
        if turn is None:
            return None
        extraction = extract(turn, completion.replies[0] if completion.replies else Reply())
        valid = sum(not isinstance(check(turn, one), Problem) for one in extraction.calls)
        return _TestResponse(completion, extraction, valid)

    def _call(self, text: str, *, choice: str = "auto", tools: bool = True, limited: bool = False) -> ModelCall:
        messages: list[JsonObject] = [{"role": "user", "content": text}]
        body: dict[str, Json] = {
            "model": self._model, "messages": [*messages], "temperature": 0, "max_tokens": _LIMIT, "stream": True,
        }  # fmt: skip
        if tools:
            function: Json = {"name": _TOOL.name, "description": _TOOL.description, "parameters": _SCHEMA}
            body |= {"tools": [{"type": "function", "function": function}]}
        if choice == "required":
            body["tool_choice"] = choice
        request = ChatRequest(
            body, tuple(messages), self._model, (_TOOL,) if tools else (),
            ToolChoice("required") if choice == "required" else ToolChoice(), stream=True, limit=_LIMIT,
        )  # fmt: skip
        return ModelCall(request, stream=True, usage=True, required_tools=(_TOOL,) if limited else ())


def _ignore_event(_: Event) -> None:
    """Drop the events: the requests that need the same adaptations report them again."""
