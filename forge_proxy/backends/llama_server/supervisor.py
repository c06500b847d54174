"""The task that owns the process of one managed server, and does one thing after the other: it carries out orders, and
between them watches over the server, starts one again that died, and ends one that nobody uses.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Generator
from contextlib import contextmanager, suppress
from typing import Any, assert_never

from forge_proxy.backends.config import LlamaServerConfig
from forge_proxy.backends.http import HttpClient
from forge_proxy.backends.llama_server.commands import Command, Done, Superseded, SwitchFailed, Verb
from forge_proxy.backends.llama_server.crashes import CrashCounter
from forge_proxy.backends.llama_server.instance import CannotStart, ServerInstance, bring_up, check
from forge_proxy.backends.llama_server.launch import LaunchSpec
from forge_proxy.backends.llama_server.log_tail import LogTail
from forge_proxy.backends.llama_server.server_state import ServerState
from forge_proxy.backends.llama_server.status import COMING
from forge_proxy.core.errors import BackendDown, ForgeError
from forge_proxy.engine.ports import Clock

_FOREVER = float("inf")


class Supervisor:
    """Of one server. `close` it at the end, in the loop in which it was used."""

    def __init__(self, board: ServerState, config: LlamaServerConfig, http: HttpClient, clock: Clock) -> None:
        self._board = board
        self._config = config
        self._http = http
        self._clock = clock
        self.log = LogTail()
        self.run: ServerInstance | None = None
        """The server that runs; it may have ended a moment ago."""
        self.latest: ServerInstance | None = None
        """The server that was ready last; it may have ended."""
        self._proven: LaunchSpec | None = None
        """The last one that became ready: a switch that fails goes back to it."""
        self._crashes = CrashCounter()
        self._uses = 0
        self._used_at = clock.now()
        self._orders: deque[Command] = deque()
        self._stirred = asyncio.Event()
        """An order has come, or the server is in use no more: the owner looks."""
        self._task: asyncio.Task[None] | None = None

    @property
    def is_ordered(self) -> bool:
        """Whether something is going to be done."""
        return bool(self._orders)

    def submit(self, verb: Verb, spec: LaunchSpec, drain: float) -> Command:
        """Have it done after what was ordered before. Raises `BackendDown` once this is closed."""
        if self._task is None:
            self._task = asyncio.create_task(self._own())
        elif self._task.done():
            raise BackendDown(self._board.name, "forge-proxy is stopping")
        done: asyncio.Future[Done] = asyncio.get_running_loop().create_future()
        done.add_done_callback(_look_at)
        order = Command(verb, spec, drain, done)
        self._orders.append(order)
        self._stirred.set()
        return order

    @contextmanager
    def in_use(self) -> Generator[None]:
        """In here the server is in use: it is not unloaded, and not stopped without some patience."""
        self._uses += 1
        try:
            yield
        finally:
            self._uses -= 1
            self._used_at = self._clock.now()
            if self._uses == 0:
                self._stirred.set()

    async def close(self) -> None:
        """End the server, and this. Requests should have ended."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            if not self._task.cancelled():
                self._task.result()

    async def _own(self) -> None:
        order: Command | None = None
        try:
            while True:
                order = await self._next()
                try:
                    done = await self._obey(order)
                except ForgeError as error:
                    order.done.set_exception(error)
                else:
                    order.done.set_result(done)
        finally:
            if order is not None:
                self._orders.appendleft(order)
            await self._end_run()
            self._board.turn("stopped")
            for left in self._orders:
                if not left.done.done():
                    left.done.set_exception(BackendDown(self._board.name, "forge-proxy is stopping"))

    async def _next(self) -> Command:
        """The next order. Until it comes the server is watched."""
        while not self._orders:
            self._stirred.clear()
            if self.run is None:
                await self._stirred.wait()
            elif self.run.process.has_ended:
                await self._recover(self.run.process.end_in_words(loading=False))
            elif (left := self._seconds_awake()) <= 0:
                await self._end_run()
                self._board.turn("asleep")
            else:
                await _first(self._stirred.wait(), self.run.process.ended(), seconds=left)
        return self._orders.popleft()

    def _seconds_awake(self) -> float:
        """How long the server stays if nobody uses it; infinite while somebody does."""
        idle = self._config.idle_unload_seconds
        if idle is None or self._uses:
            return _FOREVER
        return self._used_at + idle - self._clock.now()

    async def _obey(self, order: Command) -> Done:
        match order.verb:
            case "ensure":
                return await self._exchange(order.spec, order.drain)
            case "start":
                if self.run is not None:
                    return "reused"
                await self._start(self._board.status.spec)
                return "started"
            case "wake":
                if self._board.status.state == "asleep":
                    await self._recover(None)
                return "started"
            case "stop":
                await self._halt(order.drain)
                self._board.turn("stopped")
                return "stopped"
            case "restart":
                await self._halt(order.drain)
                await self._start(self._board.status.spec)
                return "started"
            case _:
                assert_never(order.verb)

    async def _exchange(self, spec: LaunchSpec, drain: float) -> Done:
        if self.run is not None and spec == self._board.status.spec:
            return "reused"
        await asyncio.to_thread(check, spec)
        before, proven = self._board.status, self._proven
        ran = self.run is not None or before.state in COMING
        await self._halt(drain)
        undone = proven is not None and proven != spec
        try:
            await self._start(spec, undone=undone)
        except CannotStart as fault:
            if proven is None or not undone:
                raise
            if not ran:
                self._board.turn(before.state, spec=proven)
                why = f"{fault.why}; the settings before are kept"
                raise SwitchFailed(spec, why, restored=True) from fault
            try:
                await self._start(proven)
            except CannotStart as worse:
                why = f"{fault.why}; nor does it start as before: {worse.why}"
                raise SwitchFailed(spec, why, restored=False) from fault
            raise SwitchFailed(spec, f"{fault.why}; it runs as before again", restored=True) from fault
        return "switched" if ran else "started"

    async def _start(self, spec: LaunchSpec, *, undone: bool = False) -> None:
        """Start it because somebody said so: what fails is told, and not tried again.

        A failure that is going to be `undone` is none of the server's states: those who wait do so still.
        """
        self._crashes = CrashCounter()
        self._board.turn("starting", spec=spec)
        try:
            await self._unless_overruled(self._bring_up(spec))
        except CannotStart as fault:
            self._board.turn("starting" if undone else "failed", error=str(fault))
            raise

    async def _recover(self, why: str | None) -> None:
        """Start it because it is needed: after a crash, or, without one, from its sleep. What fails is tried again."""
        spec = self._board.status.spec
        with suppress(Superseded):  # then the order that did so says what shall be
            while True:
                if why is not None:
                    run = self.run
                    up = self._clock.now() - run.since if run else 0
                    self._crashes = self._crashes.one_more(answered=bool(run and run.answered), up_seconds=up)
                    await self._end_run()
                    if self._crashes.is_loop:
                        error = f"{self._board.name} crashed {self._crashes.in_a_row} times in a row, at last: {why}"
                        self._board.turn("crash-loop", error=error)
                        return
                    self._board.turn("starting", error=why, restarts=self._board.status.restarts + 1)
                    await self._unless_overruled(asyncio.sleep(self._crashes.pause))
                try:
                    await self._unless_overruled(self._bring_up(spec))
                except CannotStart as fault:
                    why = fault.why
                else:
                    return

    async def _bring_up(self, spec: LaunchSpec) -> None:
        self._board.turn("starting", spec=spec)
        run = await bring_up(spec, self._config, self._http, self._clock, self.log, self._board.loading)
        self.run = self.latest = run
        self._proven = spec
        self._used_at = self._clock.now()
        self._board.turn("ready")

    async def _halt(self, drain: float) -> None:
        """Stop the server, its requests given time to end: those that come meanwhile wait."""
        if self.run is None:
            return
        self._board.turn("draining")
        until = self._clock.now() + drain
        while self._uses and (left := until - self._clock.now()) > 0:
            self._stirred.clear()
            await _first(self._stirred.wait(), self.run.process.ended(), seconds=left)
            if self.run.process.has_ended:
                break
        await self._end_run()

    async def _end_run(self) -> None:
        run, self.run = self.run, None
        if run is not None:
            run.halting = not run.process.has_ended
            await run.process.stop(self._config.stop_seconds)

    async def _unless_overruled(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it, unless an order comes that wants something else. Raises `Superseded`, and what the work does."""
        doing = asyncio.create_task(work)
        try:
            while not doing.done():
                if any(self._overrules(order) for order in self._orders):
                    raise Superseded(self._board.name, f"{self._board.name} was stopped before it was ready")
                self._stirred.clear()
                await _first(self._stirred.wait(), asyncio.wait([doing]), seconds=_FOREVER)
            doing.result()
        finally:
            doing.cancel()
            await asyncio.wait([doing])
            if not doing.cancelled():
                doing.exception()  # looked at: what undoes it is told, not how it ended

    def _overrules(self, order: Command) -> bool:
        """Whether an order undoes what is being done, which is to start the server of the status."""
        match order.verb:
            case "stop" | "restart":
                return True
            case "ensure":
                return order.spec != self._board.status.spec
            case "start" | "wake":
                return False
            case _:
                assert_never(order.verb)


async def _first(*waits: Coroutine[Any, Any, Any], seconds: float) -> None:
    """Wait until one of them is through, or for so long. Those that are not are cancelled."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        timeout = None if seconds == _FOREVER else seconds
        await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


def _look_at(done: asyncio.Future[Done]) -> None:
    """Nobody may be waiting any more who would: asyncio complains of an exception that nobody looked at."""
    if not done.cancelled():
        done.exception()
