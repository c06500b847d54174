"""Metrics of the runs of a series or of one of its scenarios."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from forge_proxy.core.rates import Rate
from forge_proxy.evals.record import RunRecord


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a million input and output tokens, in any currency."""

    input: float
    output: float

    @classmethod
    def parse(cls, text: str) -> Price:
        """Parse `INPUT/OUTPUT`, such as `1/5`: the prices of a million tokens. Raises `ValueError`."""
        read, slash, written = text.partition("/")
        try:
            price = cls(float(read), float(written))
        except ValueError:
            price = None
        if price is None or not slash or not (0 <= price.input < math.inf and 0 <= price.output < math.inf):
            raise ValueError(f"{text}: expected INPUT/OUTPUT, the prices of a million tokens, such as 1/5")
        return price


@dataclass(frozen=True, slots=True)
class Metrics:
    """Metrics of some runs. `efficiency` and `wasted` average completed runs; other averages include all runs."""

    score: Rate
    """Correct runs among all runs."""
    accuracy: Rate
    """Correct runs among completed runs."""
    completeness: Rate
    """Completed runs among all runs."""
    efficiency: float | None
    """Responses needed per response made; 1 is perfect. A run with fewer than needed counts as 1."""
    wasted: float | None
    """Responses beyond those needed, per run."""
    seconds: float | None
    retry_nudges: float | None
    step_nudges: float | None
    prerequisite_nudges: float | None
    tool_errors: float | None
    compacted: Rate
    """Runs whose history was compacted."""
    input_tokens: float | None
    output_tokens: float | None

    def cost(self, price: Price) -> float | None:
        """Return the cost of a run; None if the model server does not report tokens. Ignores cache discounts."""
        if self.input_tokens is None or self.output_tokens is None:
            return None
        return (self.input_tokens * price.input + self.output_tokens * price.output) / 1e6


def compute_metrics(records: Sequence[RunRecord]) -> Metrics:
    """Compute the metrics of runs."""
    ended = [one for one in records if one.completeness]
    correct = sum(one.is_correct for one in records)
    return Metrics(
        score=Rate(correct, len(records)),
        accuracy=Rate(correct, len(ended)),
        completeness=Rate(len(ended), len(records)),
        efficiency=_mean([min(1.0, one.ideal / max(1, one.iterations)) for one in ended]),
        wasted=_mean([one.wasted for one in ended]),
        seconds=_mean([one.seconds for one in records]),
        retry_nudges=_mean([one.retry_nudges for one in records]),
        step_nudges=_mean([one.step_nudges for one in records]),
        prerequisite_nudges=_mean([one.prerequisite_nudges for one in records]),
        tool_errors=_mean([one.tool_errors for one in records]),
        compacted=Rate(sum(bool(one.compactions) for one in records), len(records)),
        input_tokens=_mean([one.input_tokens for one in records if one.input_tokens is not None]),
        output_tokens=_mean([one.output_tokens for one in records if one.output_tokens is not None]),
    )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
