"""Decodes a streamed response to chunks. Lines that arrive together become one chunk."""

from __future__ import annotations

from forge_proxy.core.jsontypes import Json
from forge_proxy.core.stream import Chunk
from forge_proxy.wire.backends.ollama.response import LineDecoder
from forge_proxy.wire.backends.responses import UnreadableResponse, without_traceback
from forge_proxy.wire.body import BufferedSize, PendingSize, estimate_parsed_size
from forge_proxy.wire.sse import BOM, MAX_RESPONSE, TooLarge


class LineReader:
    """Takes bytes and returns complete lines, in linear time."""

    def __init__(self, limit: int = MAX_RESPONSE) -> None:
        self._limit = limit
        self._line = bytearray()
        """The incomplete line."""
        self._begun = False

    def feed(self, piece: bytes) -> list[bytes]:
        """Return the lines that `piece` completes, without empty ones. Raises `TooLarge`."""
        lines: list[bytes] = []
        if b"\n" in piece:
            *lines, piece = (bytes(self._line) + piece).split(b"\n")
            self._line = bytearray()
        self._line += piece
        if len(self._line) > self._limit:
            raise TooLarge(f"a line of more than {self._limit} bytes")
        return self._select_lines(lines)

    @property
    def pending_bytes(self) -> int:
        """Bytes buffered of an incomplete line."""
        return len(self._line)

    def end(self) -> list[bytes]:
        """Return the line that ends with the stream: a response that is not streamed has no line end."""
        last, self._line = bytes(self._line), bytearray()
        return self._select_lines([last])

    def _select_lines(self, lines: list[bytes]) -> list[bytes]:
        if not self._begun and lines:
            self._begun = True
            lines[0] = lines[0].removeprefix(BOM)
        return [line for line in lines if line and not line.isspace()]


class OllamaStreamReader:
    """Takes the bytes of a response, streamed or whole, and returns its chunks.

    `limit` is the maximum number of bytes of a line; if the response is `buffered`, also of all chunks together.
    """

    def __init__(self, model: str | None = None, *, limit: int = MAX_RESPONSE, buffered: bool = False) -> None:
        self.fault: UnreadableResponse | TooLarge | None = None
        """Why decoding stopped; the chunks before it have been returned."""
        self.has_begun = False
        """Whether a line of the response has been read."""
        self._limit = limit
        self._size = BufferedSize() if buffered else None
        self._lines = LineReader(limit)
        self._pending = PendingSize()
        self._decoder = LineDecoder(model)

    @property
    def is_done(self) -> bool:
        """Whether the last line has been read."""
        return self._decoder.is_done

    @property
    def prompt_tokens(self) -> int | None:
        """See `LineDecoder`."""
        return self._decoder.prompt_tokens

    def feed(self, piece: bytes) -> list[Chunk]:
        """Return the chunk that `piece` completes, if any."""
        try:
            lines = self._lines.feed(piece)
            return self._read(lines) if lines else self._pending.report(self._lines.pending_bytes)
        except TooLarge as fault:
            self.fault = without_traceback(fault)
            return []

    def end(self) -> list[Chunk]:
        """Return the chunk that the end of the stream completes, if any."""
        return self._read(self._lines.end())

    def _read(self, lines: list[bytes]) -> list[Chunk]:
        chunks: list[Chunk] = []
        for line in lines:
            try:
                chunks.append(self._decoder.decode(self._check_line(line)))
                if self._size is not None:
                    self._size.add(chunks[-1])
                    self._check(self._size.total)
            except (UnreadableResponse, TooLarge) as fault:
                self.fault = without_traceback(fault)
                break
            self.has_begun = True
            if self.is_done:
                break
        return [_join(chunks)] if chunks else []

    def _check_line(self, line: bytes) -> bytes:
        """Return the line. Raises `TooLarge` for one that would need too much memory once it is parsed."""
        self._check(estimate_parsed_size(line) // 8)
        return line

    def _check(self, size: int) -> None:
        if size > self._limit:
            raise TooLarge(f"more than {self._limit} bytes")


def _join(chunks: list[Chunk]) -> Chunk:
    """Join chunks that arrived together."""
    if len(chunks) == 1:
        return chunks[0]
    head: dict[str, Json] = {}
    for chunk in chunks:
        head.update(chunk.head)
    return Chunk(tuple(delta for chunk in chunks for delta in chunk.deltas), chunks[-1].usage, head)
