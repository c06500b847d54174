"""Reads lines of an input file in ranges: neighbouring lines are read together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from forge_proxy.batches.files import Files
from forge_proxy.core.batches.ordering import PlannedLine
from forge_proxy.core.files import StoredFile

_GAP = 128 * 1024
"""Bytes between two lines that are read with them: a query costs as much as some of them."""
_RANGE = 1024 * 1024
"""Bytes of a range of several lines."""
_KEPT = 4 * 1024 * 1024
"""Bytes of lines that are kept until they are sent."""


class LineSource:
    """The lines of one file."""

    def __init__(self, files: Files, file: StoredFile) -> None:
        self._files = files
        self._file = file
        self._kept: dict[int, bytes] = {}

    async def prefetch(self, lines: Iterable[PlannedLine]) -> None:
        """Read lines that will be sent, unless they are large together."""
        ordered = sorted(lines, key=lambda line: line.offset)
        if sum(line.size for line in ordered) > _KEPT:
            return
        for some in _find_ranges(ordered):
            start = some[0].offset
            content = await self._read(start, some[-1].offset + some[-1].size)
            for line in some:
                self._kept[line.number] = content[line.offset - start :][: line.size]

    async def take(self, line: PlannedLine) -> bytes:
        """Return a line, which is kept no longer."""
        kept = self._kept.pop(line.number, None)
        return kept if kept is not None else await self._read(line.offset, line.offset + line.size)

    async def _read(self, start: int, end: int) -> bytes:
        return b"".join([piece async for piece in self._files.read(self._file, start, end)])


def _find_ranges(lines: Sequence[PlannedLine]) -> list[list[PlannedLine]]:
    """Divide lines, which are in the order of the file, into those that are read together."""
    ranges: list[list[PlannedLine]] = []
    for line in lines:
        last = ranges[-1] if ranges else None
        end = line.offset + line.size
        if last and line.offset - (last[-1].offset + last[-1].size) < _GAP and end - last[0].offset < _RANGE:
            last.append(line)
        else:
            ranges.append([line])
    return ranges
