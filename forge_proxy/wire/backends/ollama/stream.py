"""The bytes of a streamed answer to chunks: what came together leaves together."""

from __future__ import annotations

from forge_proxy.core.jsontypes import Json
from forge_proxy.core.stream import Chunk
from forge_proxy.wire.backends.ollama.response import LineDecoder
from forge_proxy.wire.backends.responses import UnreadableAnswer
from forge_proxy.wire.body import BufferedSize, PendingSize, would_take
from forge_proxy.wire.sse import BOM, MAX_RESPONSE, TooLarge


class LineReader:
    """Fed bytes, gives out lines. Each byte is looked at a bounded number of times."""

    def __init__(self, limit: int = MAX_RESPONSE) -> None:
        self._limit = limit
        self._line = bytearray()
        """The unfinished line."""
        self._begun = False

    def feed(self, piece: bytes) -> list[bytes]:
        """The lines that `piece` completes, without empty ones. Raises `TooLarge`."""
        lines: list[bytes] = []
        if b"\n" in piece:
            *lines, piece = (bytes(self._line) + piece).split(b"\n")
            self._line = bytearray()
        self._line += piece
        if len(self._line) > self._limit:
            raise TooLarge(f"a line of more than {self._limit} bytes")
        return self._taken(lines)

    @property
    def pending_bytes(self) -> int:
        """Bytes that are buffered of an unfinished line."""
        return len(self._line)

    def end(self) -> list[bytes]:
        """The line that the end of the stream completes: a whole answer comes without a line's end."""
        last, self._line = bytes(self._line), bytearray()
        return self._taken([last])

    def _taken(self, lines: list[bytes]) -> list[bytes]:
        if not self._begun and lines:
            self._begun = True
            lines[0] = lines[0].removeprefix(BOM)
        return [line for line in lines if line and not line.isspace()]


class OllamaStreamReader:
    """Fed the bytes of an answer, streamed or whole, gives out its chunks."""

    def __init__(self, model: str | None = None, *, limit: int = MAX_RESPONSE, buffered: bool = False) -> None:
        self.fault: UnreadableAnswer | TooLarge | None = None
        """Why nothing more can be read; what came before it has been given out."""
        self.begun = False
        """Whether any line of an answer has been read."""
        self._limit = limit
        self._size = BufferedSize() if buffered else None
        self._lines = LineReader(limit)
        self._pending = PendingSize()
        self._answer = LineDecoder(model)

    @property
    def done(self) -> bool:
        """Whether the last line has been read."""
        return self._answer.done

    @property
    def prompt_tokens(self) -> int | None:
        """See `LineDecoder`."""
        return self._answer.prompt_tokens

    def feed(self, piece: bytes) -> list[Chunk]:
        """The chunks that `piece` completes: one, or none."""
        try:
            lines = self._lines.feed(piece)
            return self._read(lines) if lines else self._pending.report(self._lines.pending_bytes)
        except TooLarge as fault:
            self.fault = fault
            return []

    def end(self) -> list[Chunk]:
        """The chunks that the end of the stream completes."""
        return self._read(self._lines.end())

    def _read(self, lines: list[bytes]) -> list[Chunk]:
        chunks: list[Chunk] = []
        for line in lines:
            try:
                chunks.append(self._answer.read(self._checked(line)))
                if self._size is not None:
                    self._size.add(chunks[-1])
                    self._check(self._size.bytes)
            except (UnreadableAnswer, TooLarge) as fault:
                self.fault = fault
                break
            self.begun = True
            if self.done:
                break
        return [_joined(chunks)] if chunks else []

    def _checked(self, line: bytes) -> bytes:
        """The same line. Raises `TooLarge` for one that would take many times its size once it is parsed."""
        self._check(would_take(line) // 8)
        return line

    def _check(self, size: int) -> None:
        if size > self._limit:
            raise TooLarge(f"more than {self._limit} bytes")


def _joined(chunks: list[Chunk]) -> Chunk:
    """Chunks that came together, as one."""
    if len(chunks) == 1:
        return chunks[0]
    head: dict[str, Json] = {}
    for chunk in chunks:
        head.update(chunk.head)
    return Chunk(tuple(delta for chunk in chunks for delta in chunk.deltas), chunks[-1].usage, head)
