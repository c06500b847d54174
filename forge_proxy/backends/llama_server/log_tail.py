"""The last lines of what a model server says, within bounds, whatever it says."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

_OURS = 0
_LINES = 500
_LENGTH = 1000


class LogTail:
    """Takes the bytes of stdout and stderr. `lines` are kept, and of each line `length` bytes.

    It outlives the server: what the one before said is kept, while `faults` are of the one that began last.
    """

    def __init__(self, lines: int = _LINES, length: int = _LENGTH) -> None:
        self.size = 0
        """Bytes taken so far."""
        self._length = length
        self._lines: deque[tuple[int, str]] = deque(maxlen=lines)
        self._run = _OURS
        self._rest = bytearray()
        """What stands behind the last line break, as far as it is kept."""

    def begin(self, words: str) -> None:
        """Another server begins to speak; `words` of ours say so in between."""
        self._end_line()
        self._run += 1
        self._lines.append((_OURS, words))

    def feed(self, data: bytes) -> None:
        """Take what was said next."""
        self.size += len(data)
        *ended, rest = data.split(b"\n")
        for line in ended:
            self._extend(line)
            self._end_line(keep_empty=True)
        self._extend(rest)

    def last(self, count: int = _LINES) -> list[str]:
        """The last lines, oldest first; one that has not ended yet counts."""
        lines = [line for _, line in self._lines]
        if self._rest:
            lines.append(_decoded(self._rest))
        return lines[-count:] if count > 0 else []

    @property
    def latest(self) -> str:
        """The last line of this server that is not empty."""
        return "".join(self.latest_words(1))

    def latest_words(self, count: int) -> list[str]:
        """The last lines of this server that are not empty, oldest first."""
        return [line.strip() for line in self._said() if line.strip()][-count:]

    def faults(self) -> Sequence[str]:
        """What this server called an error, oldest first: the first is the cause, those after it are its callers'."""
        said = self._said()
        marked = [line.split(" E ", 1)[1].strip() for line in said if " E " in line]
        return marked or [line.strip() for line in said if "rror" in line or "ASSERT" in line]

    def _said(self) -> list[str]:
        return [*(line for run, line in self._lines if run == self._run), _decoded(self._rest)]

    def _extend(self, part: bytes) -> None:
        self._rest += part[: self._length - len(self._rest)]

    def _end_line(self, *, keep_empty: bool = False) -> None:
        if self._rest or keep_empty:
            self._lines.append((self._run, _decoded(self._rest)))
        self._rest.clear()


def _decoded(line: bytes | bytearray) -> str:
    return line.decode("utf-8", "replace").rstrip("\r")
