"""Runs a program to its end, with limits on time and output; used for git and for the checks of tasks."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from forge_proxy.processes.pipes import write_to_pipe
from forge_proxy.processes.supervision import build_reaper_command

_GRACE_SECONDS = 2.0
"""Time between SIGTERM and SIGKILL, in which git removes its lock files."""
_KILL_SECONDS = 10.0
_READ_BYTES = 64 * 1024

Guard: TypeAlias = Callable[[int], Awaitable[str]]
"""Watches a running program, given its pid. Returns the reason if the program has to be killed."""


@dataclass(frozen=True, slots=True)
class ProgramOutput:
    """How a program ended, and what it printed."""

    code: int
    """The exit code; the negative number of the signal that ended it."""
    out: bytes
    err: bytes
    stopped: str = ""
    """Why it was killed before its end; empty if it ended by itself."""
    is_cut: bool = False
    """Whether it printed more than was kept."""


@dataclass(frozen=True, slots=True)
class ProgramLimits:
    """Limits of one program."""

    seconds: float
    max_bytes: int
    """Bytes that are kept of each output. A quarter is the beginning, the rest is the end; what is between is lost."""


async def run_program(
    command: Sequence[str],
    limits: ProgramLimits,
    *,
    env: Mapping[str, str],
    cwd: Path | None = None,
    stdin: bytes = b"",
    guard: Guard | None = None,
    under_reaper: bool = False,
) -> ProgramOutput:
    """Run a program in a process group of its own, which is killed if the time is over or the caller is cancelled.

    With `under_reaper`, all descendants are killed at the end, also after kill -9 of the daemon. Otherwise SIGTERM
    comes first. Raises `OSError` if the program cannot be started.
    """
    watched, lifeline = os.pipe() if under_reaper else (-1, -1)
    running = _RunningProgram(limits.max_bytes, lifeline)
    try:
        words = build_reaper_command(command, watched) if under_reaper else command
        process = await asyncio.create_subprocess_exec(
            *words, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=env, cwd=cwd, start_new_session=True,
            pass_fds=(watched,) if under_reaper else (),
        )  # fmt: skip
    except BaseException:
        running.release()
        raise
    finally:
        if under_reaper:
            os.close(watched)
    return await running.finish(process, stdin, limits.seconds, guard)


class _RunningProgram:
    def __init__(self, max_bytes: int, lifeline: int) -> None:
        self._out = _BoundedOutput(max_bytes)
        self._err = _BoundedOutput(max_bytes)
        self._lifeline = lifeline

    def release(self) -> None:
        """Close the lifeline of the reaper, which kills everything that it has started."""
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1

    async def finish(self, process: Process, stdin: bytes, seconds: float, guard: Guard | None) -> ProgramOutput:
        stopped = ""
        work = asyncio.ensure_future(self._communicate(process, stdin))
        guarding = asyncio.ensure_future(guard(process.pid)) if guard else None
        try:
            waited = {work, guarding} if guarding else {work}
            await asyncio.wait(waited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                stopped = guarding.result() if guarding and guarding.done() else f"it ran longer than {seconds:g} s"
        finally:
            if guarding:
                guarding.cancel()
            await self._end(process, work)
        if not work.cancelled():
            work.result()  # an error here means that output was lost
        code = -signal.SIGKILL if process.returncode is None else process.returncode
        out, err = self._out.content(), self._err.content()
        return ProgramOutput(code, out, err, stopped, is_cut=bool(self._out.lost or self._err.lost))

    async def _communicate(self, process: Process, stdin: bytes) -> None:
        assert process.stdin is not None  # noqa: S101  # they are pipes
        assert process.stdout is not None  # noqa: S101
        assert process.stderr is not None  # noqa: S101
        await asyncio.gather(
            _feed(process.stdin, stdin),
            self._out.read(process.stdout),
            self._err.read(process.stderr),
            process.wait(),
        )

    async def _end(self, process: Process, work: asyncio.Future[None]) -> None:
        """Kill what still runs. A second cancellation does not interrupt it before everything has been killed."""
        try:
            if not work.done():
                if self._lifeline < 0:
                    _signal_group(process, signal.SIGTERM)
                self.release()
                await asyncio.wait({work}, timeout=_GRACE_SECONDS)
        finally:
            self.release()
            if not work.done():
                _signal_group(process, signal.SIGKILL)
                await asyncio.wait({work}, timeout=_KILL_SECONDS)  # a process in uninterruptible sleep
                work.cancel()
            await asyncio.wait({work})


class _BoundedOutput:
    """Keeps the beginning and the end of an output."""

    def __init__(self, max_bytes: int) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._head_bytes = max_bytes // 4
        self._tail_bytes = max_bytes - self._head_bytes
        self.lost = 0

    async def read(self, stream: asyncio.StreamReader) -> None:
        while block := await stream.read(_READ_BYTES):
            room = self._head_bytes - len(self._head)
            self._head += block[:room]
            self._tail += block[room:]
            if len(self._tail) > 2 * self._tail_bytes:
                self._trim()

    def content(self) -> bytes:
        self._trim()
        lost = f"\n[{self.lost} bytes omitted]\n".encode() if self.lost else b""
        return bytes(self._head) + lost + bytes(self._tail)

    def _trim(self) -> None:
        excess = max(0, len(self._tail) - self._tail_bytes)
        del self._tail[:excess]
        self.lost += excess


async def _feed(pipe: asyncio.StreamWriter, data: bytes) -> None:
    with suppress(BrokenPipeError):  # the program has ended, or does not read its input
        await write_to_pipe(pipe, data)
    with suppress(BrokenPipeError, ConnectionResetError):
        pipe.close()
        await pipe.wait_closed()


def _signal_group(process: Process, number: signal.Signals) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
