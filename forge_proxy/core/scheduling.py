"""Whose turn it is among models of which one at a time is loaded. Pure: `core/queueing.py` asks it whom to let in.

A model keeps its turn while it is asked, until another one has been waited for as long as `swap_after`; then nobody is
let in to it any more, and as soon as its answers are done the next one is loaded. The models that are waited for take
turns, so with n models at most n - 1 turns go before that of any of them, however much is asked of the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

_FIRST_BACKOFF = 5.0
_LONGEST_BACKOFF = 300.0
"""Seconds: somebody may have freed memory, or put the right file there."""


@dataclass(frozen=True, slots=True)
class LoadFailure:
    """A model could not be loaded, so often in a row. It is not tried again before `until`."""

    why: str
    times: int
    until: float


@dataclass(frozen=True, slots=True)
class ModelSchedule:
    """The turns as they stand. Times are seconds of one clock."""

    swap_after: float
    """Seconds, more than 0: a turn has to let somebody in."""
    loaded: str | None = None
    """The model that has the turn."""
    since: float | None = None
    """When it let in the first request of its turn; None before that."""
    waited: tuple[tuple[str, float], ...] = ()
    """The models that somebody waits for, and since when, the next one first. The loaded one may be among them."""
    failures: Mapping[str, LoadFailure] = field(default_factory=dict[str, LoadFailure])

    @property
    def next(self) -> str | None:
        """The model that has the next turn; None where nobody waits for another one."""
        return next((model for model, _ in self.waited if model != self.loaded), None)

    def admits(self, model: str, now: float) -> bool:
        """Whether a request of this model may be let in, as far as turns go."""
        return model == self.loaded and not self._is_over(now)

    def letting_in(self, now: float) -> ModelSchedule:
        """A request of the loaded model is let in."""
        return replace(self, since=now) if self.since is None else self

    def wanting(self, model: str, now: float) -> ModelSchedule:
        """Somebody waits for this model."""
        if any(model == other for other, _ in self.waited):
            return self
        return replace(self, waited=(*self.waited, (model, now)))

    def unwanting(self, model: str) -> ModelSchedule:
        """Nobody waits for this model any more."""
        return replace(self, waited=tuple(one for one in self.waited if one[0] != model))

    def turning(self, model: str | None) -> ModelSchedule:
        """This model is loaded now, or none is. The one before stands behind all who wait, and behind that this one."""
        if model == self.loaded:
            return self
        moved = [one for last in (self.loaded, model) for one in self.waited if one[0] == last]
        kept = tuple(one for one in self.waited if one not in moved)
        failures = {name: failure for name, failure in self.failures.items() if name != model}
        return replace(self, loaded=model, since=None, waited=(*kept, *moved), failures=failures)

    def failing(self, model: str, why: str, now: float) -> ModelSchedule:
        """This model could not be loaded: it is left alone for a while, each time twice as long."""
        before = self.failures.get(model)
        times = before.times + 1 if before else 1
        pause = min(_FIRST_BACKOFF * 2 ** min(times - 1, 10), _LONGEST_BACKOFF)
        return replace(self, failures={**self.failures, model: LoadFailure(why, times, now + pause)})

    def forgiving(self) -> ModelSchedule:
        """Every model may be tried again at once."""
        return replace(self, failures={})

    def refusal(self, model: str, now: float) -> LoadFailure | None:
        """Why a request of this model is not to wait; None where it may."""
        failure = self.failures.get(model)
        return failure if failure and model != self.loaded and now < failure.until else None

    def _is_over(self, now: float) -> bool:
        if self.since is None:
            return False
        latest = now - self.swap_after
        return self.since <= latest and any(model != self.loaded and came <= latest for model, came in self.waited)
