"""The memory of large buffers returns to the operating system."""

from __future__ import annotations

import subprocess
import sys

from tests.fakes.processes import ROOT

_PROGRAM = """
import sys
from pathlib import Path
from forge_proxy.daemon.allocator import map_large_buffers

def resident_mb():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6

map_large_buffers()
large = b"x" * 4_000_000  # the first one that is freed raises glibc's threshold
del large
before = resident_mb()
buffers, small = [], []
for _ in range(50):
    buffers.append(b"x" * 4_000_000)
    small.append(b"x" * 3_000)
del buffers
print(resident_mb() - before)
"""


def test_freed_buffers_between_small_objects_return_to_the_system() -> None:
    found = subprocess.run(
        [sys.executable, "-c", _PROGRAM], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )

    assert float(found.stdout) < 20
