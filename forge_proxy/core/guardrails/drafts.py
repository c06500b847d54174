"""The choice among several responses to one request, by majority over the tools and arguments that they call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from forge_proxy.core.guardrails.extraction import Extraction
from forge_proxy.core.guardrails.judge import judge
from forge_proxy.core.guardrails.loops import Loop
from forge_proxy.core.guardrails.turn import Turn
from forge_proxy.core.guardrails.verdict import Accept
from forge_proxy.core.jsontypes import Json
from forge_proxy.core.stream import Reply

Vote: TypeAlias = tuple[tuple[str, dict[str, Json] | None], ...]
"""The calls of a valid response, each a tool and its arguments; empty for text. Equal votes are equal values."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The draft to deliver, and how many drafts agree with it."""

    index: int
    votes: int


def vote(turn: Turn, reply: Reply, extraction: Extraction, loops: Sequence[Loop]) -> Vote | None:
    """Return the vote of a draft; None if it would be retried or delivered as exhausted."""
    verdict = judge(turn, reply, "", extraction, loops)
    if not isinstance(verdict, Accept):
        return None
    calls = sorted(verdict.answer.calls, key=lambda call: call.tool)
    return tuple((call.tool, call.args()) for call in calls)


def choose(votes: Sequence[Vote | None], running: int = 0) -> Choice | None:
    """Return the draft with the most votes, the earliest one on a tie.

    `votes` has an entry for each draft: None for one that has no vote, or not yet. None if no draft has a vote, or if
    the drafts that are still `running` could change the choice.
    """
    counts = [(votes.count(one), -index) for index, one in enumerate(votes) if one is not None]
    if not counts:
        return None
    most, place = max(counts)
    winner = votes[-place]
    rivals = max((votes.count(one) for one in votes if one is not None and one != winner), default=0)
    if running and most <= rivals + running:
        return None
    return Choice(-place, most)
