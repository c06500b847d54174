"""Recommended sampling values through the application: off, on, and for an unknown model."""

from __future__ import annotations

import pytest

from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.core.chat import ChatRequest
from forge_proxy.core.guardrails import GuardPolicy
from forge_proxy.core.sampling import Recommendation, SamplingPolicy, UnsupportedModelError
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.config import EngineConfig
from forge_proxy.engine.events import Event, SamplingRecommended
from forge_proxy.engine.sampling import Sampling, SamplingOverride
from forge_proxy.wire.clients.chat_completions.request import decode_request
from tests.api.admin.world import ADMIN, error, world
from tests.api.test_mistakes import ASK, RIGHT
from tests.fakes.says import Said
from tests.fakes.scripted import JsonDict, ScriptedHttp, StillClock

KNOWN = (Recommendation(family="Scripted", match="scripted", values={"temperature": 0.6, "top_k": 20}, source="here"),)


async def asked(body: JsonDict, defaults: str, *script: Said) -> tuple[list[JsonDict], list[Event]]:
    """Return the bodies that the model server receives for a request, and the observed events."""
    http, heard = ScriptedHttp(script), list[Event]()
    sampling = Sampling(heard.append, KNOWN, SamplingPolicy.model_validate({"defaults": defaults}))
    engine = Engine(
        EngineConfig(OpenAICompatible("http://scripted", http), StillClock(), heard.append, sampling=sampling)
    )
    request: ChatRequest = decode_request(body)
    for _ in script:
        async for _ in engine.answer(request, GuardPolicy(max_retries=0), request_id="test"):
            pass
    return http.asked, heard


@pytest.mark.parametrize("body", [ASK, {"messages": [{"role": "user", "content": "hi"}]}], ids=["guarded", "passed on"])
async def test_omitted_sampling_values_are_filled_in_if_enabled(body: JsonDict) -> None:
    (on,), _ = await asked({**body, "top_k": 5}, "on", RIGHT)
    (off,), _ = await asked({**body, "top_k": 5}, "off", RIGHT)

    assert (on["temperature"], on["top_k"]) == (0.6, 5)
    assert "temperature" not in off


async def test_an_unused_recommendation_is_logged_once() -> None:
    _, heard = await asked(ASK, "off", RIGHT, RIGHT)

    assert [event for event in heard if isinstance(event, SamplingRecommended)] == [
        SamplingRecommended("scripted", "Scripted", "here")
    ]


def test_a_model_without_a_recommendation_is_an_error() -> None:
    sampling = Sampling(lambda _: None, KNOWN, SamplingPolicy(defaults="on"))

    with pytest.raises(UnsupportedModelError, match=r"'other'; available: Scripted\. Set sampling\.defaults to off"):
        sampling.values_for("other")


async def test_the_recommendations_are_shown_and_switched_at_run_time() -> None:
    async with world(RIGHT) as client:
        before = (await client.get(f"{ADMIN}/sampling")).json()
        answered = await client.post("/v1/chat/completions", json=ASK)
        switched = (await client.put(f"{ADMIN}/sampling", json={"defaults": "on"})).json()
        refused = await client.post("/v1/chat/completions", json=ASK)

    assert (before["policy"]["defaults"], switched["policy"]["defaults"]) == ("off", "on")
    assert {"family", "match", "values", "source"} == set(before["recommendations"][0])
    assert answered.status_code == 200
    assert error(refused) == (400, "unsupported_model", None)


@pytest.mark.parametrize(
    ("defaults", "values"),
    [("off", {"temperature": 0.1}), ("on", {"temperature": 0.1, "top_k": 20})],
)
def test_values_set_for_a_model_take_precedence_over_recommendations(defaults: str, values: JsonDict) -> None:
    policy = SamplingPolicy.model_validate({"defaults": defaults})
    own = {
        "fast": SamplingOverride({"temperature": 0.1}, known_as="Scripted-4B-Q8"),
        "odd": SamplingOverride({"top_k": 1}, "odd"),
    }
    heard: list[Event] = []
    sampling = Sampling(heard.append, KNOWN, policy, own)

    assert sampling.values_for("fast") == values
    assert sampling.values_for("odd") == {"top_k": 1}
    assert heard == []
