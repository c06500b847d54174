"""temporalio takes most of a second and 24 MB: it is not imported before it is needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

_PROGRAM = """
import sys
import forge_proxy.daemon.app, forge_proxy.temporal.ports, forge_proxy.temporal.scheduler
assert not [name for name in sys.modules if name.startswith("temporalio")]
import forge_proxy.temporal.service
assert "temporalio.worker" in sys.modules
"""


@pytest.mark.long
def test_d3_the_scheduler_is_built_without_temporalio() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
