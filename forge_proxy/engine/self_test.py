"""Finds out by a few short questions how a model on its server is best told of tools, and what else works there."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, replace

from forge_proxy.core.capability import CapabilityCard
from forge_proxy.core.chat import ChatRequest, ModelCall, ToolChoice, ToolSpec
from forge_proxy.core.dialect import Dialect, ToolMode
from forge_proxy.core.errors import BackendError, BackendTimeout, UnreadCall
from forge_proxy.core.guardrails import GuardPolicy, Outcome, open_turn
from forge_proxy.core.guardrails.check import check
from forge_proxy.core.guardrails.extraction import Extraction, read
from forge_proxy.core.guardrails.nudges import Problem
from forge_proxy.core.guardrails.policy import Switches
from forge_proxy.core.jsontypes import Json, JsonObject, is_integer, is_object
from forge_proxy.core.stream import Completion, CompletionBuilder, Reply
from forge_proxy.engine.compat import CompatibleBackend
from forge_proxy.engine.events import Event
from forge_proxy.engine.ports import Backend

_SECONDS = 60.0
"""For each question: a small model on slow hardware answers in less."""
_LIMIT = 512
"""Completion tokens of an answer: room for some thinking, an end to running on."""
_REFUSALS = frozenset({400, 422, 500, 501})
"""Statuses with which servers refuse tools. Others are about something else, of which no card can be made."""
_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
}
_TOOL = ToolSpec("get_weather", _SCHEMA, "get the weather")
_ONE = "Please get the weather with city Paris and days 3."
_TWO = "Please get the weather with city Paris and days 3, and the weather with city Rome and days 2."
_WORDS = "Hello."
_MODES: tuple[ToolMode, ...] = ("native", "prompt")
_POLICY = GuardPolicy(enabled=Switches(respond=False))


@dataclass(frozen=True, slots=True)
class _Heard:
    """An answer, and the calls in it that are valid."""

    completion: Completion
    reading: Extraction
    valid: int

    @property
    def is_native(self) -> bool:
        """Whether the server read a call itself."""
        return any(reply.calls for reply in self.completion.replies)

    @property
    def markup(self) -> str | None:
        """The form of the first call that stood in text."""
        forms = [mark.detail for mark in self.reading.marks if mark.kind is Outcome.RESCUED]
        return forms[0].rpartition(" at ")[0] if forms else None

    def read_from_cache(self) -> bool | None:
        """Whether most of its prompt was; by llama-server's timings, else by the usage."""
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
    """The card of a model; half a dozen short generations, one after another. Raises `BackendFault`."""
    return await _SelfTest(backend, model, dialect).run()


class _SelfTest:
    def __init__(self, backend: Backend, model: str, dialect: Dialect) -> None:
        self._url = backend.url
        self._model = model
        # Roles and schemas are written as the server takes them, which is not what the test is about.
        self._ways: dict[ToolMode, CompatibleBackend] = {
            mode: CompatibleBackend(backend, _unheard, replace(dialect, tools=mode)) for mode in _MODES
        }

    async def run(self) -> CapabilityCard:
        native = await self._ask("native", _ONE)
        if native is not None and native.valid:
            return await self._card("native", "it called a tool that was offered in the request", native)
        reach = await self._tools_reach_prompt(native)
        prompted = await self._ask("prompt", _ONE)
        if prompted is not None and prompted.valid:
            why = {None: "it called only a tool that was told in the prompt", False: "its chat template drops tools"}
            because = "the server takes no tools" if native is None else why.get(reach, why[None])
            return await self._card("prompt", because, prompted, reach=reach)
        if native is None or reach is False:
            return await self._card(
                "prompt", "tools in the request do not reach it; it made no call", None, reach=reach
            )
        return await self._card("native", "it made no call either way", None, reach=reach)

    async def _card(
        self, mode: ToolMode, because: str, heard: _Heard | None, *, reach: bool | None = None
    ) -> CapabilityCard:
        card = CapabilityCard(
            self._model,
            "prompt" if mode == "prompt" else "native",
            because,
            calls=heard is not None,
            markup=heard.markup if heard else None,
            tools_reach_prompt=True if heard and mode == "native" else reach,
        )
        if heard is None:
            return card
        again = await self._ask(mode, _ONE)
        both = await self._ask(mode, _TWO)
        forced = await self._ask(mode, _WORDS, choice="required") if mode == "native" else None
        return replace(
            card,
            prefix_cache=again.read_from_cache() if again else None,
            parallel=both.valid > 1 if both else None,
            required=None if mode == "prompt" else forced is not None and bool(forced.reading.calls),
        )

    async def _tools_reach_prompt(self, offered: _Heard | None) -> bool | None:
        """Whether a prompt is longer with tools than without."""
        if offered is None:
            return None
        with_tools, without = self._call(_ONE), self._call(_ONE, tools=False)
        try:
            way = self._ways["native"]
            counted = await way.count_tokens(with_tools), await way.count_tokens(without)
        except BackendError:
            counted = None, None
        if None in counted:
            bare = await self._ask("native", _ONE, tools=False)
            counted = offered.prompt_tokens, bare.prompt_tokens if bare else None
        more, less = counted
        return more > less if more is not None and less is not None else None

    async def _ask(self, mode: ToolMode, words: str, *, choice: str = "auto", tools: bool = True) -> _Heard | None:
        """The answer to one question; None where the server refuses it."""
        call = self._call(words, choice=choice, tools=tools)
        builder = CompletionBuilder()
        try:
            async with asyncio.timeout(_SECONDS), aclosing(self._ways[mode].stream(call)) as chunks:
                async for chunk in chunks:
                    builder.add(chunk)
        except TimeoutError as exc:  # which says nothing of what it can
            raise BackendTimeout(self._url, _SECONDS) from exc
        except UnreadCall:  # a call that its own parser failed at is an answer, if no valid one
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
        reading = read(turn, completion.replies[0] if completion.replies else Reply())
        valid = sum(not isinstance(check(turn, one), Problem) for one in reading.calls)
        return _Heard(completion, reading, valid)

    def _call(self, words: str, *, choice: str = "auto", tools: bool = True) -> ModelCall:
        messages: list[JsonObject] = [{"role": "user", "content": words}]
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
        return ModelCall(request, stream=True, usage=True)


def _unheard(_: Event) -> None:
    """What the test learns of the server is learned again by the requests that need it."""
