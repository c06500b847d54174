"""Work that would hold the event loop up, done in a few processes of its own: reading what is badly broken.

Processes and no threads: a thread that computes shares the interpreter's lock with the loop, and cannot be stopped.
They start when they are needed and end when they have been idle for a while. What they do is in `workshop_child.py`.
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

from forge_proxy.core.guardrails.extraction import Extraction, read
from forge_proxy.core.guardrails.turn import Turn
from forge_proxy.core.stream import Reply

_T = TypeVar("_T")

_WAITING = 8
"""Pieces of work that may wait for a process. What comes beyond them would mostly wait in vain, so it is not done."""


class ProcessPool:
    """Does work in at most so many processes. `seconds` is how long it may take, the wait for a process included."""

    def __init__(self, processes: int = 2, seconds: float = 5.0, idle_seconds: float = 300.0) -> None:
        self._free = asyncio.Semaphore(processes)
        self._most = processes + _WAITING
        self._seconds = seconds
        self._idle_seconds = idle_seconds
        self._taken = 0
        self._workers: set[_Worker] = set()
        self._idle: list[_Worker] = []
        self._closed = False

    async def read(self, turn: Turn, reply: Reply, *, lightly: bool = False) -> Extraction | None:
        """See `engine.ports.ThoroughReader`."""
        # The conversation and log probabilities may be megabytes, and are not needed to read a reply.
        turn, reply = replace(turn, messages=()), replace(reply, beside={})
        return await self.run(partial(read, turn, reply, thorough=not lightly))

    async def run(self, work: Callable[[], _T]) -> _T | None:
        """What comes of `work`; None if it fails or takes too long, and if too much is being done already.

        The work goes to another process and what comes of it comes back from there: both must be fit to be pickled.
        """
        if self._taken == self._most:
            return None
        self._taken += 1
        try:
            async with asyncio.timeout(self._seconds), self._free:
                answer = await self._do(pickle.dumps(work))
        except (OSError, EOFError, RecursionError):  # timeouts are OSErrors; what nests too deeply cannot be pickled
            return None
        finally:
            self._taken -= 1
        return pickle.loads(answer)  # noqa: S301  from our own child

    async def close(self) -> None:
        """End all processes, also those that work: whoever waits for them gets None."""
        self._closed = True
        for worker in tuple(self._workers):
            await self._end(worker)

    async def _do(self, work: bytes) -> bytes:
        """Have it done. A process that failed at it, or whose work nobody waits for any more, is ended.

        Raises `EOFError` or `OSError`.
        """
        if self._closed:
            raise EOFError
        worker = self._take_idle() or await self._start()
        try:
            answer = await worker.do(work)
        except BaseException:
            await self._end(worker)
            raise
        worker.retiring = asyncio.get_running_loop().call_later(self._idle_seconds, self._retire, worker)
        self._idle.append(worker)
        return answer

    def _take_idle(self) -> _Worker | None:
        """The process that has been idle for the shortest time, so that others may retire."""
        while self._idle:
            worker = self._idle.pop()
            if worker.retiring:
                worker.retiring.cancel()
            if worker.is_alive:
                return worker
            self._workers.discard(worker)
        return None

    async def _start(self) -> _Worker:
        # The child finds modules where we do. Without -P it would look in the working directory, which is anybody's.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        # A session of its own: Ctrl-C in the terminal is for us.
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "forge_proxy.engine.process_pool_child",
            stdin=PIPE, stdout=PIPE, env=environment, start_new_session=True,
        )  # fmt: skip
        worker = _Worker(process)
        self._workers.add(worker)
        if self._closed:  # meanwhile
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
        await worker.ended()


class _Worker:
    """One process of `workshop_child.py`, which does one piece of work at a time."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.retiring: asyncio.TimerHandle | None = None

    @property
    def is_alive(self) -> bool:
        return self._process.returncode is None

    async def do(self, work: bytes) -> bytes:
        """What comes of it. Raises `EOFError` or `OSError` when the process ends over it."""
        asked, answers = self._process.stdin, self._process.stdout
        assert asked is not None  # noqa: S101  # they are pipes
        assert answers is not None  # noqa: S101
        asked.write(work)
        await asked.drain()
        length = int.from_bytes(await answers.readexactly(8))
        return await answers.readexactly(length)

    def kill(self) -> None:
        if self.retiring:
            self.retiring.cancel()
        with suppress(ProcessLookupError):
            self._process.kill()

    async def ended(self) -> None:
        await self._process.wait()
