"""What counts as progress while a model loads."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from forge_proxy.backends.llama_server.load_activity import LoadActivity, measure

MB = 1 << 20
START = LoadActivity(log_bytes=100, read=10 * MB, resident=50 * MB)


@pytest.mark.parametrize(
    ("later", "exceeds"),
    [
        (START, False),
        (LoadActivity(101, 10 * MB, 50 * MB), True),
        (LoadActivity(100, 11 * MB, 50 * MB), True),
        (LoadActivity(100, 10 * MB, 51 * MB), True),
        (LoadActivity(100, 10 * MB + 4096, 50 * MB + 4096), False),
        (LoadActivity(100, 10 * MB, 20 * MB), False),
    ],
)
def test_a_line_or_a_notable_number_of_bytes(later: LoadActivity, exceeds: bool) -> None:
    assert later.exceeds(START) is exceeds


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
def test_what_a_process_has_read_and_taken_is_seen_also_behind_a_script() -> None:
    before = measure(os.getpid(), 0)
    reads = "import sys; data = open('/dev/zero', 'rb').read(30_000_000); print('read', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", reads], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout
        child.stdout.readline()
        after = measure(os.getpid(), 0)
        child.communicate()

    assert after.read >= before.read + 30_000_000
    assert after.resident >= before.resident + 30_000_000


def test_a_process_that_is_gone_has_nothing() -> None:
    assert measure(2**22 + 1, 7) == LoadActivity(7, 0, 0)
