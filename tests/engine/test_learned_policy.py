"""What is learned about the heuristics: per model, bounded, by what became of each correction."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.core.errors import UnknownModel
from forge_proxy.core.guardrails import FinalAnswer, GuardPolicy, Outcome, Turn, open_turn
from forge_proxy.core.guardrails.heuristics import Heuristic
from forge_proxy.core.guardrails.learned_policy import LearnedPolicy
from forge_proxy.core.guardrails.turn import Fault
from forge_proxy.core.messages import ToolCall
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.config import EngineConfig
from forge_proxy.wire.clients.chat_completions.request import decode_request
from tests.api.test_mistakes import ASK
from tests.fakes.says import Said
from tests.fakes.scripted import JsonDict, ScriptedHttp, StillClock

TEXT, REPEATS, EARLY_END, GROUNDING = Heuristic
FAULTS = {
    TEXT: Fault.TEXT_ONLY,
    REPEATS: Fault.REPEATED_CALL,
    EARLY_END: Fault.EARLY_END,
    GROUNDING: Fault.UNGROUNDED_ANSWER,
}
PLAIN = FinalAnswer("Hm.", (), "stop", Outcome.RETRIED, 2, is_plain_text=True)
CALL = ToolCall("get_weather", '{"city": "Paris", "days": 3}', "c1")
USER: JsonDict = ASK["messages"][0]


def opened(messages: list[JsonDict], *faults: Fault, text: str | None = None) -> Turn:
    """The turn of a request with these messages, after attempts with these faults."""
    body: JsonDict = {**ASK, "messages": messages}
    turn = open_turn(decode_request(body), GuardPolicy(), request_id="r", nudge_text=True)
    assert turn is not None
    return replace(turn, faults=faults, first_text=text)


def called(call: ToolCall = CALL) -> FinalAnswer:
    return FinalAnswer(None, (call,), "tool_calls", Outcome.RETRIED, 2)


def with_result(messages: list[JsonDict], content: Any = "sunny", call: ToolCall = CALL) -> list[JsonDict]:
    """The messages of the client's next request."""
    made = {"id": call.id, "type": "function", "function": {"name": call.tool, "arguments": call.arguments}}
    return [
        *messages,
        {"role": "assistant", "content": None, "tool_calls": [made]},
        {"role": "tool", "tool_call_id": call.id, "content": content},
    ]


def taught(*models: str, heuristic: Heuristic = TEXT) -> LearnedPolicy:
    """A policy after eight corrections in vain of each model."""
    learned = LearnedPolicy()
    for model in models:
        for _ in range(8):
            learned.record_answer(model, opened([USER], FAULTS[heuristic]), PLAIN if heuristic is TEXT else called())
    return learned


def figures(learned: LearnedPolicy, heuristic: Heuristic = TEXT) -> tuple[int, int, int]:
    record = learned.record_of("m", heuristic)
    return record.cases, record.corrections, record.effective


@pytest.mark.parametrize(
    ("policy", "after_eight"),
    [
        ({}, "accept"),
        ({"text_responses": "nudge"}, "retry"),
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

    assert learned.effective_setting(GuardPolicy.model_validate(policy), "chatty", TEXT) == after_eight
    assert learned.effective_setting(GuardPolicy(), "new", TEXT) == "retry"


@pytest.mark.parametrize(
    ("heuristic", "setting", "switch"), [(REPEATS, "on_repeat", "repeats"), (EARLY_END, "on_early_end", "early_end")]
)
def test_each_heuristic_has_a_setting_and_a_switch(heuristic: Heuristic, setting: str, switch: str) -> None:
    def corrects(learned: LearnedPolicy, **policy: object) -> bool:
        return heuristic in learned.select_heuristics(GuardPolicy.model_validate(policy), "m").corrected

    off = taught("m", heuristic=heuristic)

    assert corrects(LearnedPolicy())
    assert not corrects(off)
    assert corrects(off, **{setting: "retry"})
    assert not corrects(LearnedPolicy(), **{setting: "accept"})
    assert not corrects(LearnedPolicy(), enabled={switch: False})


def test_a_corrected_answer_is_effective_if_it_agrees_with_the_results() -> None:
    learned = LearnedPolicy()
    turn = opened(with_result([USER], '{"order": "ORD-4711"}'), Fault.UNGROUNDED_ANSWER)

    learned.record_answer("m", turn, FinalAnswer("It is ORD-4712.", (), "stop", Outcome.RETRIED, 3))
    assert (learned.record_of("m", GROUNDING).corrections, learned.record_of("m", GROUNDING).effective) == (1, 0)
    learned.record_answer("m", turn, FinalAnswer("It is ORD-4711.", (), "stop", Outcome.RETRIED, 2))
    assert (learned.record_of("m", GROUNDING).corrections, learned.record_of("m", GROUNDING).effective) == (2, 1)


def test_a_model_that_never_follows_the_correction_of_an_answer_is_soon_left_alone() -> None:
    learned = LearnedPolicy()
    turn = opened(with_result([USER], '{"order": "ORD-4711"}'), Fault.UNGROUNDED_ANSWER, Fault.UNGROUNDED_ANSWER)
    insists = FinalAnswer("It is ORD-4712.", (), "stop", Outcome.RETRIED, 3)

    for _ in range(8):
        assert GROUNDING in learned.select_heuristics(GuardPolicy(), "m").corrected
        learned.record_answer("m", turn, insists)
    active = learned.select_heuristics(GuardPolicy(), "m")
    assert GROUNDING not in active.corrected
    assert GROUNDING in active.counted


def test_in_evals_every_case_is_corrected_whatever_other_runs_have_shown() -> None:
    learned = taught("m", heuristic=REPEATS)
    assert REPEATS not in learned.select_heuristics(GuardPolicy(), "m").corrected
    learned.is_enabled = False

    assert learned.select_heuristics(GuardPolicy(), "m").corrected == frozenset(Heuristic)


def test_models_and_heuristics_have_separate_statistics() -> None:
    learned = taught("chatty")

    assert TEXT in learned.select_heuristics(GuardPolicy(), "new").corrected
    active = learned.select_heuristics(GuardPolicy(), "chatty")
    assert (active.corrected, active.counted) == ({REPEATS, EARLY_END, GROUNDING}, set(Heuristic))


def test_statistics_can_be_reset_for_one_model_or_all() -> None:
    learned = taught("one", "two", "three")

    learned.forget("two")
    with pytest.raises(UnknownModel, match="one, three"):
        learned.forget("two")
    with pytest.raises(UnknownModel, match="none"):
        learned.forget("one", [EARLY_END])
    left = list(learned.records)
    learned.forget()

    assert left == ["one", "three"]
    assert not learned.records


def test_the_number_of_models_and_of_awaited_results_is_bounded() -> None:
    learned = LearnedPolicy()
    for number in range(3000):
        learned.record_answer(f"model {number}", opened([USER], Fault.TEXT_ONLY), called(replace(CALL, id=str(number))))
        learned.record_answer("in use", opened([USER], Fault.TEXT_ONLY), PLAIN)

    learned.select_heuristics(GuardPolicy(), "model 0", with_result([USER], call=replace(CALL, id="0")))

    assert len(learned.records) == 256
    assert learned.record_of("in use", TEXT).corrections == 3000
    assert learned.record_of("model 0", TEXT).effective == 0


@pytest.mark.parametrize("heuristic", [TEXT, EARLY_END])
@pytest.mark.parametrize(
    ("content", "effective"),
    [
        ("sunny", 1),
        ([{"type": "text", "text": "sunny"}], 1),
        ("Error: no such city", 0),
        ([{"type": "text", "text": '{"error": "busy"}'}], 0),
    ],
)
def test_a_correction_is_effective_once_the_client_sends_a_usable_result(
    heuristic: Heuristic, content: Any, effective: int
) -> None:
    learned = LearnedPolicy()
    learned.record_answer("m", opened([USER], FAULTS[heuristic]), called())
    before = figures(learned, heuristic)

    for _ in range(2):  # the result is in each later request
        learned.select_heuristics(GuardPolicy(), "m", with_result([USER], content))

    assert before == (1, 1, 0)
    assert figures(learned, heuristic) == (1, 1, effective)


@pytest.mark.parametrize(
    "messages",
    [
        [USER, {"role": "assistant", "content": "Hm."}, {"role": "user", "content": "Well?"}],
        with_result([USER], call=replace(CALL, id="other")),
        with_result([USER, USER, USER, USER, USER]),
        with_result([USER])[:-1],
    ],
    ids=["the call is dropped", "another call", "the call of another conversation", "no result"],
)
def test_a_call_whose_result_never_arrives_was_thrown_away(messages: list[JsonDict]) -> None:
    learned = LearnedPolicy()
    learned.record_answer("m", opened([USER], Fault.TEXT_ONLY), called())

    learned.select_heuristics(GuardPolicy(), "m", messages)

    assert figures(learned) == (1, 1, 0)


def test_a_result_counts_although_the_user_adds_a_message_and_the_client_a_text_before_the_call() -> None:
    learned = LearnedPolicy()
    learned.record_answer("m", opened([USER], Fault.TEXT_ONLY), called())
    messages = with_result([USER, {"role": "assistant", "content": "Calling."}])

    learned.select_heuristics(GuardPolicy(), "m", [*messages, {"role": "user", "content": "And?"}])

    assert figures(learned) == (1, 1, 1)


def test_work_is_wasted_if_the_model_returns_to_the_text_that_was_retried() -> None:
    learned = LearnedPolicy()
    text = "It is sunny in Paris for three days."
    learned.record_answer("m", opened([USER], Fault.TEXT_ONLY, text=text), called())
    later = with_result([USER])
    first = learned.select_heuristics(GuardPolicy(), "m", later)
    went_on = figures(learned)

    learned.record_answer("m", opened(later, text=None), replace(PLAIN, text="In Paris it is sunny for three days."))
    last = learned.select_heuristics(GuardPolicy(), "m", [*later, {"role": "assistant", "content": text}])

    assert (went_on, figures(learned)) == ((1, 1, 1), (2, 1, 0))
    assert TEXT in first.corrected
    assert TEXT not in last.corrected  # not again after this message of the user


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("I'll look up the weather now.", "I'll look up the weather now."),
        ("I will look up the weather.", "It is sunny in Paris."),
        ("Ok.", "Ok."),
    ],
    ids=["announcements", "an announcement and the answer", "too short to tell"],
)
def test_work_is_not_wasted_if_the_model_announced_it(first: str, second: str) -> None:
    learned = LearnedPolicy()
    learned.record_answer("m", opened([USER], Fault.TEXT_ONLY, text=first), called())
    later = with_result([USER])
    learned.select_heuristics(GuardPolicy(), "m", later)

    learned.record_answer("m", opened(later), replace(PLAIN, text=second))

    assert figures(learned)[2] == 1


def test_a_corrected_repeat_is_effective_if_the_model_answers_or_makes_another_call_but_not_if_it_insists() -> None:
    messages = with_result([USER])
    turn = opened(messages, Fault.REPEATED_CALL)
    other = replace(CALL, arguments='{"city": "Oslo", "days": 3}', id="c2")
    learned = LearnedPolicy()

    learned.record_answer("m", turn, called(replace(CALL, id="c2")))
    insisted = figures(learned, REPEATS)
    learned.record_answer("m", turn, replace(PLAIN, is_plain_text=False))
    answered = figures(learned, REPEATS)
    learned.record_answer("m", turn, called(other))
    learned.select_heuristics(GuardPolicy(), "m", with_result(messages, call=other))

    assert (insisted, answered, figures(learned, REPEATS)) == ((1, 1, 0), (2, 2, 1), (3, 3, 2))


def test_an_early_end_is_retried_again_only_after_its_call_returned_a_result_and_three_times_at_most() -> None:
    learned = LearnedPolicy()
    messages: list[JsonDict] = [USER]
    retried: list[bool] = []
    for number in range(5):
        call = replace(CALL, id=f"c{number}")
        retried.append(EARLY_END in learned.select_heuristics(GuardPolicy(), "m", messages).corrected)
        if retried[-1]:
            learned.record_answer("m", opened(messages, Fault.EARLY_END), called(call))
        messages = with_result(messages, call=call)
    failed = LearnedPolicy()
    failed.record_answer("m", opened([USER], Fault.EARLY_END), called())

    assert retried == [True, True, True, False, False]
    assert EARLY_END not in failed.select_heuristics(GuardPolicy(), "m", with_result([USER], "Error: busy")).corrected
    again = [*with_result([USER], "Error: busy"), USER]
    assert EARLY_END in failed.select_heuristics(GuardPolicy(), "m", again).corrected


async def test_the_first_request_uses_the_statistics_of_the_served_model() -> None:
    http = ScriptedHttp([Said(text="Hm.")] * 2)
    engine = Engine(EngineConfig(OpenAICompatible("http://scripted", http), StillClock(), lambda _: None))
    for _ in range(8):
        engine.learned.record_answer("scripted", opened([USER], Fault.TEXT_ONLY), PLAIN)
    request = decode_request({**ASK, "model": "alias"})

    async for _event in engine.answer(request, GuardPolicy(), request_id="r"):
        pass

    assert len(http.asked) == 1  # the text is accepted, not retried
