"""Whether a server that is loading gets anywhere: what it says, what it has read, what memory it has taken."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PAGE = 4096
_NOTABLE = 256 * 1024
"""Bytes read or taken that count as getting on: a server that hangs moves a few pages now and then."""


@dataclass(frozen=True, slots=True)
class LoadActivity:
    """How far a load has come, in bytes. What the system does not tell (anywhere but on Linux) is 0."""

    said: int
    read: int
    resident: int

    def exceeds(self, earlier: LoadActivity) -> bool:
        """Whether it has got on since."""
        return (
            self.said > earlier.said
            or self.read >= earlier.read + _NOTABLE
            or self.resident >= earlier.resident + _NOTABLE
        )


def measure(pid: int, said: int) -> LoadActivity:
    """The growth of a process and those it has started, since the server itself may stand behind a script."""
    read = resident = 0
    pids = [pid]
    for one in pids:  # grows meanwhile
        with suppress(OSError, ValueError):
            process = Path(f"/proc/{one}")
            resident += int(process.joinpath("statm").read_text().split()[1]) * _PAGE
            lines = process.joinpath("io").read_text().splitlines()
            fields = dict(line.split(": ", 1) for line in lines)
            # A file that is mapped is read without asking: that is counted as `read_bytes` where it is not cached.
            read += int(fields["rchar"]) + int(fields["read_bytes"])
            for task in process.joinpath("task").iterdir():
                pids += [int(child) for child in task.joinpath("children").read_text().split()]
    return LoadActivity(said, read, resident)
