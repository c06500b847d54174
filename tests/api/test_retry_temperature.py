"""Retries of an invalid call may have a lower temperature than the first attempt, if the client sets none."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.core.guardrails import GuardPolicy
from forge_proxy.core.guardrails.policy import AUTO_RETRY_TEMPERATURE
from forge_proxy.core.sampling import Recommendation, SamplingPolicy
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.config import EngineConfig
from forge_proxy.engine.sampling import Sampling
from forge_proxy.wire.clients.chat_completions.request import decode_request
from tests.api.test_constrained_retries import AS_JSON, INVALID, MALFORMED, UNKNOWN
from tests.api.test_mistakes import ASK, PARIS, RIGHT, both
from tests.fakes.says import Said
from tests.fakes.scripted import ScriptedHttp, StillClock, chat


@both
@pytest.mark.parametrize("first", [UNKNOWN, INVALID, MALFORMED], ids=["unknown", "invalid", "malformed"])
async def test_a_retry_of_an_invalid_call_has_the_temperature_of_the_settings(stream: bool, first: Said) -> None:
    answer = await chat([first, RIGHT], ASK, stream=stream, policy=GuardPolicy(retry_temperature=0.1))

    assert [asked.get("temperature") for asked in answer.asked] == [None, 0.1]


async def test_auto_is_the_temperature_that_was_measured() -> None:
    answer = await chat([UNKNOWN, RIGHT], ASK)

    assert [asked.get("temperature") for asked in answer.asked] == [None, AUTO_RETRY_TEMPERATURE]


@pytest.mark.parametrize("policy", [{}, {"retry_temperature": 0.1}], ids=["auto", "number"])
async def test_the_temperature_of_the_client_stays(policy: Any) -> None:
    answer = await chat([UNKNOWN, RIGHT], {**ASK, "temperature": 0.9}, policy=GuardPolicy(**policy))

    assert [asked["temperature"] for asked in answer.asked] == [0.9, 0.9]


async def test_unset_leaves_the_temperature_to_the_server() -> None:
    answer = await chat([UNKNOWN, RIGHT], ASK, policy=GuardPolicy(retry_temperature="unset"))

    assert all("temperature" not in asked for asked in answer.asked)


async def test_a_retry_of_plain_text_is_as_warm_as_the_first_attempt() -> None:
    answer = await chat([Said(text="Hm."), RIGHT], ASK, policy=GuardPolicy(retry_temperature=0.1))

    assert all("temperature" not in asked for asked in answer.asked)


@pytest.mark.parametrize(("setting", "sent"), [(1.5, 0.6), (0.3, 0.3)])
async def test_a_retry_is_never_warmer_than_the_recommended_temperature(setting: float, sent: float) -> None:
    known = (Recommendation(family="S", match="scripted", values={"temperature": 0.6}, source="here"),)
    sampling = Sampling(lambda _: None, known, SamplingPolicy(defaults="on"))
    http = ScriptedHttp([UNKNOWN, RIGHT])
    backend = OpenAICompatible("http://scripted", http)
    engine = Engine(EngineConfig(backend, StillClock(), lambda _: None, sampling=sampling))
    async for _ in engine.answer(decode_request(ASK), GuardPolicy(retry_temperature=setting), request_id="r"):
        pass

    assert [asked["temperature"] for asked in http.asked] == [0.6, sent]


async def test_a_server_without_sampling_parameters_still_gets_the_constraint() -> None:
    refusal = Said(status=400, body={"error": {"message": "`temperature` does not support 0.2 with this model"}})

    answer = await chat([UNKNOWN, refusal, AS_JSON], ASK, policy=GuardPolicy(constrain_retries="always"))

    assert (answer.calls, answer.attempts) == ([("get_weather", PARIS)], 2)
    assert ["temperature" in asked for asked in answer.asked] == [False, True, False]
    assert "response_format" in answer.asked[2]


@pytest.mark.parametrize("value", [-0.1, 2.1, "cold"])
def test_other_values_are_rejected(value: Any) -> None:
    with pytest.raises(ValidationError):
        GuardPolicy(retry_temperature=value)
