"""Sampling values for what callers leave open: on request of the settings, never by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from forge_proxy.core.jsontypes import Json
from forge_proxy.core.sampling import Recommendation, SamplingPolicy, UnsupportedModelError, find_recommendation
from forge_proxy.engine.events import BetterSamplingKnown
from forge_proxy.engine.ports import Observer

_REMEMBERED = 256
_NONE: Mapping[str, Json] = {}


class Sampling:
    """What is recommended, and whether it is used. Where it is not, it says so once for each model."""

    def __init__(
        self, observe: Observer, known: Sequence[Recommendation] = (), policy: SamplingPolicy | None = None
    ) -> None:
        self._observe = observe
        self._told: set[str] = set()
        self.known = known
        self.policy = policy or SamplingPolicy()

    def values_for(self, model: str) -> Mapping[str, Json]:
        """What to fill in for a model. Raises `UnsupportedModelError` where that is asked for and nothing is known."""
        if self.policy.defaults == "on":
            found = find_recommendation(model, self.known)
            if found is None:
                raise UnsupportedModelError(model, [one.family for one in self.known])
            return {str(name): value for name, value in found.values.items()}
        if model not in self._told and len(self._told) < _REMEMBERED:
            self._told.add(model)
            if found := find_recommendation(model, self.known):
                self._observe(BetterSamplingKnown(model, found.family, found.source))
        return _NONE
