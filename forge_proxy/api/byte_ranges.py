"""The `Range` header of RFC 9110: one range of bytes."""

from __future__ import annotations

import re

from forge_proxy.core.files import RangeNotSatisfiable

_ONE_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)


def read_range(header: str | None, size: int) -> tuple[int, int] | None:
    """Return where the requested bytes begin and end; None for the whole file.

    Other units, several ranges and malformed headers are ignored, as the RFC allows. Raises `RangeNotSatisfiable`.
    """
    found = _ONE_RANGE.fullmatch(header.replace(" ", "")) if header is not None else None
    if found is None or not any(found.groups()):
        return None
    first, last = found.groups()
    if not first:  # the last bytes
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(size, int(last) + 1) if last else size
        if last and int(last) < int(first):
            return None
    if start >= size or start >= end:
        raise RangeNotSatisfiable(size)
    return start, end
