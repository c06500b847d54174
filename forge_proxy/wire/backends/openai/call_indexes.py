"""Assigns an index to each call of a stream for servers that send none (LM Studio) or 0 for all (Ollama, Gemini).

The calls of these servers differ only by their ids.
"""

from __future__ import annotations

from dataclasses import replace

from forge_proxy.core.stream import CallDelta, Chunk, Delta


class CallIndexes:
    """Gives each call of a response its own index. One instance per response; most chunks remain unchanged."""

    def __init__(self) -> None:
        self._begun: dict[tuple[int, int], CallDelta] = {}
        """The latest call by choice and index in the response, with its assigned index."""
        self._used: dict[int, int] = {}
        """The highest assigned index by choice."""

    def assign(self, chunk: Chunk) -> Chunk:
        """Return the chunk with the assigned indexes; the same chunk if they are correct already."""
        if len(chunk.deltas) == 1 and self._is_correct(chunk.deltas[0]):
            return chunk
        moved: dict[int, Delta] = {}
        for at, delta in enumerate(chunk.deltas):
            if delta.calls:
                calls = [self._with_index(delta.choice, piece) for piece in delta.calls]
                if any(call is not piece for call, piece in zip(calls, delta.calls, strict=True)):
                    moved[at] = replace(delta, calls=tuple(calls))
        if not moved:
            return chunk
        return replace(chunk, deltas=tuple(moved.get(at, delta) for at, delta in enumerate(chunk.deltas)))

    def _is_correct(self, delta: Delta) -> bool:
        """Return whether the delta only continues calls whose indexes are correct, which is the usual case."""
        for piece in delta.calls:
            begun = self._begun.get((delta.choice, piece.index))
            if piece.id or piece.name or begun is None or begun.index != piece.index:
                return False
        return True

    def _with_index(self, choice: int, piece: CallDelta) -> CallDelta:
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
    # some servers send a new id with each delta, but none of them repeats the name
    return bool(begun.id and begun.name and piece.id and piece.name) and begun.id != piece.id
