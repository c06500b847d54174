"""Whether bare text is worth asking again, learned from how often asking again brought a real call (DESIGN §4)."""

from __future__ import annotations

from dataclasses import dataclass, replace

ENOUGH = 8
"""Nudges to have seen before anything is concluded."""
WORTH = 0.1
"""Share of nudges that must have brought a call for nudging to go on."""
STILL = 20
"""Once text is accepted, one in this many is nudged all the same, to keep the figure honest."""


@dataclass(frozen=True, slots=True)
class TextResponseRecord:
    """What was seen of one model: texts met, nudges sent, and how many of those turned into a real call."""

    texts: int = 0
    nudges: int = 0
    calls: int = 0
    opens_thoughts: bool = False
    """Whether its latest text had the end of thoughts that its chat template had begun: the next one may have, too."""

    @property
    def share(self) -> float | None:
        """The share of nudges that turned into a call; None where there were none."""
        return self.calls / self.nudges if self.nudges else None

    @property
    def accepted(self) -> bool:
        """Whether enough was seen to let bare text through, but for one in `STILL`."""
        return self.nudges >= ENOUGH and self.calls < WORTH * self.nudges

    def should_nudge(self) -> bool:
        """Whether the next bare text should be asked again."""
        return not self.accepted or self.texts % STILL == STILL - 1

    def with_text(self) -> TextResponseRecord:
        """The figures after a bare text that was accepted at once."""
        return replace(self, texts=self.texts + 1)

    def with_thoughts(self, *, opened: bool) -> TextResponseRecord:
        """The figures after a text that began with such thoughts, or with none."""
        return replace(self, opens_thoughts=opened)

    def with_nudge(self, *, brought_call: bool) -> TextResponseRecord:
        """The figures after a bare text that was asked again."""
        return replace(self, texts=self.texts + 1, nudges=self.nudges + 1, calls=self.calls + brought_call)
