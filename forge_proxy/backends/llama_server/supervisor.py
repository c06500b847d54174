"""The task that owns the process of one managed server. It executes commands one after the other and, between them,
watches the server, restarts it after a crash and unloads it when idle.
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
from forge_proxy.backends.llama_server.instance import CannotStart, ServerInstance, check, start_instance
from forge_proxy.backends.llama_server.launch import LaunchSpec
from forge_proxy.backends.llama_server.log_tail import LogTail
from forge_proxy.backends.llama_server.server_state import ServerState
from forge_proxy.backends.llama_server.status import COMING
from forge_proxy.core.backend_errors import BackendDown
from forge_proxy.core.errors import ForgeError
from forge_proxy.engine.ports import Clock

_FOREVER = float("inf")


class Supervisor:
    """The supervisor of one server process. Call `close` in the event loop in which it was used."""

    def __init__(self, state: ServerState, config: LlamaServerConfig, http: HttpClient, clock: Clock) -> None:
        self._state = state
        self._config = config
        self._http = http
        self._clock = clock
        self.log = LogTail()
        self.instance: ServerInstance | None = None
        """The running server; it may have just exited."""
        self.latest: ServerInstance | None = None
        """The server that was ready last; it may have exited."""
        self._proven: LaunchSpec | None = None
        """The last specification that became ready: a failed switch returns to it."""
        self._crashes = CrashCounter()
        self._uses = 0
        self._used_at = clock.now()
        self._commands: deque[Command] = deque()
        self._wake_up = asyncio.Event()
        """Wakes the task: a command was submitted, or the last user of the server finished."""
        self._task: asyncio.Task[None] | None = None

    @property
    def has_commands(self) -> bool:
        """Whether commands are queued."""
        return bool(self._commands)

    def submit(self, verb: Verb, spec: LaunchSpec, drain: float) -> Command:
        """Queue a command. Raises `BackendDown` once the supervisor is closed."""
        if self._task is None:
            self._task = asyncio.create_task(self._supervise())
        elif self._task.done():
            raise BackendDown(self._state.name, "forge-proxy is stopping")
        done: asyncio.Future[Done] = asyncio.get_running_loop().create_future()
        done.add_done_callback(_retrieve_exception)
        command = Command(verb, spec, drain, done)
        self._commands.append(command)
        self._wake_up.set()
        return command

    @contextmanager
    def in_use(self) -> Generator[None]:
        """Mark the server as in use: it is not unloaded, and a stop waits for the drain time."""
        self._uses += 1
        try:
            yield
        finally:
            self._uses -= 1
            self._used_at = self._clock.now()
            if self._uses == 0:
                self._wake_up.set()

    async def close(self) -> None:
        """Stop the server and the supervisor. Requests should have ended."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            if not self._task.cancelled():
                self._task.result()

    async def _supervise(self) -> None:
        command: Command | None = None
        try:
            while True:
                command = await self._next()
                try:
                    done = await self._execute(command)
                except ForgeError as error:
                    command.done.set_exception(error)
                else:
                    command.done.set_result(done)
        finally:
            if command is not None:
                self._commands.appendleft(command)
            await self._end_run()
            self._state.set("stopped")
            for pending in self._commands:
                if not pending.done.done():
                    pending.done.set_exception(BackendDown(self._state.name, "forge-proxy is stopping"))

    async def _next(self) -> Command:
        """Wait for the next command and watch the server meanwhile."""
        while not self._commands:
            self._wake_up.clear()
            if self.instance is None:
                await self._wake_up.wait()
            elif self.instance.process.has_ended:
                await self._recover(self.instance.process.describe_end(loading=False))
            elif (remaining := self._seconds_awake()) <= 0:
                await self._end_run()
                self._state.set("asleep")
            else:
                await _first(self._wake_up.wait(), self.instance.process.wait(), seconds=remaining)
        return self._commands.popleft()

    def _seconds_awake(self) -> float:
        """Return the seconds until the idle server is unloaded; infinite while it is in use."""
        idle = self._config.idle_unload_seconds
        if idle is None or self._uses:
            return _FOREVER
        return self._used_at + idle - self._clock.now()

    async def _execute(self, command: Command) -> Done:
        match command.verb:
            case "ensure":
                return await self._switch(command.spec, command.drain)
            case "start":
                if self.instance is not None:
                    return "reused"
                await self._start(self._state.status.spec)
                return "started"
            case "wake":
                if self._state.status.state == "asleep":
                    await self._recover(None)
                return "started"
            case "stop":
                await self._halt(command.drain)
                self._state.set("stopped")
                return "stopped"
            case "restart":
                await self._halt(command.drain)
                await self._start(self._state.status.spec)
                return "started"
            case _:
                assert_never(command.verb)

    async def _switch(self, spec: LaunchSpec, drain: float) -> Done:
        if self.instance is not None and spec == self._state.status.spec:
            return "reused"
        await asyncio.to_thread(check, spec)
        before, proven = self._state.status, self._proven
        ran = self.instance is not None or before.state in COMING
        await self._halt(drain)
        undone = proven is not None and proven != spec
        try:
            await self._start(spec, undone=undone)
        except CannotStart as fault:
            if proven is None or not undone:
                raise
            if not ran:
                self._state.set(before.state, spec=proven)
                why = f"{fault.why}; the previous settings are kept"
                raise SwitchFailed(spec, why, restored=True) from fault
            try:
                await self._start(proven)
            except CannotStart as worse:
                why = f"{fault.why}; the previous configuration failed as well: {worse.why}"
                raise SwitchFailed(spec, why, restored=False) from fault
            raise SwitchFailed(spec, f"{fault.why}; the previous configuration runs again", restored=True) from fault
        return "switched" if ran else "started"

    async def _start(self, spec: LaunchSpec, *, undone: bool = False) -> None:
        """Start the server on command. Raises on failure, without a retry.

        If the failure will be `undone`, the state does not become failed, and waiting requests keep waiting.
        """
        self._crashes = CrashCounter()
        self._state.set("starting", spec=spec)
        try:
            await self._run_unless_superseded(self._bring_up(spec))
        except CannotStart as fault:
            self._state.set("starting" if undone else "failed", error=str(fault))
            raise

    async def _recover(self, why: str | None) -> None:
        """Start the server after a crash (`why`) or from sleep (None). Retries on failure, up to the crash limit."""
        spec = self._state.status.spec
        with suppress(Superseded):  # the superseding command decides what happens next
            while True:
                if why is not None:
                    run = self.instance
                    up = self._clock.now() - run.ready_at if run else 0
                    self._crashes = self._crashes.add(answered=bool(run and run.has_responded), up_seconds=up)
                    await self._end_run()
                    if self._crashes.is_loop:
                        error = (
                            f"{self._state.name} crashed {self._crashes.in_a_row} times in a row, most recently: {why}"
                        )
                        self._state.set("crash-loop", error=error)
                        return
                    self._state.set("starting", error=why, restarts=self._state.status.restarts + 1)
                    await self._run_unless_superseded(asyncio.sleep(self._crashes.pause))
                try:
                    await self._run_unless_superseded(self._bring_up(spec))
                except CannotStart as fault:
                    why = fault.why
                else:
                    return

    async def _bring_up(self, spec: LaunchSpec) -> None:
        self._state.set("starting", spec=spec)
        run = await start_instance(spec, self._config, self._http, self._clock, self.log, self._state.report_loading)
        self.instance = self.latest = run
        self._proven = spec
        self._used_at = self._clock.now()
        self._state.set("ready")

    async def _halt(self, drain: float) -> None:
        """Stop the server after its requests end or `drain` seconds pass. New requests wait meanwhile."""
        if self.instance is None:
            return
        self._state.set("draining")
        until = self._clock.now() + drain
        while self._uses and (remaining := until - self._clock.now()) > 0:
            self._wake_up.clear()
            await _first(self._wake_up.wait(), self.instance.process.wait(), seconds=remaining)
            if self.instance.process.has_ended:
                break
        await self._end_run()

    async def _end_run(self) -> None:
        run, self.instance = self.instance, None
        if run is not None:
            run.is_stopping = not run.process.has_ended
            await run.process.stop(self._config.stop_seconds)

    async def _run_unless_superseded(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` unless a command supersedes it. Raises `Superseded`, and what `work` raises."""
        doing = asyncio.create_task(work)
        try:
            while not doing.done():
                if any(self._supersedes(command) for command in self._commands):
                    raise Superseded(self._state.name, f"{self._state.name} was stopped before it was ready")
                self._wake_up.clear()
                await _first(self._wake_up.wait(), asyncio.wait([doing]), seconds=_FOREVER)
            doing.result()
        finally:
            doing.cancel()
            await asyncio.wait([doing])
            if not doing.cancelled():
                doing.exception()  # retrieved so that asyncio does not log it: the caller gets `Superseded`

    def _supersedes(self, command: Command) -> bool:
        """Return whether a command supersedes the start of the server that `status` names."""
        match command.verb:
            case "stop" | "restart":
                return True
            case "ensure":
                return command.spec != self._state.status.spec
            case "start" | "wake":
                return False
            case _:
                assert_never(command.verb)


async def _first(*waits: Coroutine[Any, Any, Any], seconds: float) -> None:
    """Wait until one coroutine finishes or `seconds` pass, then cancel the others."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        timeout = None if seconds == _FOREVER else seconds
        await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


def _retrieve_exception(done: asyncio.Future[Done]) -> None:
    """Retrieve the exception: the waiter may be gone, and asyncio logs exceptions that are never retrieved."""
    if not done.cancelled():
        done.exception()
