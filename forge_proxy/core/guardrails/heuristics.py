"""The heuristics: corrections of responses that are valid but probably wrong. Each is learned per model.

A heuristic may be mistaken, so `learned_policy` measures whether its corrections lead anywhere on each model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, TypeAlias

from forge_proxy.core.guardrails.policy import GuardPolicy

Setting: TypeAlias = Literal["auto", "retry", "accept"]


class Heuristic(StrEnum):
    """One heuristic, named like its setting or its switch."""

    TEXT_RESPONSES = "text_responses"
    """Plain text although a call was possible is retried."""
    REPEATS = "repeats"
    """A call that was already answered since the user's last message is retried."""
    EARLY_END = "early_end"
    """A final answer before the tools that the user asked for were called is retried."""
    ANSWER_GROUNDING = "answer_grounding"
    """A final answer that does not agree with the results of tools is retried."""


@dataclass(frozen=True, slots=True)
class ActiveHeuristics:
    """The heuristics that apply to a request."""

    counted: frozenset[Heuristic] = frozenset()
    """Those whose cases are recorded."""
    corrected: frozenset[Heuristic] = frozenset()
    """Those of them whose cases are corrected."""


NO_HEURISTICS = ActiveHeuristics()


def read_settings(policy: GuardPolicy) -> Mapping[Heuristic, Setting]:
    """Return the setting of each heuristic in the policy; `accept` if its corrections are off or have no budget."""
    if not policy.enabled.retry or policy.max_retries == 0:
        return dict.fromkeys(Heuristic, "accept")
    text: Setting = "retry" if policy.text_responses == "nudge" else policy.text_responses
    answers: Setting = "accept" if policy.answer_grounding in ("off", "report") else policy.answer_grounding
    return {
        Heuristic.TEXT_RESPONSES: text if policy.max_text_nudges else "accept",
        Heuristic.REPEATS: policy.on_repeat if policy.enabled.repeats else "accept",
        Heuristic.EARLY_END: policy.on_early_end if policy.enabled.early_end else "accept",
        Heuristic.ANSWER_GROUNDING: answers,
    }
