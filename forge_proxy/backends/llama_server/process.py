"""One run of a model server's process: started through the launcher, its output kept, ended with all it has started."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress

from forge_proxy.backends.llama_server.log_tail import LogTail
from forge_proxy.processes.supervision import supervised

_PIECE = 64 * 1024
_DYING_SECONDS = 30.0
_OF_ITSELF = ("ASSERT", "out of memory", "OutOfDeviceMemory", "failed to allocate", "CUDA error")
"""Words of errors that are of a server itself and never of a request."""


class NotExecutable(Exception):
    """The program cannot be started at all; the message says why."""


class ServerProcess:
    """A process that runs, or did. Made by `start`; whoever has it ends it with `stop`."""

    def __init__(self, launcher: Process, log: LogTail) -> None:
        self._launcher = launcher
        self._log = log
        self._reading = asyncio.create_task(self._read())
        self._ending = asyncio.create_task(self._end())
        self._why_killed = ""
        self.pid = 0
        """The server's own, not the launcher's."""

    @classmethod
    async def start(cls, command: Sequence[str], environment: Mapping[str, str], log: LogTail) -> ServerProcess:
        """Start it. Raises `NotExecutable`."""
        # A session of its own: Ctrl-C in the terminal is for us, and the server ends after the last answer has left.
        try:
            launcher = await asyncio.create_subprocess_exec(
                *supervised(command),
                stdin=PIPE, stdout=PIPE, stderr=PIPE, env=dict(environment), start_new_session=True,
            )  # fmt: skip
        except OSError as exc:  # no memory or no file handle left for a process
            raise NotExecutable(f"no process can be started: {exc.strerror or exc}") from exc
        process = cls(launcher, log)
        try:
            await process._hear()  # our own
        except BaseException:
            await process.kill()
            raise
        return process

    @property
    def has_ended(self) -> bool:
        """Whether it is over, as far as is known by now."""
        return self._ending.done()

    async def ended(self) -> None:
        """Wait for its end, by whatever cause."""
        await asyncio.shield(self._ending)

    def end_in_words(self, *, loading: bool) -> str:
        """How it ended, and why by its own words; for one that has.

        While `loading` the first error is the cause. Later its errors may be of other requests and quote them, which
        health checks and our log must not: of those only the ones that are of its own state are told.
        """
        if self._why_killed:
            return self._why_killed
        code = self._launcher.returncode or 0
        if code == -signal.SIGKILL:  # by somebody else, so its log does not tell why
            return "it was killed by SIGKILL (out of memory?)"
        how = f"it was killed by {signal.Signals(-code).name}" if code < 0 else f"it ended with code {code}"
        faults = self._log.faults()
        if loading:
            said = faults[0] if faults else self._log.latest
        else:
            said = next((fault for fault in reversed(faults) if any(word in fault for word in _OF_ITSELF)), "")
        return f"{how}: {said}" if said else how

    async def stop(self, seconds: float) -> None:
        """Ask it to end, and kill it when it has not after so long."""
        if not self.has_ended:
            with suppress(ProcessLookupError):
                os.killpg(self._launcher.pid, signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.ended()
        await self.kill()

    async def kill(self, why: str = "") -> None:
        """End it now, and all it has started; `why` is how it ended then. One that even so does not end, in its driver
        perhaps, is left to the launcher, which goes on killing it.
        """
        self._why_killed = self._why_killed or why
        assert self._launcher.stdin is not None  # noqa: S101  # it is a pipe
        self._launcher.stdin.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_DYING_SECONDS):
                await self.ended()

    async def _hear(self) -> None:
        """What the launcher says of how it went."""
        assert self._launcher.stdout is not None  # noqa: S101  # it is a pipe
        line = await self._launcher.stdout.readline()
        if not line:
            raise NotExecutable(f"the launcher failed: {self._log.latest}")
        said = json.loads(line)
        if "error" in said:
            raise NotExecutable(said["error"])
        self.pid = said["pid"]

    async def _read(self) -> None:
        """Take what it says until the end, or it would block on a full pipe."""
        assert self._launcher.stderr is not None  # noqa: S101  # it is a pipe
        while piece := await self._launcher.stderr.read(_PIECE):
            self._log.feed(piece)

    async def _end(self) -> None:
        await self._launcher.wait()
        await self._reading
