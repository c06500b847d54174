"""Which call a delta continues, where a server does not tell or tells the same of all: its calls have no index (LM
Studio), or index 0 throughout (Ollama, Gemini), and differ by their ids.
"""

from __future__ import annotations

from dataclasses import replace

from forge_proxy.core.stream import CallDelta, Chunk, Delta


class CallIndexes:
    """Gives each call of an answer an index of its own. One for each answer; nearly always it changes nothing."""

    def __init__(self) -> None:
        self._begun: dict[tuple[int, int], CallDelta] = {}
        """By choice and told index: the latest call begun there, as it was placed."""
        self._used: dict[int, int] = {}
        """By choice: the highest index there is."""

    def place(self, chunk: Chunk) -> Chunk:
        """The chunk with its calls at their places; the same one where they stand there already, as they mostly do."""
        if len(chunk.deltas) == 1 and self._stands(chunk.deltas[0]):
            return chunk
        moved: dict[int, Delta] = {}
        for at, delta in enumerate(chunk.deltas):
            if delta.calls:
                calls = [self._moved(delta.choice, piece) for piece in delta.calls]
                if any(call is not piece for call, piece in zip(calls, delta.calls, strict=True)):
                    moved[at] = replace(delta, calls=tuple(calls))
        if not moved:
            return chunk
        return replace(chunk, deltas=tuple(moved.get(at, delta) for at, delta in enumerate(chunk.deltas)))

    def _stands(self, delta: Delta) -> bool:
        """Whether it says no more than how calls go on that stand at their places: nearly all deltas do."""
        for piece in delta.calls:
            begun = self._begun.get((delta.choice, piece.index))
            if piece.id or piece.name or begun is None or begun.index != piece.index:
                return False
        return True

    def _moved(self, choice: int, piece: CallDelta) -> CallDelta:
        key = choice, piece.index
        begun = self._begun.get(key)
        if begun is None or _is_another(begun, piece):
            highest = self._used.get(choice, -1)
            begun = piece if piece.index > highest else replace(piece, index=highest + 1)
            self._begun[key], self._used[choice] = begun, begun.index
        elif (piece.id and not begun.id) or (piece.name and not begun.name):
            begun = self._begun[key] = replace(begun, id=begun.id or piece.id, name=begun.name or piece.name)
        return piece if begun.index == piece.index else replace(piece, index=begun.index)


def _is_another(begun: CallDelta, piece: CallDelta) -> bool:
    # some servers make up a new id for each delta, but none of them repeats the name with it
    return bool(begun.id and begun.name and piece.id and piece.name) and begun.id != piece.id
