"""A process that ends with its parent, even if the parent dies first."""

from __future__ import annotations

import subprocess
import sys

from tests.fakes.processes import ROOT, has_ended, until

_ORPHAN = """
import os, time
from forge_proxy.processes.reaper import end_with_parent

parent = os.getpid()
if os.fork():
    os._exit(0)
while os.getppid() == parent:
    time.sleep(0.001)
end_with_parent(parent)
print("outlived its parent")
"""
_OWNER = """
import psutil, time
from tests.fakes.llama_cpp import llama_cpp

with llama_cpp("its-own"):
    print(*(process.pid for process in psutil.Process().children(recursive=True)), flush=True)
    time.sleep(90)
"""


def test_a_process_whose_parent_has_died_before_it_could_bind_itself_ends_at_once() -> None:
    """The kernel sends nothing for a parent that is already dead."""
    ended = subprocess.run(
        [sys.executable, "-c", _ORPHAN], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )

    assert (ended.stdout, ended.stderr) == ("", "")


def test_a_process_whose_parent_lives_continues() -> None:
    code = (
        "import os; from forge_proxy.processes.reaper import end_with_parent; end_with_parent(os.getppid()); print(1)"
    )

    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )

    assert (ended.returncode, ended.stdout) == (0, "1\n")


def test_the_llama_cpp_of_a_test_does_not_outlive_a_killed_test() -> None:
    owner = subprocess.Popen([sys.executable, "-c", _OWNER], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    with owner:
        assert owner.stdout is not None
        started = [int(pid) for pid in owner.stdout.readline().split()]
        owner.kill()

    assert started
    until(lambda: all(map(has_ended, started)), "all that it has started has ended")
