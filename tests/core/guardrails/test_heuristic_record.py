"""Whether a heuristic stays on is learned from how often its corrections were effective."""

from __future__ import annotations

import pytest

from forge_proxy.core.guardrails.heuristic_record import HeuristicRecord


def after(corrections: int, effective: int) -> HeuristicRecord:
    record = HeuristicRecord()
    for number in range(corrections):
        record = record.with_correction(number < effective)
    return record


@pytest.mark.parametrize(
    ("corrections", "effective", "stays_on"),
    [
        (0, 0, True),
        (7, 0, True),
        (8, 0, False),
        (8, 1, True),
        (10, 1, True),
        (11, 1, False),
        (20, 2, True),
        (21, 2, False),
    ],
)
def test_a_heuristic_stays_on_while_one_correction_in_ten_is_effective(
    corrections: int, effective: int, stays_on: bool
) -> None:
    record = after(corrections, effective)

    assert record.should_correct() is stays_on
    assert record.is_off is not stays_on


def test_once_a_heuristic_is_off_one_case_in_twenty_is_still_corrected() -> None:
    record = after(8, 0)
    corrected: list[int] = []

    for number in range(100):
        if record.should_correct():
            corrected.append(number)
            record = record.with_correction(effective=False)
        else:
            record = record.with_accepted()

    assert corrected == [11, 31, 51, 71, 91]


def test_a_model_that_improves_is_corrected_again() -> None:
    record = after(8, 0)

    record = record.with_correction(effective=True)

    assert (record.cases, record.corrections, record.effective, record.share) == (9, 9, 1, 1 / 9)
    assert record.should_correct()


def test_a_later_result_makes_a_correction_effective_and_wasted_work_undoes_it() -> None:
    record = after(8, 0).with_result()

    assert (record.effective, record.should_correct()) == (1, True)
    assert record.with_wasted_work() == after(8, 0)
    assert after(8, 0).with_wasted_work() == after(8, 0)
    assert after(1, 1).with_result() == after(1, 1)
