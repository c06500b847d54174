"""Measures the progress of a server that is loading: its log output, the bytes it has read, its memory."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

_NOTABLE = 256 * 1024
"""Bytes read or allocated that count as progress: a server that hangs still moves a few pages now and then."""


@dataclass(frozen=True, slots=True)
class LoadActivity:
    """The progress of a load, in bytes. `read` is 0 except on Linux."""

    log_bytes: int
    read: int
    resident: int

    def exceeds(self, earlier: LoadActivity) -> bool:
        """Return whether there was progress since `earlier`."""
        return (
            self.log_bytes > earlier.log_bytes
            or self.read >= earlier.read + _NOTABLE
            or self.resident >= earlier.resident + _NOTABLE
        )


def measure(pid: int, log_bytes: int) -> LoadActivity:
    """Measure a process and its descendants, because the server may run behind a script.

    Blocks for about 2 ms if the machine runs 100 processes, because all of them are listed.
    """
    import psutil  # local import: only a managed server that loads needs it

    read = resident = 0
    try:
        server = psutil.Process(pid)
        processes = [server, *server.children(recursive=True)]
    except psutil.Error:
        processes = []
    for process in processes:
        with suppress(psutil.Error):
            resident += process.memory_info().rss
            if sys.platform == "linux":
                counters: Any = process.io_counters()  # the type stubs lack `read_chars`
                # `read_bytes` counts what is read from disk for a mapped file, which no system call reads.
                read += counters.read_chars + counters.read_bytes
    return LoadActivity(log_bytes, read, resident)
