"""What is given out of a text that is still being written, piece by piece."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class PieceKind(StrEnum):
    """What a released piece is."""

    TEXT = "text"
    THOUGHT = "thought"
    RECALL = "recall"
    """All text so far was thought, whose beginning the chat template wrote: there is no text in this piece."""


class OutputPiece(NamedTuple):
    """A piece that may be given out."""

    kind: PieceKind
    text: str = ""


class OutputBuffer:
    """What is given out, with the white space between its parts."""

    def __init__(self) -> None:
        self._pieces: list[OutputPiece] = []
        self._space: list[str] = []
        """White space that goes out with the text after it, if text it is. In pieces, for there may be much of it."""
        self._seam = False
        """Whether a thought has just ended: what follows begins on a line of its own."""
        self._spoke = False

    def take(self) -> list[OutputPiece]:
        pieces, self._pieces = self._pieces, []
        return pieces

    def say(self, text: str) -> None:
        """Give out text, but for white space at its end: that goes with a call that may follow."""
        words = text.rstrip()
        if not words:
            self._space.append(text)
            return
        space, self._space = "".join(self._space), [text[len(words) :]]
        if self._seam:
            space, words = ("\n" if self._spoke else ""), words.lstrip()
        self._seam, self._spoke = False, True
        self._pieces.append(OutputPiece(PieceKind.TEXT, space + words))

    def think(self, text: str) -> None:
        """Give out thought."""
        if text:
            self._pieces.append(OutputPiece(PieceKind.THOUGHT, text))

    def pause(self) -> None:
        """A thought begins: white space before and after it says nothing."""
        self._space, self._seam = [], True

    def recall(self) -> None:
        """All that was said was thought."""
        self._space, self._seam, self._spoke = [], True, False
        self._pieces.append(OutputPiece(PieceKind.RECALL))
