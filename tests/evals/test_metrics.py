"""The figures of runs."""

from __future__ import annotations

import pytest

from forge_proxy.core.rates import Rate
from forge_proxy.evals.metrics import Price, compute_metrics
from tests.evals.records import record, unfinished


def test_a_run_without_an_end_counts_for_the_score_and_not_for_the_accuracy() -> None:
    metrics = compute_metrics(
        [record(run=0), record(run=1, accuracy=False, wrong="no"), unfinished(run=2), unfinished(run=3)]
    )

    assert (metrics.score, metrics.accuracy, metrics.completeness) == (Rate(1, 4), Rate(1, 2), Rate(2, 4))


def test_efficiency_and_waste_are_those_of_runs_that_came_to_an_end() -> None:
    metrics = compute_metrics(
        [record(iterations=4), record(iterations=2), record(iterations=1), unfinished(iterations=15)]
    )

    assert metrics.efficiency == pytest.approx((0.5 + 1 + 1) / 3)
    assert metrics.wasted == pytest.approx((2 + 0 + 0) / 3)


def test_the_rest_are_averages_of_all_runs() -> None:
    one = record(seconds=1.0, retry_nudges=2, step_nudges=1, tool_errors=3, compactions=(1, 2), input_tokens=100)
    metrics = compute_metrics([one, unfinished(seconds=2.0, prerequisite_nudges=2)])

    assert (metrics.seconds, metrics.retry_nudges, metrics.step_nudges) == (1.5, 1.0, 0.5)
    assert (metrics.prerequisite_nudges, metrics.tool_errors, metrics.compacted) == (1.0, 1.5, Rate(1, 2))
    assert (metrics.input_tokens, metrics.output_tokens) == (100, None)  # an unknown count is not 0


def test_of_no_runs_nothing_is_known() -> None:
    metrics = compute_metrics([])

    assert (metrics.score.value, metrics.efficiency, metrics.seconds) == (None, None, None)


def test_a_run_costs_its_tokens_by_the_price_of_a_million() -> None:
    records = [record(run=run, input_tokens=2_000 * run, output_tokens=100) for run in (1, 3)]

    assert compute_metrics(records).cost(Price.parse("1/5")) == pytest.approx(0.0045)
    assert compute_metrics([record()]).cost(Price.parse("1/5")) is None


@pytest.mark.parametrize("text", ["", "1", "1/", "/5", "a/b", "-1/5", "1/inf", "nan/1"])
def test_an_invalid_price_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="expected INPUT/OUTPUT"):
        Price.parse(text)
