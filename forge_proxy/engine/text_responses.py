"""What was learned about bare text, model by model, and what follows from it for the next request."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Literal

from forge_proxy.core.errors import UnknownModel
from forge_proxy.core.guardrails import FinalAnswer, GuardPolicy
from forge_proxy.core.guardrails.extraction import Extraction
from forge_proxy.core.guardrails.text_policy import TextResponseRecord
from forge_proxy.core.guardrails.turn import Fault

_REMEMBERED = 256
"""Models; a server without a model list answers to whatever name a caller makes up."""


class TextResponseHistory:
    """The figures of each model since the daemon started."""

    def __init__(self) -> None:
        self._figures: OrderedDict[str, TextResponseRecord] = OrderedDict()

    @property
    def figures(self) -> Mapping[str, TextResponseRecord]:
        """By the model's name."""
        return self._figures

    def should_nudge(self, policy: GuardPolicy, model: str) -> bool:
        """Whether bare text of this model is to be asked again."""
        match policy.text_answers:
            case "nudge":
                return True
            case "accept":
                return False
            case "auto":
                return self._of(model).should_nudge()

    def now(self, policy: GuardPolicy, model: str) -> Literal["nudge", "accept"]:
        """What is done with this model's bare text, apart from the few that are still asked again."""
        if not policy.enabled.retry or 0 in (policy.max_retries, policy.max_text_nudges):
            return "accept"
        if policy.text_answers == "auto":
            return "accept" if self._of(model).accepted else "nudge"
        return policy.text_answers

    def learn(self, model: str, faults: tuple[Fault, ...], settled: FinalAnswer) -> None:
        """Take in how a request ended."""
        if settled.is_before_failed_retry:  # which says nothing of the model
            return
        if Fault.TEXT in faults:
            self._keep(model, self._of(model).with_nudge(brought_call=bool(settled.calls)))
        elif settled.bare_text:
            self._keep(model, self._of(model).with_text())

    def opens_thoughts(self, model: str) -> bool:
        """Whether this model's text may begin with thoughts that its chat template opens."""
        return self._of(model).opens_thoughts

    def saw(self, model: str, readings: Sequence[Extraction]) -> None:
        """Take in what was read of one attempt."""
        closed = [reading.closes_thoughts for reading in readings if reading.closes_thoughts is not None]
        if closed and any(closed) != self.opens_thoughts(model):
            self._keep(model, self._of(model).with_thoughts(opened=any(closed)))

    def forget(self, model: str | None = None) -> None:
        """Begin anew, with this model or with all. Raises `UnknownModel`."""
        if model is None:
            self._figures.clear()
        elif self._figures.pop(model, None) is None:
            raise UnknownModel(model, list(self._figures))

    def _of(self, model: str) -> TextResponseRecord:
        return self._figures.get(model, TextResponseRecord())

    def _keep(self, model: str, figures: TextResponseRecord) -> None:
        self._figures[model] = figures
        self._figures.move_to_end(model)
        if len(self._figures) > _REMEMBERED:
            self._figures.popitem(last=False)
