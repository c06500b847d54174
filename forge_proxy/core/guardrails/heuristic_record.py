"""The statistics of one heuristic on one model, and the decision that follows from them."""

from __future__ import annotations

from dataclasses import dataclass, replace

MIN_CORRECTIONS = 8
"""Minimum number of corrections before the statistics decide."""
MIN_EFFECTIVE_SHARE = 0.1
"""Minimum share of corrections that must have been effective for a heuristic to stay on."""
SAMPLE_INTERVAL = 20
"""Once a heuristic is off, one case in this many is still corrected, to keep the measured share up to date."""


@dataclass(frozen=True, slots=True)
class HeuristicRecord:
    """Statistics of one heuristic on one model.

    A correction is effective if it led to a new call whose result the client sent and which was not an error, or to
    another final answer.
    """

    cases: int = 0
    """Responses to which the heuristic applied, corrected or not."""
    corrections: int = 0
    effective: int = 0

    @property
    def share(self) -> float | None:
        """The share of corrections that were effective; None if there were none."""
        return self.effective / self.corrections if self.corrections else None

    @property
    def is_off(self) -> bool:
        """Whether the heuristic is off for this model, except for one case in `SAMPLE_INTERVAL`."""
        return self.corrections >= MIN_CORRECTIONS and self.effective < MIN_EFFECTIVE_SHARE * self.corrections

    def should_correct(self) -> bool:
        """Whether the next case should be corrected."""
        return not self.is_off or self.cases % SAMPLE_INTERVAL == SAMPLE_INTERVAL - 1

    def with_accepted(self) -> HeuristicRecord:
        """Return the statistics after a case that was accepted immediately."""
        return replace(self, cases=self.cases + 1)

    def with_correction(self, effective: bool) -> HeuristicRecord:
        """Return the statistics after a corrected case."""
        return HeuristicRecord(self.cases + 1, self.corrections + 1, self.effective + effective)

    def with_result(self) -> HeuristicRecord:
        """Return the statistics after the result of a call that a correction led to."""
        return replace(self, effective=min(self.effective + 1, self.corrections))

    def with_wasted_work(self) -> HeuristicRecord:
        """Return the statistics after the work of an effective correction turned out to be ineffective."""
        return replace(self, effective=max(self.effective - 1, 0))
