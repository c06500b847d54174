"""The bytes of a streamed answer to chunks: what came together leaves together."""

from __future__ import annotations

from forge_proxy.core.jsontypes import Json
from forge_proxy.core.stream import Chunk
from forge_proxy.wire.answers import UnreadableAnswer
from forge_proxy.wire.ollama.answer import AnswerReader
from forge_proxy.wire.sse import BOM, MAX_EVENT


class LineReader:
    """Fed bytes, gives out lines. Each byte is looked at a bounded number of times."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._begun = False

    def feed(self, piece: bytes) -> list[bytes]:
        """The lines that `piece` completes, without empty ones. Raises `UnreadableAnswer` for one that is too long."""
        self._parts.append(piece)
        self._size += len(piece)
        if b"\n" not in piece:
            if self._size > MAX_EVENT:
                raise UnreadableAnswer(f"a line of more than {MAX_EVENT} bytes")
            return []
        *lines, rest = b"".join(self._parts).split(b"\n")
        self._parts, self._size = [rest], len(rest)
        return self._taken(lines)

    def end(self) -> list[bytes]:
        """The line that the end of the stream completes: a whole answer comes without a line's end."""
        last, self._parts = b"".join(self._parts), []
        return self._taken([last])

    def _taken(self, lines: list[bytes]) -> list[bytes]:
        if not self._begun and lines:
            self._begun = True
            lines[0] = lines[0].removeprefix(BOM)
        return [line for line in lines if line and not line.isspace()]


class StreamReader:
    """Fed the bytes of an answer, streamed or whole, gives out its chunks."""

    def __init__(self, model: str | None = None) -> None:
        self.fault: UnreadableAnswer | None = None
        """Why nothing more can be read; what came before it has been given out."""
        self.begun = False
        """Whether any line of an answer has been read."""
        self._lines = LineReader()
        self._answer = AnswerReader(model)

    @property
    def done(self) -> bool:
        """Whether the last line has been read."""
        return self._answer.done

    @property
    def prompt_tokens(self) -> int | None:
        """See `AnswerReader`."""
        return self._answer.prompt_tokens

    def feed(self, piece: bytes) -> list[Chunk]:
        """The chunks that `piece` completes: one, or none."""
        try:
            return self._read(self._lines.feed(piece))
        except UnreadableAnswer as fault:
            self.fault = fault
            return []

    def end(self) -> list[Chunk]:
        """The chunks that the end of the stream completes."""
        return self._read(self._lines.end())

    def _read(self, lines: list[bytes]) -> list[Chunk]:
        chunks: list[Chunk] = []
        for line in lines:
            try:
                chunks.append(self._answer.read(line))
            except UnreadableAnswer as fault:
                self.fault = fault
                break
            self.begun = True
            if self.done:
                break
        return [_joined(chunks)] if chunks else []


def _joined(chunks: list[Chunk]) -> Chunk:
    """Chunks that came together, as one."""
    if len(chunks) == 1:
        return chunks[0]
    head: dict[str, Json] = {}
    for chunk in chunks:
        head.update(chunk.head)
    return Chunk(tuple(delta for chunk in chunks for delta in chunk.deltas), chunks[-1].usage, head)
