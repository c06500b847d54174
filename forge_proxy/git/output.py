"""What git prints with `-z`."""

from __future__ import annotations

from collections.abc import Sequence


def split_output(output: bytes) -> Sequence[str]:
    """Return the parts of an output that null bytes end. Paths may have any other bytes."""
    return [part.decode("utf-8", "surrogateescape") for part in output.split(b"\0") if part]
