"""The cuts of a compaction and their reasons, as values that can be inspected before they are applied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from forge_proxy.core.estimate import estimate_message_tokens
from forge_proxy.core.fast_dataclass import fast_dataclass
from forge_proxy.core.messages import Message, MessageType

CutKind: TypeAlias = Literal["dropped", "truncated", "replaced"]


@fast_dataclass
class Cut:
    """The cut of one message. `replacement` replaces it, None if it is dropped. `saved` is in estimated tokens."""

    index: int
    type: MessageType
    phase: int
    kind: CutKind
    saved: int
    reason: str
    replacement: Message | None = None


@fast_dataclass
class CompactionPlan:
    """All cuts of a phase and of those before it, in the order of the messages."""

    phase: int
    cuts: tuple[Cut, ...]
    tokens: int
    """Estimated tokens of the history after the cuts."""

    @property
    def saved(self) -> int:
        """Estimated tokens that the cuts save."""
        return sum(cut.saved for cut in self.cuts)

    def apply(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Return the messages after the cuts."""
        out = list[Message]()
        kept = 0
        for cut in self.cuts:
            out += messages[kept : cut.index]
            if cut.replacement is not None:
                out.append(cut.replacement)
            kept = cut.index + 1
        return (*out, *messages[kept:])


def drop_message(index: int, message: Message, phase: int, why: str) -> Cut:
    """Return the cut that drops a message."""
    return Cut(index, message.type, phase, "dropped", estimate_message_tokens(message), why)


def replace_message(index: int, message: Message, phase: int, what: CutKind, why: str, instead: Message) -> Cut:
    """Return the cut that replaces a message."""
    saved = estimate_message_tokens(message) - estimate_message_tokens(instead)
    return Cut(index, message.type, phase, what, saved, why, instead)


def make_plan(phase: int, tokens: int, cuts: list[Cut]) -> CompactionPlan:
    """Return the plan of a phase for a history of `tokens` tokens."""
    cuts.sort(key=lambda cut: cut.index)
    return CompactionPlan(phase, tuple(cuts), tokens - sum(cut.saved for cut in cuts))
