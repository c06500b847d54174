"""Runs work that would block the event loop, such as parsing badly malformed replies, in a few child processes.

Processes instead of threads: a computing thread shares the interpreter's lock with the loop and cannot be stopped.
They start on demand and end after a period of idleness. `process_pool_child.py` is their program.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

from forge_proxy.core.guardrails.extraction import Extraction, extract
from forge_proxy.core.guardrails.turn import Turn
from forge_proxy.core.stream import Reply
from forge_proxy.processes.pipes import write_to_pipe

_T = TypeVar("_T")

_MAX_WAITING = 8
"""Work items that may wait for a process. Further ones would mostly time out, so they are rejected at once."""


class ProcessPool:
    """Runs work in at most `processes` processes. `seconds` is its time limit, including the wait for a process."""

    def __init__(self, processes: int = 2, seconds: float = 5.0, idle_seconds: float = 300.0) -> None:
        self._free = asyncio.Semaphore(processes)
        self._max_active = processes + _MAX_WAITING
        self._seconds = seconds
        self._idle_seconds = idle_seconds
        self._active = 0
        self._workers: set[_Worker] = set()
        self._idle: list[_Worker] = []
        self._closed = False

    async def read(self, turn: Turn, reply: Reply, *, lightly: bool = False) -> Extraction | None:
        """See `engine.ports.ThoroughReader`."""
        # The conversation and log probabilities may be megabytes and are not needed to parse a reply.
        turn, reply = replace(turn, messages=()), replace(reply, choice_fields={}, logprobs=None)
        return await self.run(partial(extract, turn, reply, thorough=not lightly))

    async def run(self, work: Callable[[], _T]) -> _T | None:
        """Return the result of `work`; None if it fails, takes too long, or the queue is full.

        The work and its result travel between processes: both must be picklable.
        """
        if self._active == self._max_active:
            return None
        self._active += 1
        try:
            async with asyncio.timeout(self._seconds), self._free:
                answer = await self._execute(pickle.dumps(work))
        except (OSError, EOFError, RecursionError):  # timeouts are OSErrors; deep nesting cannot be pickled
            return None
        finally:
            self._active -= 1
        return pickle.loads(answer)  # noqa: S301  from a process of this pool

    async def close(self) -> None:
        """Kill all processes, including busy ones: their `run` calls return None."""
        self._closed = True
        for worker in tuple(self._workers):
            await self._end(worker)

    async def _execute(self, work: bytes) -> bytes:
        """Send the work to a process. A process that fails, or whose work is cancelled, is killed.

        Raises `EOFError` or `OSError`.
        """
        if self._closed:
            raise EOFError
        worker = self._take_idle() or await self._start()
        try:
            answer = await worker.execute(work)
        except BaseException:
            await self._end(worker)
            raise
        worker.retiring = asyncio.get_running_loop().call_later(self._idle_seconds, self._retire, worker)
        self._idle.append(worker)
        return answer

    def _take_idle(self) -> _Worker | None:
        """Return the process that became idle last, so that the others can retire."""
        while self._idle:
            worker = self._idle.pop()
            if worker.retiring:
                worker.retiring.cancel()
            if worker.is_alive:
                return worker
            self._workers.discard(worker)
        return None

    async def _start(self) -> _Worker:
        # The child uses this process's module path. Without -P it would import from the working directory, which
        # anyone may write.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        # A separate session: Ctrl-C in the terminal must reach only the daemon.
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "forge_proxy.engine.process_pool_child", str(os.getpid()),
            stdin=PIPE, stdout=PIPE, env=environment, start_new_session=True,
        )  # fmt: skip
        worker = _Worker(process)
        self._workers.add(worker)
        if self._closed:  # closed while the process was starting
            worker.kill()
        return worker

    def _retire(self, worker: _Worker) -> None:
        self._idle.remove(worker)
        self._workers.discard(worker)
        worker.kill()

    async def _end(self, worker: _Worker) -> None:
        self._workers.discard(worker)
        if worker in self._idle:
            self._idle.remove(worker)
        worker.kill()
        await worker.wait()


class _Worker:
    """One process that runs `process_pool_child.py`, one work item at a time."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.retiring: asyncio.TimerHandle | None = None

    @property
    def is_alive(self) -> bool:
        return self._process.returncode is None

    async def execute(self, work: bytes) -> bytes:
        """Return the pickled result. Raises `EOFError` or `OSError` if the process ends during the work."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None  # noqa: S101  # they are pipes
        assert stdout is not None  # noqa: S101
        await write_to_pipe(stdin, work)
        length = int.from_bytes(await stdout.readexactly(8))
        return await stdout.readexactly(length)

    def kill(self) -> None:
        if self.retiring:
            self.retiring.cancel()
        with suppress(ProcessLookupError):
            self._process.kill()

    async def wait(self) -> None:
        await self._process.wait()
