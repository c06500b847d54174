"""The schedule of models of which one at a time is loaded. Pure; `core/queueing.py` consults it before admission.

A model keeps its turn while it receives requests, until requests for another model have waited for `swap_after`. Then
it admits no further request, and the next model is loaded as soon as the running requests finish. Models are served
round-robin: with n models, each waits for at most n - 1 turns, regardless of the load on the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

_FIRST_BACKOFF = 5.0
_LONGEST_BACKOFF = 300.0
"""In seconds. Finite, because memory may have been freed or the missing file added."""


@dataclass(frozen=True, slots=True)
class LoadFailure:
    """A model could not be loaded, `times` times in a row. Loading is not retried before `until`."""

    reason: str
    times: int
    until: float


@dataclass(frozen=True, slots=True)
class ModelSchedule:
    """The state of the schedule. All times are seconds of one clock."""

    swap_after: float
    """Seconds, more than 0, so that each turn admits at least one request."""
    loaded: str | None = None
    """The model that has the turn."""
    since: float | None = None
    """When it admitted the first request of its turn; None before that."""
    waiting: tuple[tuple[str, float], ...] = ()
    """The models that requests wait for, and since when, the next one first. The loaded one may be among them."""
    failures: Mapping[str, LoadFailure] = field(default_factory=dict[str, LoadFailure])

    @property
    def next(self) -> str | None:
        """The model that has the next turn; None if no request waits for another model."""
        return next((model for model, _ in self.waiting if model != self.loaded), None)

    def admits(self, model: str, now: float) -> bool:
        """Whether the schedule admits a request for this model."""
        return model == self.loaded and not self._is_over(now)

    def with_admission(self, now: float) -> ModelSchedule:
        """Return the schedule after a request for the loaded model was admitted."""
        return replace(self, since=now) if self.since is None else self

    def with_waiting(self, model: str, now: float) -> ModelSchedule:
        """Return the schedule after a request began to wait for this model."""
        if any(model == other for other, _ in self.waiting):
            return self
        return replace(self, waiting=(*self.waiting, (model, now)))

    def without_waiting(self, model: str) -> ModelSchedule:
        """Return the schedule after the last request stopped waiting for this model."""
        return replace(self, waiting=tuple(one for one in self.waiting if one[0] != model))

    def with_loaded(self, model: str | None) -> ModelSchedule:
        """Return the schedule with `model` loaded, or none.

        The previous model moves to the end of the waiting ones, and `model` behind it.
        """
        if model == self.loaded:
            return self
        moved = [one for last in (self.loaded, model) for one in self.waiting if one[0] == last]
        kept = tuple(one for one in self.waiting if one not in moved)
        failures = {name: failure for name, failure in self.failures.items() if name != model}
        return replace(self, loaded=model, since=None, waiting=(*kept, *moved), failures=failures)

    def with_failure(self, model: str, why: str, now: float) -> ModelSchedule:
        """Return the schedule after this model failed to load. Its backoff doubles with each failure, up to 300 s."""
        before = self.failures.get(model)
        times = before.times + 1 if before else 1
        pause = min(_FIRST_BACKOFF * 2 ** min(times - 1, 10), _LONGEST_BACKOFF)
        return replace(self, failures={**self.failures, model: LoadFailure(why, times, now + pause)})

    def without_failures(self) -> ModelSchedule:
        """Return the schedule without load failures, so that every model may be retried immediately."""
        return replace(self, failures={})

    def find_failure(self, model: str, now: float) -> LoadFailure | None:
        """Return the load failure because of which a request for this model is rejected; None if it may wait."""
        failure = self.failures.get(model)
        return failure if failure and model != self.loaded and now < failure.until else None

    def _is_over(self, now: float) -> bool:
        if self.since is None:
            return False
        latest = now - self.swap_after
        return self.since <= latest and any(model != self.loaded and came <= latest for model, came in self.waiting)
