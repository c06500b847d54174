"""`tool_choice` and `parallel_tool_calls` hold, also on a backend that ignores them."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from forge_proxy.api.app import create_app
from forge_proxy.api.config import ServerConfig
from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.core.guardrails import GuardPolicy
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.config import EngineConfig
from tests.api.test_mistakes import ASK, PARIS, PARIS_TEXT, RIGHT, WEATHER, both
from tests.fakes.says import Said
from tests.fakes.scripted import JsonDict, ScriptedHttp, StillClock, chat

MAIL: JsonDict = {"type": "function", "function": {"name": "send_email", "parameters": {"type": "object"}}}
TWO: JsonDict = {**ASK, "tools": [WEATHER, MAIL]}
MAILS = Said(calls=(("send_email", '{"to": "a"}'),))
CUT = Said(calls=(("get_weather", '{"city": "Par'),), finish="length")
AS_JSON = Said(text=f'{{"name": "get_weather", "arguments": {PARIS_TEXT}}}')


def named(name: str) -> JsonDict:
    return {"type": "function", "function": {"name": name}}


def allowed(mode: str) -> JsonDict:
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [named("get_weather")]}}


DEMANDS = pytest.mark.parametrize("choice", ["required", named("get_weather"), allowed("required")], ids=str)
NARROWS = pytest.mark.parametrize("choice", [named("get_weather"), allowed("required"), allowed("auto")], ids=str)
UNSATISFIED = (502, "tool_choice_unsatisfied")


@DEMANDS
@pytest.mark.parametrize(
    "said",
    [
        Said(text="No."),
        Said(text="No.", finish="length"),
        Said(text="", finish="stop"),
        Said(reasoning="I must not."),
        CUT,
        Said(calls=(("nonsense", "{}"),)),
        Said(calls=(("get_weather", "not JSON"),)),
        Said(text="<tool_call>{"),
    ],
    ids=["text", "endless text", "nothing", "thought", "cut", "unknown", "no arguments", "broken"],
)
async def test_if_a_call_is_required_nothing_else_is_delivered(choice: Any, said: Said) -> None:
    answer = await chat([said] * 4, {**TWO, "tool_choice": choice})

    assert (answer.status, answer.error and answer.error["code"], len(answer.asked)) == (*UNSATISFIED, 4)
    assert "4 attempts" in (answer.error or {})["message"]


async def test_clients_are_asked_not_to_retry_what_the_daemon_has_retried() -> None:
    backend = OpenAICompatible("http://scripted", ScriptedHttp([Said(text="No.")] * 4))
    app = create_app(Engine(EngineConfig(backend, StillClock(), lambda _: None)), backend, ServerConfig())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        response = await client.post("/v1/chat/completions", json={**TWO, "tool_choice": "required"})

    assert response.status_code == 502
    assert (response.headers["x-should-retry"], response.headers["x-forge-attempts"]) == ("false", "4")


@DEMANDS
async def test_a_stream_without_the_required_call_has_no_text_and_ends_with_the_error(choice: Any) -> None:
    http = ScriptedHttp([Said(text="No.")] * 4)
    backend = OpenAICompatible("http://scripted", http)
    app = create_app(
        Engine(EngineConfig(backend, StillClock(), lambda _: None)), backend, ServerConfig(stream_errors="event")
    )
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        response = await client.post("/v1/chat/completions", json={**TWO, "tool_choice": choice, "stream": True})

    assert len(http.asked) == 4
    assert '"code":"tool_choice_unsatisfied"' in response.text
    assert "No." not in response.text
    assert "[DONE]" not in response.text


@both
@NARROWS
async def test_a_call_of_an_excluded_tool_is_never_delivered(stream: bool, choice: Any) -> None:
    both_at_once = Said(calls=(("send_email", "{}"), ("get_weather", PARIS_TEXT)))

    right = await chat([MAILS, RIGHT], {**TWO, "tool_choice": choice}, stream=stream)
    never = await chat([MAILS] * 4, {**TWO, "tool_choice": choice})
    beside = await chat([both_at_once] * 4, {**TWO, "tool_choice": choice}, stream=stream)

    assert (right.calls, right.attempts) == ([("get_weather", PARIS)], 2)
    assert never.status == 502
    assert (beside.calls, beside.outcome) == ([("get_weather", PARIS)], "exhausted")


@both
async def test_with_allowed_tools_in_auto_mode_text_is_accepted(stream: bool) -> None:
    policy = GuardPolicy(text_responses="accept")

    answer = await chat([Said(text="It is.")], {**TWO, "tool_choice": allowed("auto")}, stream=stream, policy=policy)

    assert (answer.text, answer.calls, answer.outcome) == ("It is.", [], "clean")
    assert [tool["function"]["name"] for tool in answer.asked[0]["tools"]] == ["get_weather", "send_email", "respond"]


@both
async def test_the_last_retry_constrains_decoding_to_a_call(stream: bool) -> None:
    body = {**TWO, "tool_choice": allowed("required")}

    answer = await chat([Said(text="No.")] * 3 + [AS_JSON], body, stream=stream)

    assert (answer.calls, answer.attempts) == ([("get_weather", PARIS)], 4)
    assert all("response_format" not in asked for asked in answer.asked[:3])
    last = answer.asked[3]
    schema = last["response_format"]["json_schema"]["schema"]
    assert [call["properties"]["name"] for call in schema["anyOf"]] == [{"const": "get_weather"}]
    assert (last["tools"], last["tool_choice"]) == (TWO["tools"], "none")  # the prompt stays the one that was read


@both
@pytest.mark.parametrize("first", [MAILS, CUT, Said(text="No. " * 20, finish="length")], ids=["other", "cut", "long"])
async def test_decoding_is_constrained_at_once_if_a_plain_retry_cannot_succeed(stream: bool, first: Said) -> None:
    answer = await chat([first, AS_JSON], {**TWO, "tool_choice": named("get_weather")}, stream=stream)

    assert (answer.calls, answer.attempts) == ([("get_weather", PARIS)], 2)
    assert "response_format" in answer.asked[1]


@pytest.mark.parametrize("status", [400, 422, 500])
async def test_a_backend_without_constrained_decoding_is_retried_without_it(status: int) -> None:
    refusal = Said(status=status, body={"error": {"message": "response_format is not supported"}})

    answer = await chat([MAILS, refusal, RIGHT], {**TWO, "tool_choice": named("get_weather")})

    assert (answer.calls, answer.attempts) == ([("get_weather", PARIS)], 2)
    assert ["response_format" in asked for asked in answer.asked] == [False, True, False]


@both
async def test_endless_text_is_cut_if_a_call_is_required(stream: bool) -> None:
    endless = Said(text="".join(f"step {number}, " for number in range(2000)), piece=100)

    answer = await chat([endless, AS_JSON], {**ASK, "tool_choice": "required"}, stream=stream, cut=5000)

    assert (answer.calls, answer.attempts) == ([("get_weather", PARIS)], 2)
    shown = answer.asked[1]["messages"][-2]
    assert (shown["role"], len(shown["content"])) == ("assistant", 1000)


@both
async def test_corrections_that_do_not_fit_into_the_context_are_omitted(stream: bool) -> None:
    overflow = Said(
        status=400,
        body={"error": {"code": 400, "type": "exceed_context_size_error", "message": "exceeds the context size"}},
    )

    answer = await chat([Said(text="No."), overflow, RIGHT], {**ASK, "tool_choice": "required"}, stream=stream)

    assert (answer.calls, answer.attempts) == ([("get_weather", PARIS)], 2)
    assert answer.asked[2]["messages"] == ASK["messages"]


@both
@pytest.mark.parametrize("choice", ["auto", "required"])
async def test_one_call_is_delivered_without_parallel_tool_calls(stream: bool, choice: str) -> None:
    marked = f'<tool_call>{{"name": "get_weather", "arguments": {PARIS_TEXT}}}</tool_call>'
    body = {**TWO, "tool_choice": choice, "parallel_tool_calls": False}

    native = await chat([Said(calls=(("get_weather", PARIS_TEXT), ("send_email", "{}")))], body, stream=stream)
    rescued = await chat([Said(text=marked + '\n<tool_call>{"name": "send_email", "arguments": {}}</tool_call>')], body)

    assert native.calls == rescued.calls == [("get_weather", PARIS)]


@both
async def test_with_tool_choice_none_calls_are_dropped_and_text_stays(stream: bool) -> None:
    said = Said(text="It is sunny.", calls=(("get_weather", PARIS_TEXT),))

    answer = await chat([said], {**ASK, "tool_choice": "none"}, stream=stream)

    assert (answer.text, answer.calls, answer.finish) == ("It is sunny.", [], "stop")
    assert (answer.outcome, answer.attempts, len(answer.asked)) == ("repaired", 1, 1)
    assert answer.marks == "repaired get_weather: call: dropped, tool_choice is none"


@both
async def test_with_tool_choice_none_a_call_without_text_becomes_text(stream: bool) -> None:
    answer = await chat([RIGHT], {**ASK, "tool_choice": "none"}, stream=stream)

    assert (answer.text, answer.calls, answer.finish) == (f"get_weather{PARIS_TEXT}", [], "stop")


async def test_a_custom_tool_that_is_not_offered_cannot_be_chosen() -> None:
    answer = await chat([], {**ASK, "tool_choice": {"type": "custom", "custom": {"name": "shell"}}})

    assert (answer.status, answer.error and answer.error["param"]) == (400, "tool_choice")


async def test_a_server_that_accepts_no_object_gets_tool_choice_as_a_string() -> None:
    words = "Invalid tool_choice type: 'object'. Supported string values: none, auto, required"
    refusal = Said(status=400, body={"error": words})

    answer = await chat([refusal, RIGHT], {**TWO, "tool_choice": named("get_weather")})

    assert answer.calls == [("get_weather", PARIS)]
    assert [asked["tool_choice"] for asked in answer.asked] == [named("get_weather"), "required"]
