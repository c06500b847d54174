"""What is cut from a history, and why: values, which can be shown before anything is done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from forge_proxy.core.estimate import message_tokens
from forge_proxy.core.fast_dataclass import record
from forge_proxy.core.messages import Message, MessageType

What: TypeAlias = Literal["dropped", "truncated", "replaced"]


@record
class Cut:
    """One message cut: `instead` stands in its place, nothing where it was dropped. `saved` are estimated tokens."""

    index: int
    type: MessageType
    phase: int
    what: What
    saved: int
    why: str
    instead: Message | None = None


@record
class Plan:
    """All that a phase cuts, in the order of the messages, what the phases before it cut included."""

    phase: int
    cuts: tuple[Cut, ...]
    tokens: int
    """Those of the history with the cuts, estimated."""

    @property
    def saved(self) -> int:
        """How many fewer those are, estimated."""
        return sum(cut.saved for cut in self.cuts)

    def apply(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """The messages with the cuts made."""
        out = list[Message]()
        kept = 0
        for cut in self.cuts:
            out += messages[kept : cut.index]
            if cut.instead is not None:
                out.append(cut.instead)
            kept = cut.index + 1
        return (*out, *messages[kept:])


def dropped(index: int, message: Message, phase: int, why: str) -> Cut:
    """The cut of a message that goes without a trace."""
    return Cut(index, message.type, phase, "dropped", message_tokens(message), why)


def exchanged(index: int, message: Message, phase: int, what: What, why: str, instead: Message) -> Cut:
    """The cut of a message in whose place another one stands."""
    saved = message_tokens(message) - message_tokens(instead)
    return Cut(index, message.type, phase, what, saved, why, instead)


def plan_of(phase: int, tokens: int, cuts: list[Cut]) -> Plan:
    """The plan of a phase for a history of so many tokens."""
    cuts.sort(key=lambda cut: cut.index)
    return Plan(phase, tuple(cuts), tokens - sum(cut.saved for cut in cuts))
