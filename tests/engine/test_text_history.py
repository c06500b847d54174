"""The statistics of plain-text responses: per model, bounded, and used from the first request."""

from __future__ import annotations

import pytest

from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.core.errors import UnknownModel
from forge_proxy.core.guardrails import FinalAnswer, GuardPolicy, Outcome
from forge_proxy.core.guardrails.text_history import TextResponseHistory
from forge_proxy.core.guardrails.turn import Fault
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.config import EngineConfig
from forge_proxy.wire.clients.chat_completions.request import decode_request
from tests.fakes.says import Said
from tests.fakes.scripted import ScriptedHttp, StillClock

TEXT = FinalAnswer("Hm.", (), "stop", Outcome.RETRIED, 2)


def taught(*models: str) -> TextResponseHistory:
    """A history in which each of these models was nudged eight times without a call."""
    learned = TextResponseHistory()
    for model in models:
        for _ in range(8):
            learned.record_answer(model, (Fault.TEXT,), TEXT)
    return learned


@pytest.mark.parametrize(
    ("policy", "after_eight"),
    [
        ({}, "accept"),
        ({"text_responses": "nudge"}, "nudge"),
        ({"text_responses": "nudge", "max_text_nudges": 0}, "accept"),
        ({"text_responses": "nudge", "max_retries": 0}, "accept"),
        ({"text_responses": "nudge", "enabled": {"retry": False}}, "accept"),
        ({"text_responses": "accept"}, "accept"),
    ],
)
def test_the_effective_setting_follows_the_policy_and_the_statistics(
    policy: dict[str, object], after_eight: str
) -> None:
    learned = taught("chatty")

    assert learned.effective_setting(GuardPolicy.model_validate(policy), "chatty") == after_eight
    assert learned.effective_setting(GuardPolicy(), "new") == "nudge"


def test_models_have_separate_statistics() -> None:
    learned = taught("chatty")

    assert [learned.should_nudge(GuardPolicy(), model) for model in ("chatty", "new")] == [False, True]


def test_statistics_can_be_reset_for_one_model_or_all() -> None:
    learned = taught("one", "two", "three")

    learned.forget("two")
    with pytest.raises(UnknownModel, match="one, three"):
        learned.forget("two")
    left = list(learned.records)
    learned.forget()

    assert left == ["one", "three"]
    assert not learned.records


def test_the_number_of_models_is_bounded() -> None:
    learned = TextResponseHistory()
    for number in range(300):
        learned.record_answer(f"model {number}", (Fault.TEXT,), TEXT)
        learned.record_answer("in use", (Fault.TEXT,), TEXT)

    assert len(learned.records) == 256
    assert learned.records["in use"].nudges == 300


async def test_the_first_request_uses_the_statistics_of_the_served_model() -> None:
    http = ScriptedHttp([Said(text="Hm.")] * 2)
    engine = Engine(EngineConfig(OpenAICompatible("http://scripted", http), StillClock(), lambda _: None))
    for _ in range(8):
        engine.text_history.record_answer("scripted", (Fault.TEXT,), TEXT)
    tool = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
    request = decode_request({"model": "alias", "messages": [{"role": "user", "content": "Hi."}], "tools": [tool]})

    async for _event in engine.answer(request, GuardPolicy(), request_id="r"):
        pass

    assert len(http.asked) == 1  # the text is accepted, not retried
