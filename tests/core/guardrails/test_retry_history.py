"""When the record of a model's retries constrains already the first one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from forge_proxy.core.chat import ChatRequest, ToolSpec
from forge_proxy.core.errors import UnknownModel
from forge_proxy.core.guardrails import GuardPolicy, Turn, open_turn
from forge_proxy.core.guardrails.retry_history import RetryHistory, RetryRecord
from forge_proxy.core.guardrails.turn import Fault


def retrying(fault: Fault = Fault.BAD_ARGUMENTS, **policy: str) -> Turn:
    """The turn of a first retry."""
    request = ChatRequest({}, tools=(ToolSpec("get_weather"),))
    turn = open_turn(request, GuardPolicy.model_validate(policy), request_id="r", nudge_text=True)
    assert turn is not None
    return replace(turn, attempt=2, retries_left=2, faults=(fault,))


def history(*, free: tuple[int, int] = (0, 0), constrained: tuple[int, int] = (0, 0)) -> RetryHistory:
    """The history of a model with this many (valid, invalid) retries."""
    known = RetryHistory()
    for is_constrained, (valid, invalid) in ((False, free), (True, constrained)):
        for number in range(valid + invalid):
            known.record("m", constrained=is_constrained, valid=number < valid)
    return known


def test_a_model_whose_free_retries_fail_is_constrained_from_the_first_retry() -> None:
    turn = history(free=(1, 7)).adapt(retrying(), "m")

    assert [tool.name for tool in turn.constrained_tools] == ["get_weather", "respond"]


@pytest.mark.parametrize(
    "known",
    [history(free=(0, 7)), history(free=(4, 4)), history(free=(1, 7), constrained=(1, 9)), RetryHistory()],
    ids=["too few", "half succeed", "the constraint does not help", "nothing known"],
)
def test_other_models_stay_free_until_the_last_retry(known: RetryHistory) -> None:
    turn = known.adapt(retrying(), "m")

    assert turn.constrained_tools == ()
    assert replace(turn, retries_left=0).constrained_tools != ()


def test_another_model_is_not_judged_by_this_record() -> None:
    assert history(free=(0, 8)).adapt(retrying(), "other").constrained_tools == ()


@pytest.mark.parametrize("fault", [Fault.TEXT_ONLY, Fault.EMPTY, Fault.CUT, Fault.LOOP])
def test_only_retries_of_invalid_calls_are_constrained(fault: Fault) -> None:
    turn = history(free=(0, 8)).adapt(retrying(fault), "m")

    assert replace(turn, retries_left=0).constrained_tools == ()


def test_a_retry_without_corrections_is_still_one_of_an_invalid_call() -> None:
    turn = replace(retrying(), faults=(Fault.BAD_ARGUMENTS, Fault.NO_ROOM))

    assert history(free=(0, 8)).adapt(turn, "m").constrained_tools != ()


def test_the_first_attempt_is_never_constrained() -> None:
    turn = replace(retrying(constrain_retries="always"), attempt=1, faults=())

    assert history(free=(0, 8)).adapt(turn, "m").constrained_tools == ()


def test_never_overrules_the_record() -> None:
    assert history(free=(0, 8)).adapt(retrying(constrain_retries="never"), "m").constrained_tools == ()


def test_one_retry_in_twenty_stays_free_to_keep_the_record_up_to_date() -> None:
    record, free = RetryRecord(free=8), 0
    for _ in range(200):
        constrained = record.should_constrain()
        free += not constrained
        record = record.with_retry(constrained=constrained, valid=constrained)

    assert free == 10


def test_the_record_of_one_model_or_of_all_can_be_reset() -> None:
    known = history(free=(0, 8))
    known.record("n", constrained=False, valid=True)

    known.forget("n")
    assert list(known.records) == ["m"]
    known.forget()
    assert not known.records
    with pytest.raises(UnknownModel):
        known.forget("m")
