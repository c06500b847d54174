"""Says of a text that is still being written which beginning of it is certainly no part of a call."""

from __future__ import annotations

from collections.abc import Collection

from forge_proxy.core.rescue.openers import openers


class Scan:
    """Fed piece by piece, gives out what is plain text.

    What has been given out in all depends on the whole text only, not on how it was cut. Once a call has certainly
    begun, everything from there on is held to the end.
    """

    def __init__(self, names: Collection[str]) -> None:
        self._openers = openers(tuple(sorted(names)))
        self._held = ""
        self._before = ""
        """The last character given out: whether a line begins after it decides what may begin a call."""
        self._opened = False

    @property
    def holds_text(self) -> bool:
        """Whether more than white space is being held back."""
        return bool(self._held.strip())

    def feed(self, piece: str) -> str:
        """What may now be given out: text that stays as it is, whatever follows."""
        if self._opened:
            return ""
        self._held += piece
        text = self._before + self._held
        found = self._openers.find(text, len(self._before))
        if found:
            self._opened = True
            end = len(text[: found.start()].rstrip())
        else:
            end = self._openers.held_from(text, len(self._before))
        released = text[len(self._before) : max(end, len(self._before))]
        if released:
            self._held = self._held[len(released) :]
            self._before = released[-1]
        return released
