"""Output of the streaming parser: pieces of text and reasoning, with the white space between them."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class PieceKind(StrEnum):
    """The kind of a released piece."""

    TEXT = "text"
    REASONING = "reasoning"
    RECLASSIFIED = "recall"
    """All text released so far was reasoning, which the chat template opened. This piece has no text."""


class OutputPiece(NamedTuple):
    """A piece of output that is final and may be sent."""

    kind: PieceKind
    text: str = ""


class OutputBuffer:
    """Collects released pieces and decides which white space between them is sent."""

    def __init__(self) -> None:
        self._pieces: list[OutputPiece] = []
        self._space: list[str] = []
        """White space that is sent with the text after it, if text follows. A list, because there may be much of it."""
        self._after_reasoning = False
        """Whether reasoning has just ended: the text after it starts on a new line."""
        self._has_text = False

    def take(self) -> list[OutputPiece]:
        pieces, self._pieces = self._pieces, []
        return pieces

    def add_text(self, text: str) -> None:
        """Release text except its trailing white space, which is dropped if a call follows."""
        words = text.rstrip()
        if not words:
            self._space.append(text)
            return
        space, self._space = "".join(self._space), [text[len(words) :]]
        if self._after_reasoning:
            space, words = ("\n" if self._has_text else ""), words.lstrip()
        self._after_reasoning, self._has_text = False, True
        self._pieces.append(OutputPiece(PieceKind.TEXT, space + words))

    def add_reasoning(self, text: str) -> None:
        """Release reasoning."""
        if text:
            self._pieces.append(OutputPiece(PieceKind.REASONING, text))

    def begin_reasoning(self) -> None:
        """Mark the start of reasoning. White space before and after it is dropped."""
        self._space, self._after_reasoning = [], True

    def reclassify_text(self) -> None:
        """Mark all text released so far as reasoning."""
        self._space, self._after_reasoning, self._has_text = [], True, False
        self._pieces.append(OutputPiece(PieceKind.RECLASSIFIED))
