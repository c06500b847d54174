"""Sampling values for fields that the client omits: only if the settings enable them.

Values set for a model of a catalog take precedence over those recommended for its family.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from forge_proxy.core.jsontypes import Json
from forge_proxy.core.sampling import Recommendation, SamplingPolicy, UnsupportedModelError, find_recommendation
from forge_proxy.engine.events import SamplingRecommended
from forge_proxy.engine.ports import Observer

_MAX_REPORTED = 256
_NONE: Mapping[str, Json] = {}


@dataclass(frozen=True, slots=True)
class SamplingOverride:
    """Values set for a model. `known_as` is the name that identifies its family, since a catalog name may not."""

    values: Mapping[str, Json]
    known_as: str | None = None


_NOTHING = SamplingOverride({})


class Sampling:
    """Recommended sampling values and the policy for their use. If unused, they are reported once for each model."""

    def __init__(
        self,
        observe: Observer,
        known: Sequence[Recommendation] = (),
        policy: SamplingPolicy | None = None,
        own: Mapping[str, SamplingOverride] | None = None,
    ) -> None:
        self._observe = observe
        self._reported: set[str] = set()
        self._own = own or {}
        self.known = known
        self.policy = policy or SamplingPolicy()

    def values_for(self, name: str | None) -> Mapping[str, Json]:
        """Return the values to fill in for a model; without a name, those for an unknown one.

        Raises `UnsupportedModelError` if recommendations are enabled and none is known.
        """
        model = name or ""
        own = self._own.get(model, _NOTHING)
        if self.policy.defaults == "on":
            found = self._find(model, own)
            if found is None and not own.values:
                raise UnsupportedModelError(model, [one.family for one in self.known])
            recommended = {str(name): value for name, value in found.values.items()} if found else {}
            return {**recommended, **own.values}
        if own.values:
            return own.values
        if model not in self._reported and len(self._reported) < _MAX_REPORTED:
            self._reported.add(model)
            if found := self._find(model, own):
                self._observe(SamplingRecommended(model, found.family, found.source))
        return _NONE

    def _find(self, model: str, own: SamplingOverride) -> Recommendation | None:
        return find_recommendation(own.known_as or model, self.known)
