"""Keeps the last log lines of a model server, in bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

_DAEMON = 0
_LINES = 500
_LENGTH = 1000


class LogTail:
    """Takes the bytes of stdout and stderr and keeps the last `lines` lines, truncated to `length` bytes.

    It is shared by successive instances of a server: lines of earlier ones are kept; `faults` are those of the latest.
    """

    def __init__(self, lines: int = _LINES, length: int = _LENGTH) -> None:
        self.size = 0
        """Number of bytes received."""
        self._length = length
        self._lines: deque[tuple[int, str]] = deque(maxlen=lines)
        self._run = _DAEMON
        self._rest = bytearray()
        """The incomplete last line, truncated."""

    def begin(self, heading: str) -> None:
        """Start the log of another instance with a heading."""
        self._end_line()
        self._run += 1
        self._lines.append((_DAEMON, heading))

    def feed(self, data: bytes) -> None:
        """Add bytes."""
        self.size += len(data)
        *ended, rest = data.split(b"\n")
        for line in ended:
            self._extend(line)
            self._end_line(keep_empty=True)
        self._extend(rest)

    def last(self, count: int = _LINES) -> list[str]:
        """Return the last lines, oldest first, including an incomplete one."""
        lines = [line for _, line in self._lines]
        if self._rest:
            lines.append(_decode(self._rest))
        return lines[-count:] if count > 0 else []

    @property
    def latest(self) -> str:
        """The last non-empty line of the latest instance."""
        return "".join(self.latest_words(1))

    def latest_words(self, count: int) -> list[str]:
        """Return the last non-empty lines of the latest instance, oldest first."""
        return [line.strip() for line in self._latest_lines() if line.strip()][-count:]

    def faults(self) -> Sequence[str]:
        """Return the error lines of the latest instance, oldest first: the first one is the cause of the others."""
        lines = self._latest_lines()
        marked = [line.split(" E ", 1)[1].strip() for line in lines if " E " in line]
        return marked or [line.strip() for line in lines if "rror" in line or "ASSERT" in line]

    def _latest_lines(self) -> list[str]:
        return [*(line for run, line in self._lines if run == self._run), _decode(self._rest)]

    def _extend(self, part: bytes) -> None:
        self._rest += part[: self._length - len(self._rest)]

    def _end_line(self, *, keep_empty: bool = False) -> None:
        if self._rest or keep_empty:
            self._lines.append((self._run, _decode(self._rest)))
        self._rest.clear()


def _decode(line: bytes | bytearray) -> str:
    return line.decode("utf-8", "replace").rstrip("\r")
