"""What a self-test makes of servers and models of several kinds, and what follows for requests."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from forge_proxy.backends.http import RequestBody
from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.core.backend_errors import BackendFault, BackendUnreachable
from forge_proxy.core.capability import CapabilityCard, read_card
from forge_proxy.core.chat import ChatRequest
from forge_proxy.core.dialect import Dialect
from forge_proxy.core.guardrails import GuardPolicy
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.config import EngineConfig
from forge_proxy.engine.self_test import self_test
from forge_proxy.wire.clients.chat_completions.request import decode_request
from tests.fakes.says import Said
from tests.fakes.scripted import ScriptedHttp, StillClock, whole

JsonDict = dict[str, Any]
PARIS, ROME = '{"city": "Paris", "days": 3}', '{"city": "Rome", "days": 2}'
IN_TEXT = f'{{"name": "get_weather", "arguments": {PARIS}}}'


@dataclass
class Answering(ScriptedHttp):
    """A server that answers as `answer` does."""

    script: Sequence[Said | Exception] = ()
    answer: Callable[[JsonDict], Said | Exception] = lambda _: Said("Hello.")

    def open(self, method: str, url: str, *, body: RequestBody | None = None, **more: Any) -> Any:
        if method == "POST":
            self.script = [*self.script, self.answer(json.loads(whole(body) or b"{}"))]
        return super().open(method, url, body=body, **more)


def told_in_prompt(body: JsonDict) -> bool:
    return "get_weather" in str(body["messages"][0]["content"])


def calls_natively(body: JsonDict) -> Said:
    asked = body["messages"][-1]["content"]
    if not body.get("tools") or ("weather" not in asked and body.get("tool_choice") != "required"):
        return Said("Hello.")
    made = [("get_weather", PARIS), *([("get_weather", ROME)] if "Rome" in asked else [])]
    return Said(calls=tuple(made))


def writes_markup(body: JsonDict) -> Said:
    return Said(f"<tool_call>{IN_TEXT}</tool_call>") if body.get("tools") else Said("Hello.")


def drops_tools(body: JsonDict) -> Said:
    return Said(IN_TEXT) if told_in_prompt(body) else Said("I cannot do that.")


def refuses_tools(body: JsonDict) -> Said:
    if body.get("tools"):
        return Said(status=400, body={"error": {"message": "m does not support tools"}})
    return drops_tools(body)


def has_no_system(body: JsonDict) -> Said:
    if body["messages"][0]["role"] == "system":
        return Said(status=500, body={"error": {"message": "System role not supported"}})
    return refuses_tools(body)


def fails_at_its_own_calls(body: JsonDict) -> Said:
    if body.get("tools"):
        return Said(status=500, body={"error": {"message": "Failed to parse input at pos 3"}})
    return Said("I cannot do that.")


def only_talks(_: JsonDict) -> Said:
    return Said("Hello.")


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (calls_natively, {"tools": "native", "calls": True, "required": True, "parallel": True, "markup": None}),
        (writes_markup, {"tools": "native", "calls": True, "required": True, "parallel": False, "markup": "json"}),
        (
            drops_tools,
            {"tools": "prompt", "calls": True, "required": None, "parallel": False, "tools_reach_prompt": False},
        ),
        (refuses_tools, {"tools": "prompt", "calls": True, "reason": "the server does not support tools"}),
        (has_no_system, {"tools": "prompt", "calls": True, "reason": "the server does not support tools"}),
        (
            fails_at_its_own_calls,
            {"tools": "native", "calls": False, "reason": "it made no call with tools in the request or in the prompt"},
        ),
        (only_talks, {"tools": "prompt", "calls": False, "required": None}),
    ],
)
async def test_a_card_lists_the_capabilities(answer: Callable[[JsonDict], Said], found: JsonDict) -> None:
    backend = OpenAICompatible("http://m", Answering(answer=answer))

    card = await self_test(backend, "m", Dialect())

    said = card.as_json()
    assert {key: said[key] for key in found} == found
    assert read_card(json.loads(json.dumps(said))) == card


@pytest.mark.parametrize(
    ("told", "cached"),
    [
        ({"timings": {"cache_n": 90, "prompt_n": 2}}, True),
        ({"timings": {"cache_n": 0, "prompt_n": 92}}, False),
        ({"usage": {"prompt_tokens": 92, "prompt_tokens_details": {"cached_tokens": 80}}}, True),
        ({"usage": {"prompt_tokens": 92}}, None),
    ],
)
async def test_whether_a_prompt_was_cached_is_as_the_server_tells(told: JsonDict, cached: bool | None) -> None:
    call = {"index": 0, "id": "1", "function": {"name": "get_weather", "arguments": PARIS}}
    events = [
        {"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}], **told},
    ]
    backend = OpenAICompatible("http://m", Answering(answer=lambda _: Said(events=events)))

    assert (await self_test(backend, "m", Dialect())).prefix_cache is cached


@pytest.mark.parametrize(
    "said", [BackendUnreachable("http://m", "refused"), Said(status=429, body={"error": {"message": "slow down"}})]
)
async def test_a_server_that_cannot_be_asked_now_gets_no_card(said: Said | Exception) -> None:
    backend = OpenAICompatible("http://m", Answering(answer=lambda _: said))

    with pytest.raises(BackendFault):
        await self_test(backend, "m", Dialect())


@pytest.mark.parametrize(
    "said", [None, [], {}, {"model": "m"}, {**CapabilityCard("m", "native", "b", True).as_json(), "tools": "x"}]
)
def test_what_is_no_card_is_not_read_as_one(said: Any) -> None:
    assert read_card(said) is None


@dataclass
class Kept:
    """`CardStore` in memory."""

    cards: list[CapabilityCard] = field(default_factory=list[CapabilityCard])

    def load(self) -> Sequence[CapabilityCard]:
        return list(self.cards)

    def keep(self, card: CapabilityCard) -> None:
        self.cards.append(card)


def question() -> ChatRequest:
    function: JsonDict = {"name": "get_weather", "parameters": {"type": "object", "required": ["city"]}}
    tools = [{"type": "function", "function": function}]
    body: JsonDict = {"model": "scripted", "messages": [{"role": "user", "content": "?"}], "tools": tools}
    return decode_request(body)


@pytest.mark.parametrize(
    ("mode", "in_request"), [("auto", False), ("native", True)], ids=["left-open", "set-by-the-user"]
)
async def test_requests_are_encoded_by_the_stored_card_also_after_a_restart(mode: Any, in_request: bool) -> None:
    kept = Kept()
    for _ in range(2):
        http = Answering(answer=drops_tools)
        engine = Engine(
            EngineConfig(
                OpenAICompatible("http://m", http),
                StillClock(),
                lambda _: None,
                dialect=Dialect(tools=mode),
                cards=kept,
            )
        )
        if not kept.cards:
            card = await engine.capabilities.test("scripted")
            assert (card.tools, engine.capabilities.cards) == ("prompt", {"scripted": card})
        async for _event in engine.answer(question(), GuardPolicy(text_responses="accept"), request_id="r"):
            pass

        assert ("tools" in http.asked[-1]) == in_request
        assert engine.capabilities.cards.keys() == {"scripted"}


def limited_by_schema(body: JsonDict) -> Said:
    return Said(IN_TEXT) if "response_format" in body else calls_natively(body)


def refuses_schemas(body: JsonDict) -> Said:
    if "response_format" in body:
        return Said(status=400, body={"error": {"message": "unknown field response_format"}})
    return calls_natively(body)


def limited_by_nothing(body: JsonDict) -> Said:
    return calls_natively({**body, "tool_choice": "auto"})


@pytest.mark.parametrize(
    ("answer", "constraint"),
    [
        (limited_by_schema, "schema"),
        (calls_natively, "tool_choice"),
        (refuses_schemas, "tool_choice"),
        (limited_by_nothing, "none"),
        (only_talks, None),
    ],
)
async def test_a_card_names_what_limits_the_model_to_calls(answer: Callable[[JsonDict], Said], constraint: str) -> None:
    card = await self_test(OpenAICompatible("http://m", Answering(answer=answer)), "m", Dialect())

    assert card.constraint == constraint
    assert read_card(json.loads(json.dumps(card.as_json()))) == card


async def test_retries_are_constrained_in_the_way_that_the_card_names() -> None:
    backend = OpenAICompatible("http://m", http := Answering(answer=calls_natively))
    policy = GuardPolicy(constrain_retries="always")
    engine = Engine(EngineConfig(backend, StillClock(), lambda _: None, guardrails=policy))
    await engine.test("scripted")
    http.answer = lambda body: Said(calls=(("other", "{}"),)) if "tool_choice" not in body else calls_natively(body)
    before = len(http.asked)

    tool = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
    request = decode_request(
        {"model": "scripted", "messages": [{"role": "user", "content": "weather"}], "tools": [tool]}
    )
    async for _event in engine.answer(request, policy, request_id="r"):
        pass

    assert [asked.get("tool_choice") for asked in http.asked[before:]] == [None, "required"]
