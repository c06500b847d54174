"""Records how each model uses plain-text responses, and derives from it whether the next one is retried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from cachetools import FIFOCache

from forge_proxy.core.errors import UnknownModel
from forge_proxy.core.guardrails.extraction import Extraction
from forge_proxy.core.guardrails.policy import GuardPolicy
from forge_proxy.core.guardrails.text_policy import TextResponseRecord
from forge_proxy.core.guardrails.turn import Fault
from forge_proxy.core.guardrails.verdict import FinalAnswer

_CACHE_SIZE = 256
"""Maximum number of models; a server without a model list accepts any name that a client sends."""


class TextResponseHistory:
    """The statistics of each model since the daemon started. Requests without a model's name share one entry."""

    def __init__(self) -> None:
        self._records: FIFOCache[str, TextResponseRecord] = FIFOCache(_CACHE_SIZE)

    @property
    def records(self) -> Mapping[str, TextResponseRecord]:
        """Statistics by the model's name."""
        return self._records

    def should_nudge(self, policy: GuardPolicy, model: str | None) -> bool:
        """Return whether a plain-text response of this model is retried with a nudge."""
        match policy.text_responses:
            case "nudge":
                return True
            case "accept":
                return False
            case "auto":
                return self._of(model).should_nudge()

    def effective_setting(self, policy: GuardPolicy, model: str | None) -> Literal["nudge", "accept"]:
        """Return how this model's plain-text responses are handled, apart from the few that are still retried."""
        if not policy.enabled.retry or 0 in (policy.max_retries, policy.max_text_nudges):
            return "accept"
        if policy.text_responses == "auto":
            return "accept" if self._of(model).accepted else "nudge"
        return policy.text_responses

    def record_answer(self, model: str | None, faults: tuple[Fault, ...], answer: FinalAnswer) -> None:
        """Record how a request ended."""
        if answer.is_before_failed_retry:  # which does not characterise the model
            return
        if Fault.TEXT in faults:
            self._records[model or ""] = self._of(model).with_nudge(brought_call=bool(answer.calls))
        elif answer.is_plain_text:
            self._records[model or ""] = self._of(model).with_text()

    def opens_reasoning(self, model: str | None) -> bool:
        """Return whether this model's text may start inside a reasoning block that its chat template opens."""
        return self._of(model).opens_reasoning

    def record_extractions(self, model: str | None, extractions: Sequence[Extraction]) -> None:
        """Record whether the replies of one attempt closed a reasoning block that they had not opened."""
        closed = [extraction.closes_reasoning for extraction in extractions if extraction.closes_reasoning is not None]
        if closed and any(closed) != self.opens_reasoning(model):
            self._records[model or ""] = self._of(model).with_reasoning(opened=any(closed))

    def forget(self, model: str | None = None) -> None:
        """Reset the statistics of this model, or of all. Raises `UnknownModel`."""
        if model is None:
            self._records.clear()
        elif self._records.pop(model, None) is None:
            raise UnknownModel(model, list(self._records))

    def _of(self, model: str | None) -> TextResponseRecord:
        return self._records.get(model or "", TextResponseRecord())
