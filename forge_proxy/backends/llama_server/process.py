"""The process of a model server: started through the reaper, its output logged, ended with its child processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress

from forge_proxy.backends.llama_server.log_tail import LogTail
from forge_proxy.processes.supervision import build_reaper_command

_PIECE = 64 * 1024
_DYING_SECONDS = 30.0
_OF_ITSELF = ("ASSERT", "out of memory", "OutOfDeviceMemory", "failed to allocate", "CUDA error")
"""Substrings of errors that concern the server and never quote a request."""


class NotExecutable(Exception):
    """The program cannot be started. The message has the reason."""


class ServerProcess:
    """A process that is or was running. Create it with `start`; the creator ends it with `stop`."""

    def __init__(self, reaper: Process, log: LogTail) -> None:
        self._reaper = reaper
        self._log = log
        self._reading = asyncio.create_task(self._read())
        self._ending = asyncio.create_task(self._end())
        self._why_killed = ""
        self.pid = 0
        """The process id of the server, not of the reaper."""

    @classmethod
    async def start(cls, command: Sequence[str], environment: Mapping[str, str], log: LogTail) -> ServerProcess:
        """Start the process. Raises `NotExecutable`."""
        # Its own session: Ctrl-C in the terminal stops the daemon, and the server ends after the last response.
        try:
            reaper = await asyncio.create_subprocess_exec(
                *build_reaper_command(command),
                stdin=PIPE, stdout=PIPE, stderr=PIPE, env=dict(environment), start_new_session=True,
            )  # fmt: skip
        except OSError as exc:  # out of memory or file descriptors
            raise NotExecutable(f"no process can be started: {exc.strerror or exc}") from exc
        process = cls(reaper, log)
        try:
            await process._read_report()
        except BaseException:
            await process.kill()
            raise
        return process

    @property
    def has_ended(self) -> bool:
        """Whether the end of the process has been detected."""
        return self._ending.done()

    async def wait(self) -> None:
        """Wait until the process has ended."""
        await asyncio.shield(self._ending)

    def describe_end(self, *, loading: bool) -> str:
        """Describe how the process ended, with an error line of its log. Call it only if `has_ended`.

        While `loading`, the first error is the cause. Later errors may quote requests, which must not appear in health
        checks and in the daemon's log: only errors about the server itself are used.
        """
        if self._why_killed:
            return self._why_killed
        code = self._reaper.returncode or 0
        if code == -signal.SIGKILL:  # by another program or the kernel: the log does not have the reason
            return "it was killed by SIGKILL (out of memory?)"
        how = f"it was killed by {signal.Signals(-code).name}" if code < 0 else f"it exited with code {code}"
        faults = self._log.faults()
        if loading:
            detail = faults[0] if faults else self._log.latest
        else:
            detail = next((fault for fault in reversed(faults) if any(word in fault for word in _OF_ITSELF)), "")
        return f"{how}: {detail}" if detail else how

    async def stop(self, seconds: float) -> None:
        """Terminate the process, and kill it if it has not ended after `seconds`."""
        if not self.has_ended:
            with suppress(ProcessLookupError):
                os.killpg(self._reaper.pid, signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.wait()
        await self.kill()

    async def kill(self, why: str = "") -> None:
        """Kill the process and its child processes; `describe_end` returns `why` if set. If it still does not end (a
        GPU driver may block), the reaper continues to kill it.
        """
        self._why_killed = self._why_killed or why
        assert self._reaper.stdin is not None  # noqa: S101  # it is a pipe
        self._reaper.stdin.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_DYING_SECONDS):
                await self.wait()

    async def _read_report(self) -> None:
        """Read the reaper's report about the start."""
        assert self._reaper.stdout is not None  # noqa: S101  # it is a pipe
        line = await self._reaper.stdout.readline()
        if not line:
            raise NotExecutable(f"the reaper failed: {self._log.latest}")
        report = json.loads(line)
        if "error" in report:
            raise NotExecutable(report["error"])
        self.pid = report["pid"]

    async def _read(self) -> None:
        """Read its output until the end: otherwise the process would block on a full pipe."""
        assert self._reaper.stderr is not None  # noqa: S101  # it is a pipe
        while piece := await self._reaper.stderr.read(_PIECE):
            self._log.feed(piece)

    async def _end(self) -> None:
        await self._reaper.wait()
        await self._reading
