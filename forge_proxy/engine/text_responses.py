"""Records how each model uses plain-text responses, and derives from it whether the next one is retried."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Literal

from forge_proxy.core.errors import UnknownModel
from forge_proxy.core.guardrails import FinalAnswer, GuardPolicy
from forge_proxy.core.guardrails.extraction import Extraction
from forge_proxy.core.guardrails.text_policy import TextResponseRecord
from forge_proxy.core.guardrails.turn import Fault

_CACHE_SIZE = 256
"""Maximum number of models; a server without a model list accepts any name that a client sends."""


class TextResponseHistory:
    """The statistics of each model since the daemon started."""

    def __init__(self) -> None:
        self._figures: OrderedDict[str, TextResponseRecord] = OrderedDict()

    @property
    def figures(self) -> Mapping[str, TextResponseRecord]:
        """Statistics by the model's name."""
        return self._figures

    def should_nudge(self, policy: GuardPolicy, model: str) -> bool:
        """Return whether a plain-text response of this model is retried with a nudge."""
        match policy.text_answers:
            case "nudge":
                return True
            case "accept":
                return False
            case "auto":
                return self._of(model).should_nudge()

    def now(self, policy: GuardPolicy, model: str) -> Literal["nudge", "accept"]:
        """Return how this model's plain-text responses are handled, apart from the few that are still retried."""
        if not policy.enabled.retry or 0 in (policy.max_retries, policy.max_text_nudges):
            return "accept"
        if policy.text_answers == "auto":
            return "accept" if self._of(model).accepted else "nudge"
        return policy.text_answers

    def learn(self, model: str, faults: tuple[Fault, ...], settled: FinalAnswer) -> None:
        """Record how a request ended."""
        if settled.is_before_failed_retry:  # which does not characterise the model
            return
        if Fault.TEXT in faults:
            self._keep(model, self._of(model).with_nudge(brought_call=bool(settled.calls)))
        elif settled.is_plain_text:
            self._keep(model, self._of(model).with_text())

    def opens_thoughts(self, model: str) -> bool:
        """Return whether this model's text may start inside a reasoning block that its chat template opens."""
        return self._of(model).opens_thoughts

    def saw(self, model: str, readings: Sequence[Extraction]) -> None:
        """Record the extractions of one attempt."""
        closed = [reading.closes_reasoning for reading in readings if reading.closes_reasoning is not None]
        if closed and any(closed) != self.opens_thoughts(model):
            self._keep(model, self._of(model).with_thoughts(opened=any(closed)))

    def forget(self, model: str | None = None) -> None:
        """Reset the statistics of this model, or of all. Raises `UnknownModel`."""
        if model is None:
            self._figures.clear()
        elif self._figures.pop(model, None) is None:
            raise UnknownModel(model, list(self._figures))

    def _of(self, model: str) -> TextResponseRecord:
        return self._figures.get(model, TextResponseRecord())

    def _keep(self, model: str, figures: TextResponseRecord) -> None:
        self._figures[model] = figures
        self._figures.move_to_end(model)
        if len(self._figures) > _CACHE_SIZE:
            self._figures.popitem(last=False)
