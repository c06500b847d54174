"""The policy for plain text: retry it or accept it, learned from how often a retry returned a call (DESIGN §4)."""

from __future__ import annotations

from dataclasses import dataclass, replace

MIN_NUDGES = 8
"""Minimum number of nudges before the policy decides."""
MIN_CALL_SHARE = 0.1
"""Minimum share of nudges that must have led to a call for nudging to continue."""
NUDGE_INTERVAL = 20
"""Once text is accepted, one in this many is still nudged, to keep the measured share up to date."""


@dataclass(frozen=True, slots=True)
class TextResponseRecord:
    """Statistics of one model: plain texts received, nudges sent, and nudges that led to a call."""

    texts: int = 0
    nudges: int = 0
    calls: int = 0
    opens_reasoning: bool = False
    """Whether its latest text closed a reasoning block that the chat template had opened; the next one may as well."""

    @property
    def share(self) -> float | None:
        """The share of nudges that led to a call; None if there were none."""
        return self.calls / self.nudges if self.nudges else None

    @property
    def accepted(self) -> bool:
        """Whether the statistics suffice to accept plain text, except for one in `NUDGE_INTERVAL`."""
        return self.nudges >= MIN_NUDGES and self.calls < MIN_CALL_SHARE * self.nudges

    def should_nudge(self) -> bool:
        """Whether the next plain text should be retried."""
        return not self.accepted or self.texts % NUDGE_INTERVAL == NUDGE_INTERVAL - 1

    def with_text(self) -> TextResponseRecord:
        """Return the statistics after a plain text that was accepted immediately."""
        return replace(self, texts=self.texts + 1)

    def with_reasoning(self, *, opened: bool) -> TextResponseRecord:
        """Return the statistics after a text that closed a reasoning block it did not open, or did not."""
        return replace(self, opens_reasoning=opened)

    def with_nudge(self, *, brought_call: bool) -> TextResponseRecord:
        """Return the statistics after a plain text that was retried."""
        return replace(self, texts=self.texts + 1, nudges=self.nudges + 1, calls=self.calls + brought_call)
