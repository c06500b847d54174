"""A fault: what goes wrong between a model and its client, as a value. The groups of them are in `faults`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tests.fakes.says import Said
from tests.harness.response import JsonDict, Send, send
from tests.harness.tasks import Call, Move


@dataclass(frozen=True)
class Ask:
    """One request of a conversation: `move` is the right answer to it."""

    move: Move
    times: int = 0
    """How many requests at this point of the conversation came before it."""
    index: int = 0
    """How many faults there were before it."""
    answered: Sequence[Call] = ()
    """The calls whose results are in the conversation."""
    tools: Sequence[JsonDict] = ()
    """The functions that are offered."""


Say: TypeAlias = Callable[[Ask], Said | None]
"""What the model says with the fault in it; None if the fault cannot be in this answer."""


def right(move: Move) -> Said:
    """The move, as it should be said."""
    return Said(text=move) if isinstance(move, str) else Said(calls=((move.tool, json.dumps(move.args)),))


def first(say: Callable[[Ask], Said | None]) -> Say:
    """Only in the first answer at each point of the conversation."""
    return lambda ask: None if ask.times else say(ask)


def always(ask: Ask) -> Said:
    """In every answer: the habit of a server."""
    return right(ask.move)


def first_call(say: Callable[[Call, Ask], Said | None]) -> Say:
    """Only in the first answer at each point where a call is the right one."""
    return first(lambda ask: say(ask.move, ask) if isinstance(ask.move, Call) else None)


@dataclass(frozen=True)
class Fault:
    """A column of the table. Unless it says otherwise the fault is in the first answer at each point."""

    name: str
    sentence: str
    say: Say = field(default=first(lambda ask: right(ask.move)))
    send: Send = send
    must_be_done: bool = False
    """Whether the task has to be done through the daemon. Otherwise it must not go worse than without it."""
    is_plain: bool = False
    """Whether the last answer is text also if the daemon offers its tool for plain-text responses."""
    has_occasion: bool = False
    """Whether the cell counts although nothing was wrong."""
    is_failure: bool = False
    """Whether the server reports an error that a client may retry."""
    only_for: tuple[str, ...] = ()
    """The clients that it concerns; all of them if empty."""
    is_remembered: bool = False
    """Whether the daemon may remember it, so that what runs next needs another daemon."""

    def concerns(self, client: str) -> bool:
        """Whether there can be an occasion for it with this client."""
        return not self.only_for or client in self.only_for


def habit(name: str, sentence: str, send_changed: Send) -> Fault:
    """What a server does with every right answer. A client of the daemon never sees it, so the task has to be done."""
    return Fault(name, sentence, always, send_changed, must_be_done=True)
