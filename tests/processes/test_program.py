"""Programs that are run to their end: limits on time and output, and no process left."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from forge_proxy.processes.program import ProgramLimits, run_program
from tests.fakes.processes import has_ended, until

_LIMITS = ProgramLimits(seconds=30, max_bytes=4000)
_ENV = {"PATH": os.environ["PATH"]}
_FORKS = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = os.fork()
if child:
    open(sys.argv[1], "w").write(str(child))
time.sleep(60)
"""

_DAEMONIZES = """
import os, sys, time
ready, tell = os.pipe()
if os.fork() == 0:
    os.setsid()
    open(sys.argv[1], "w").write(str(os.getpid()))
    os.write(tell, b"x")
    time.sleep(60)
os.read(ready, 1)
"""


async def test_output_and_exit_code_are_returned_and_input_is_sent() -> None:
    code = "import sys; print(sys.stdin.read()[::-1]); print('no', file=sys.stderr); sys.exit(3)"

    ended = await run_program([sys.executable, "-c", code], _LIMITS, env=_ENV, stdin=b"abc")

    assert (ended.code, ended.out, ended.err, ended.stopped) == (3, b"cba\n", b"no\n", "")


async def test_a_program_that_does_not_read_its_input_ends_normally() -> None:
    ended = await run_program(["true"], _LIMITS, env=_ENV, stdin=b"x" * 1_000_000)

    assert ended.code == 0


async def test_the_beginning_and_the_end_of_long_output_are_kept() -> None:
    code = "print('first'); print('x' * 9_000_000); print('last')"

    ended = await run_program([sys.executable, "-c", code], _LIMITS, env=_ENV)

    assert ended.is_cut
    assert ended.out.startswith(b"first\n")
    assert ended.out.endswith(b"last\n")
    assert b"bytes omitted" in ended.out
    assert len(ended.out) < 4100


async def test_a_program_without_end_is_killed_with_its_children(tmp_path: Path) -> None:
    limits = ProgramLimits(seconds=1, max_bytes=1000)

    ended = await run_program([sys.executable, "-c", _FORKS, str(tmp_path / "pid")], limits, env=_ENV)

    assert ended.stopped == "it ran longer than 1 s"
    assert ended.code < 0
    until(lambda: has_ended(int((tmp_path / "pid").read_text())), "the child has ended")


@pytest.mark.parametrize("under_reaper", [False, True])
async def test_a_cancelled_caller_leaves_no_process(tmp_path: Path, under_reaper: bool) -> None:
    file = tmp_path / "pid"
    command = [sys.executable, "-c", _FORKS, str(file)]
    running = asyncio.create_task(run_program(command, _LIMITS, env=_ENV, under_reaper=under_reaper))
    await asyncio.to_thread(until, lambda: file.exists() and file.read_text() != "", "the child has started")

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    until(lambda: has_ended(int(file.read_text())), "the child has ended")


async def test_descendants_that_leave_the_process_group_end_with_the_program_under_the_reaper(tmp_path: Path) -> None:
    file = tmp_path / "pid"

    ended = await run_program([sys.executable, "-c", _DAEMONIZES, str(file)], _LIMITS, env=_ENV, under_reaper=True)

    assert ended.code == 0
    assert has_ended(int(file.read_text()))


async def test_a_guard_kills_the_program_with_a_reason() -> None:
    async def guard(pid: int) -> str:
        return f"process {pid} is not wanted"

    ended = await run_program(["sleep", "60"], _LIMITS, env=_ENV, guard=guard)

    assert ended.stopped.endswith("is not wanted")


async def test_a_program_that_does_not_exist_is_an_os_error() -> None:
    with pytest.raises(FileNotFoundError):
        await run_program(["/no/such/program"], _LIMITS, env=_ENV)
