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
    """One request of a conversation: `move` is the right response to it."""

    move: Move
    times: int = 0
    """The number of earlier requests at the same point of the conversation."""
    index: int = 0
    """The number of earlier faults."""
    answered: Sequence[Call] = ()
    """The calls whose results are in the conversation."""
    tools: Sequence[JsonDict] = ()
    """The offered functions."""


Say: TypeAlias = Callable[[Ask], Said | None]
"""Returns the model's response with the fault in it; None if this response cannot have the fault."""


def right(move: Move) -> Said:
    """Return the right response."""
    return Said(text=move) if isinstance(move, str) else Said(calls=((move.tool, json.dumps(move.args)),))


def first(say: Callable[[Ask], Said | None]) -> Say:
    """Apply the fault only to the first response at each point of the conversation."""
    return lambda ask: None if ask.times else say(ask)


def always(ask: Ask) -> Said:
    """Apply the fault to every response: the habit of a server."""
    return right(ask.move)


def first_call(say: Callable[[Call, Ask], Said | None]) -> Say:
    """Apply the fault only to the first response at each point where a call is right."""
    return first(lambda ask: say(ask.move, ask) if isinstance(ask.move, Call) else None)


@dataclass(frozen=True)
class Fault:
    """A column of the table. By default the fault is in the first response at each point."""

    name: str
    sentence: str
    say: Say = field(default=first(lambda ask: right(ask.move)))
    send: Send = send
    must_be_done: bool = False
    """Whether the task has to be done through the daemon. Otherwise its result must not be worse than without it."""
    is_plain: bool = False
    """Whether the last response is text even if the daemon offers its tool for plain-text responses."""
    has_occasion: bool = False
    """Whether the cell counts although nothing was wrong."""
    is_failure: bool = False
    """Whether the server reports an error that a client may retry."""
    only_for: tuple[str, ...] = ()
    """The clients that it applies to; all of them if empty."""
    is_remembered: bool = False
    """Whether the daemon may remember it, so that the next cell needs a new daemon."""

    def concerns(self, client: str) -> bool:
        """Whether it can occur with this client."""
        return not self.only_for or client in self.only_for


def habit(name: str, sentence: str, send_changed: Send) -> Fault:
    """What a server does with every right response. A client of the daemon never sees it, so the task must be done."""
    return Fault(name, sentence, always, send_changed, must_be_done=True)
