"""The supervisor of one managed llama.cpp server: starts it, keeps it alive, stops, restarts and exchanges it.

One task owns the process and does one thing after the other. What callers want they order, and wait for; requests have
the server by `use`, and wait there while there is none. Who waits may leave at any time: what was ordered is done
nevertheless, so a server is never left half exchanged.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, assert_never

from forge_proxy.backends.config import LlamaServerConfig
from forge_proxy.backends.http import HttpClient
from forge_proxy.backends.llama_server.crashes import Crashes
from forge_proxy.backends.llama_server.launch import LaunchSpec
from forge_proxy.backends.llama_server.log_tail import LogTail
from forge_proxy.backends.llama_server.run import CannotStart, Run, bring_up, check
from forge_proxy.backends.llama_server.status import COMING, Progress, ServerStatus, State
from forge_proxy.core.errors import BackendDown, BackendNotReady, ForgeError
from forge_proxy.engine.events import ServerTurned
from forge_proxy.engine.ports import Clock, Observer

Done: TypeAlias = Literal["reused", "started", "switched", "stopped"]
"""What came of an order: the server ran already as it should, it was started, or exchanged for another, or stopped."""

_FOREVER = float("inf")
_TOLD_EVERY = 10.0
"""Seconds between reports of how a load gets on."""
_COME_AGAIN = 5
"""Seconds after which a caller who has waited in vain is told to come again."""


class Overruled(BackendDown):
    """Another order came before this one was carried out, and undoes it."""


class SwitchFailed(CannotStart):
    """The new server could not be started. `restored` tells whether the one before runs again, or rests as before."""

    def __init__(self, spec: LaunchSpec, why: str, *, restored: bool) -> None:
        super().__init__(spec, why)
        self.restored = restored


@dataclass(eq=False)
class _Order:
    verb: Literal["ensure", "start", "stop", "restart", "wake"]
    spec: LaunchSpec
    drain: float
    done: asyncio.Future[Done]


class ServerManager:
    """One server. `close` it at the end, in the loop in which it was used."""

    def __init__(
        self, spec: LaunchSpec, config: LlamaServerConfig, http: HttpClient, clock: Clock, observe: Observer
    ) -> None:
        self._config = config
        self._http = http
        self._clock = clock
        self._observe = observe
        self._log = LogTail()
        self._run: Run | None = None
        self._latest: Run | None = None
        self._status = ServerStatus("stopped", spec, time.time())
        self._proven: LaunchSpec | None = None
        """The last one that became ready: a switch that fails goes back to it."""
        self._crashes = Crashes()
        self._told = 0.0
        self._uses = 0
        self._used_at = clock.now()
        self._orders: deque[_Order] = deque()
        self._stirred = asyncio.Event()
        """An order has come, or the server is in use no more: the owner looks."""
        self._turned = asyncio.Event()
        """Set, and replaced, whenever the state changes."""
        self._owner: asyncio.Task[None] | None = None

    async def ensure(self, spec: LaunchSpec, *, drain_seconds: float | None = None) -> Done:
        """Have this run. One that runs already is left alone; another one is stopped first, its requests given
        `drain_seconds` to end.

        Raises `CannotStart`; `SwitchFailed` where there was another one before, which then runs again; `Overruled`.
        """
        return await self._order("ensure", spec, drain_seconds)

    async def start(self) -> Done:
        """Start what was stopped, has failed, or is asleep. Raises `CannotStart` or `Overruled`."""
        return await self._order("start")

    async def stop(self, *, drain_seconds: float | None = None) -> Done:
        """Stop it until it is started again. Requests that come are refused."""
        return await self._order("stop", drain_seconds=drain_seconds)

    async def restart(self, *, drain_seconds: float | None = None) -> Done:
        """Stop and start it. Requests that come wait. Raises as `start`."""
        return await self._order("restart", drain_seconds=drain_seconds)

    def status(self) -> ServerStatus:
        """How it is now."""
        return self._status

    def logs(self, count: int = 100) -> list[str]:
        """The last lines that it said, and the ones before it, oldest first."""
        return self._log.last(count)

    @property
    def current(self) -> Run | None:
        """The server that runs and is ready; None while there is none."""
        return self._run if self._status.state == "ready" else None

    @property
    def latest(self) -> Run | None:
        """The server that was ready last, for what it told of itself; it may have ended."""
        return self._latest

    @asynccontextmanager
    async def use(self) -> AsyncGenerator[Run]:
        """Have the server for one request: waits for it, wakes it, and keeps it from being unloaded or stopped.

        Raises `BackendNotReady` when that takes too long, `BackendDown` when it does not come by itself.
        """
        run = await self.ready(wake=True)
        self._uses += 1
        try:
            yield run
        finally:
            self._uses -= 1
            self._used_at = self._clock.now()
            if self._uses == 0:
                self._stirred.set()

    async def ready(self, *, wake: bool) -> Run:
        """The server once it is ready. Raises as `use`; without `wake` also where it is asleep."""
        try:
            async with asyncio.timeout(self._config.wait_seconds):
                while (run := self._run_for_use(wake=wake)) is None:
                    await self._turned.wait()
                return run
        except TimeoutError as exc:
            raise BackendNotReady(self._name, self._in_words(), _COME_AGAIN) from exc

    async def close(self) -> None:
        """End the server, and this. Requests should have ended."""
        if self._owner is not None:
            self._owner.cancel()
            await asyncio.wait([self._owner])
            if not self._owner.cancelled():
                self._owner.result()

    # What callers do.

    @property
    def _name(self) -> str:
        return self._status.spec.program.kind

    def _in_words(self) -> str:
        status = self._status
        return str(status.progress) if status.progress else status.state

    def _run_for_use(self, *, wake: bool) -> Run | None:
        match self._status.state:
            case "ready":
                return None if self._run is None or self._run.process.has_ended else self._run
            case "asleep" if wake:
                if not self._orders:
                    self._submit("wake", self._status.spec, 0)
                return None
            case "asleep":
                raise BackendDown(self._name, f"{self._name} is asleep")
            case "stopped":
                raise BackendDown(self._name, f"{self._name} has been stopped")
            case "failed" | "crash-loop":
                raise BackendDown(self._name, self._status.last_error or "")
            case "starting" | "loading" | "draining":
                return None
            case _:
                assert_never(self._status.state)

    async def _order(
        self,
        verb: Literal["ensure", "start", "stop", "restart"],
        spec: LaunchSpec | None = None,
        drain_seconds: float | None = None,
    ) -> Done:
        drain = self._config.drain_seconds if drain_seconds is None else drain_seconds
        return await asyncio.shield(self._submit(verb, spec or self._status.spec, drain).done)

    def _submit(
        self, verb: Literal["ensure", "start", "stop", "restart", "wake"], spec: LaunchSpec, drain: float
    ) -> _Order:
        if self._owner is None:
            self._owner = asyncio.create_task(self._own())
        elif self._owner.done():
            raise BackendDown(self._name, "forge-proxy is stopping")
        done: asyncio.Future[Done] = asyncio.get_running_loop().create_future()
        done.add_done_callback(_look_at)
        order = _Order(verb, spec, drain, done)
        self._orders.append(order)
        self._stirred.set()
        return order

    # What the owner does, and nobody else.

    async def _own(self) -> None:
        order: _Order | None = None
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
            self._turn("stopped")
            for left in self._orders:
                if not left.done.done():
                    left.done.set_exception(BackendDown(self._name, "forge-proxy is stopping"))

    async def _next(self) -> _Order:
        """The next order. Until it comes the server is watched."""
        while not self._orders:
            self._stirred.clear()
            if self._run is None:
                await self._stirred.wait()
            elif self._run.process.has_ended:
                await self._recover(self._run.process.end_in_words(loading=False))
            elif (left := self._seconds_awake()) <= 0:
                await self._end_run()
                self._turn("asleep")
            else:
                await _first(self._stirred.wait(), self._run.process.ended(), seconds=left)
        return self._orders.popleft()

    def _seconds_awake(self) -> float:
        """How long the server stays if nobody uses it; infinite while somebody does."""
        idle = self._config.idle_unload_seconds
        if idle is None or self._uses:
            return _FOREVER
        return self._used_at + idle - self._clock.now()

    async def _obey(self, order: _Order) -> Done:
        match order.verb:
            case "ensure":
                return await self._exchange(order.spec, order.drain)
            case "start":
                if self._run is not None:
                    return "reused"
                await self._start(self._status.spec)
                return "started"
            case "wake":
                if self._status.state == "asleep":
                    await self._recover(None)
                return "started"
            case "stop":
                await self._halt(order.drain)
                self._turn("stopped")
                return "stopped"
            case "restart":
                await self._halt(order.drain)
                await self._start(self._status.spec)
                return "started"
            case _:
                assert_never(order.verb)

    async def _exchange(self, spec: LaunchSpec, drain: float) -> Done:
        if self._run is not None and spec == self._status.spec:
            return "reused"
        await asyncio.to_thread(check, spec)
        before, proven = self._status, self._proven
        ran = self._run is not None or before.state in COMING
        await self._halt(drain)
        undone = proven is not None and proven != spec
        try:
            await self._start(spec, undone=undone)
        except CannotStart as fault:
            if proven is None or not undone:
                raise
            if not ran:
                self._turn(before.state, spec=proven)
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
        self._crashes = Crashes()
        self._turn("starting", spec=spec)
        try:
            await self._unless_overruled(self._bring_up(spec))
        except CannotStart as fault:
            self._turn("starting" if undone else "failed", error=str(fault))
            raise

    async def _recover(self, why: str | None) -> None:
        """Start it because it is needed: after a crash, or, without one, from its sleep. What fails is tried again."""
        spec = self._status.spec
        with suppress(Overruled):  # then the order that did so says what shall be
            while True:
                if why is not None:
                    run = self._run
                    up = self._clock.now() - run.since if run else 0
                    self._crashes = self._crashes.one_more(answered=bool(run and run.answered), up_seconds=up)
                    await self._end_run()
                    if self._crashes.is_loop:
                        error = f"{self._name} crashed {self._crashes.in_a_row} times in a row, at last: {why}"
                        self._turn("crash-loop", error=error)
                        return
                    self._turn("starting", error=why, restarts=self._status.restarts + 1)
                    await self._unless_overruled(asyncio.sleep(self._crashes.pause))
                try:
                    await self._unless_overruled(self._bring_up(spec))
                except CannotStart as fault:
                    why = fault.why
                else:
                    return

    async def _bring_up(self, spec: LaunchSpec) -> None:
        self._turn("starting", spec=spec)
        run = await bring_up(spec, self._config, self._http, self._clock, self._log, self._loading)
        self._run = self._latest = run
        self._proven = spec
        self._used_at = self._clock.now()
        self._turn("ready")

    def _loading(self, pid: int, progress: Progress | None) -> None:
        if self._status.state != "loading":
            self._told = 0.0
            self._turn("loading")
        if progress and progress.seconds >= self._told + _TOLD_EVERY:
            self._told = progress.seconds
            self._observe(ServerTurned(self._name, "loading", str(progress)))
        self._status = replace(self._status, pid=pid, progress=progress)

    async def _halt(self, drain: float) -> None:
        """Stop the server, its requests given time to end: those that come meanwhile wait."""
        if self._run is None:
            return
        self._turn("draining")
        until = self._clock.now() + drain
        while self._uses and (left := until - self._clock.now()) > 0:
            self._stirred.clear()
            await _first(self._stirred.wait(), self._run.process.ended(), seconds=left)
            if self._run.process.has_ended:
                break
        await self._end_run()

    async def _end_run(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            run.halting = not run.process.has_ended
            await run.process.stop(self._config.stop_seconds)

    async def _unless_overruled(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it, unless an order comes that wants something else. Raises `Overruled`, and what the work does."""
        doing = asyncio.create_task(work)
        try:
            while not doing.done():
                if any(self._overrules(order) for order in self._orders):
                    raise Overruled(self._name, f"{self._name} was stopped before it was ready")
                self._stirred.clear()
                await _first(self._stirred.wait(), asyncio.wait([doing]), seconds=_FOREVER)
            doing.result()
        finally:
            doing.cancel()
            await asyncio.wait([doing])
            if not doing.cancelled():
                doing.exception()  # looked at: what undoes it is told, not how it ended

    def _overrules(self, order: _Order) -> bool:
        """Whether an order undoes what is being done, which is to start the server of the status."""
        match order.verb:
            case "stop" | "restart":
                return True
            case "ensure":
                return order.spec != self._status.spec
            case "start" | "wake":
                return False
            case _:
                assert_never(order.verb)

    def _turn(
        self,
        state: State,
        *,
        spec: LaunchSpec | None = None,
        error: str | None = None,
        restarts: int | None = None,
    ) -> None:
        """The state is another one: all who wait for that look again."""
        old = self._status
        kept = state in ("ready", "draining")
        self._status = ServerStatus(
            state,
            spec or old.spec,
            time.time(),
            old.pid if kept else None,
            old.restarts if restarts is None else restarts,
            error or old.last_error,
        )
        self._turned.set()
        self._turned = asyncio.Event()
        if state != old.state or error:
            self._observe(ServerTurned(self._name, state, error))


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
