"""Records for each model how many retries of an invalid call became valid, free ones and constrained ones.

`constrain_retries: auto` derives from it whether the first retry is constrained already. The retries of plain text are
recorded by `text_history`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cachetools import FIFOCache

from forge_proxy.core.errors import UnknownModel
from forge_proxy.core.guardrails.turn import Turn

MIN_RETRIES = 8
"""Minimum number of retries of a kind before they count as evidence."""
MIN_VALID_SHARE = 0.5
"""Free retries of which fewer become valid fail: three of them still fail in one request of eight."""
FREE_INTERVAL = 20
"""If the first retry is constrained, one retry in this many is still free, to keep the figures up to date."""
_CACHE_SIZE = 256
"""Maximum number of models; a server without a model list accepts any name that a client sends."""


@dataclass(frozen=True, slots=True)
class RetryRecord:
    """The retries of one model's invalid calls, and how many of them became valid."""

    free: int = 0
    free_valid: int = 0
    constrained: int = 0
    constrained_valid: int = 0

    @property
    def is_constrained(self) -> bool:
        """Whether the figures suffice to constrain first retries, except for one in `FREE_INTERVAL`."""
        if self.free < MIN_RETRIES or self.free_valid >= MIN_VALID_SHARE * self.free:
            return False
        is_better = self.constrained_valid * self.free > self.free_valid * self.constrained
        return self.constrained < MIN_RETRIES or is_better

    def should_constrain(self) -> bool:
        """Whether the next first retry should be constrained."""
        return self.is_constrained and (self.free + self.constrained) % FREE_INTERVAL != FREE_INTERVAL - 1

    def with_retry(self, *, constrained: bool, valid: bool) -> RetryRecord:
        """Return the figures after one more retry."""
        if constrained:
            return replace(self, constrained=self.constrained + 1, constrained_valid=self.constrained_valid + valid)
        return replace(self, free=self.free + 1, free_valid=self.free_valid + valid)


class RetryHistory:
    """The figures of each model since the daemon started. Requests without a model's name share one entry."""

    def __init__(self) -> None:
        self._records: FIFOCache[str, RetryRecord] = FIFOCache(_CACHE_SIZE)

    @property
    def records(self) -> Mapping[str, RetryRecord]:
        """Figures by the model's name."""
        return self._records

    def record(self, model: str | None, *, constrained: bool, valid: bool) -> None:
        """Record a retry of an invalid call, and whether its response was valid."""
        self._records[model or ""] = self._of(model).with_retry(constrained=constrained, valid=valid)

    def adapt(self, turn: Turn, model: str | None) -> Turn:
        """Return the turn of a retry, constrained if the model's free retries fail and the policy is `auto`."""
        is_undecided = turn.policy.constrain_retries == "auto" and not turn.constrains_decoding
        if is_undecided and turn.retries_invalid_call and self._of(model).should_constrain():
            return replace(turn, constrains_decoding=True)
        return turn

    def forget(self, model: str | None = None) -> None:
        """Reset the figures of this model, or of all. Raises `UnknownModel`."""
        if model is None:
            self._records.clear()
        elif self._records.pop(model, None) is None:
            raise UnknownModel(model, list(self._records))

    def _of(self, model: str | None) -> RetryRecord:
        return self._records.get(model or "", RetryRecord())
