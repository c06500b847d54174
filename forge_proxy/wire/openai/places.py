"""Which call a delta continues, where a server does not tell or tells the same of all: its calls have no index (LM
Studio), or index 0 throughout (Ollama, Gemini), and differ by their ids.
"""

from __future__ import annotations

from dataclasses import replace

from forge_proxy.core.stream import CallDelta, Chunk, Delta


class CallPlaces:
    """Gives each call of an answer an index of its own. One for each answer; for most it changes nothing."""

    def __init__(self) -> None:
        self._at: dict[int, dict[int, CallDelta]] = {}
        """By choice: the latest call that was begun at a told index, as it was placed."""
        self._used: dict[int, set[int]] = {}

    def place(self, chunk: Chunk) -> Chunk:
        """The chunk with its calls at their places."""
        if not any(delta.calls for delta in chunk.deltas):
            return chunk
        return replace(chunk, deltas=tuple(self._placed(delta) for delta in chunk.deltas))

    def _placed(self, delta: Delta) -> Delta:
        at = self._at.setdefault(delta.choice, {})
        used = self._used.setdefault(delta.choice, set())
        calls: list[CallDelta] = []
        for piece in delta.calls:
            begun = at.get(piece.index)
            if begun is None or _is_another(begun, piece):
                index = piece.index if piece.index not in used else max(used) + 1
                used.add(index)
                at[piece.index] = begun = replace(piece, index=index)
            elif piece.id and not begun.id:
                at[piece.index] = replace(begun, id=piece.id)
            calls.append(replace(piece, index=begun.index))
        return replace(delta, calls=tuple(calls))


def _is_another(begun: CallDelta, piece: CallDelta) -> bool:
    # some servers make up a new id for each delta, but none of them repeats the name with it
    return bool(begun.id and begun.name and piece.id and piece.name) and begun.id != piece.id
