"""The daemon inside of another program: in a thread of its own, so that neither of the two holds the other up."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import Self, Unpack

from forge_proxy.api.server import listen
from forge_proxy.backends.selection import refuse_contradictions
from forge_proxy.daemon.app import build
from forge_proxy.daemon.options import ProxyOptions, refuse_unheard, settings_of
from forge_proxy.settings import Settings
from forge_proxy.telemetry import logs


class ProxyServer:
    """`forge-proxy serve` without a process of its own.

    Use it with `async with` or `with`, or call `start` and `stop`. There may be several. It installs no signal handlers
    and sets up no logging: what it has to say goes to the standard logger `forge_proxy`. `options` go over `settings`;
    the environment is not read. Runs that were left unfinished are gone on with where `settings` name a `store`. Raises
    `SettingsError` or `BackendChoiceError`.
    """

    def __init__(self, settings: Settings | None = None, **options: Unpack[ProxyOptions]) -> None:
        self.settings = settings_of(options, settings, ProxyOptions)
        refuse_contradictions(self.settings.backend, self.settings.models)
        self._options = options
        self._running: _Running | None = None

    @property
    def url(self) -> str:
        """What clients are pointed at, with `/v1`. Raises `RuntimeError` while it does not run."""
        if self._running is None:
            raise RuntimeError("the proxy server does not run: start() it, or enter it with `with`")
        return self._running.url

    async def start(self) -> None:
        """Listen, and load the model where that is ours to do; returns once both are done.

        Raises `CannotListen`, `ServerConfigError`, `BackendChoiceError`, `CannotStart` or another `BackendFault`, and
        `RuntimeError` where it runs already.
        """
        running = self._begin()
        try:
            await asyncio.shield(asyncio.wrap_future(running.started))
        except BaseException:  # whoever waits for it has left, or it has failed
            await self.stop()
            raise

    async def stop(self) -> None:
        """End it, with all it has started, once answers under way have ended, or `server.drain_seconds` have passed.

        Does nothing where it does not run.
        """
        running, self._running = self._running, None
        if running is not None:
            await asyncio.shield(asyncio.to_thread(running.end))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def __enter__(self) -> Self:
        running = self._begin()
        try:
            running.started.result()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.end()

    def _begin(self) -> _Running:
        if self._running is not None:
            raise RuntimeError("the proxy server runs already")
        self._running = _Running(self.settings, self._options, listen(self.settings.server))
        return self._running


class _Running:
    """A proxy server in its thread."""

    def __init__(self, settings: Settings, options: ProxyOptions, listener: socket.socket) -> None:
        self._settings = settings
        self._options = options
        self._listener = listener
        self._ending = threading.Lock()
        self._is_to_end = False
        self._tell_to_end: Callable[[], object] | None = None
        self.url = ""
        self.started: Future[None] = Future()
        # A program that ends without a word to us shall not wait for this; what was started ends with the process.
        self._thread = threading.Thread(target=self._run, name="forge-proxy", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """End it, and wait until it has ended."""
        with self._ending:
            self._is_to_end = True
            tell = self._tell_to_end
        if tell is not None:
            with suppress(RuntimeError):  # its loop has ended meanwhile
                tell()
        self._thread.join()

    def _run(self) -> None:
        # Not uvloop: to hear of the ends of processes that sets a signal handler, which is not ours to do here.
        with self._listener, asyncio.Runner() as runner:
            try:
                runner.run(self._serve())
            except asyncio.CancelledError:
                pass
            except BaseException as error:
                if self.started.done():
                    logging.getLogger("forge_proxy").exception("the proxy server has failed")
                else:
                    self.started.set_exception(error)
        self.started.cancel()  # where it was stopped before it had started

    async def _serve(self) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None  # noqa: S101  # a coroutine runs in a task
        self._ends_by(lambda: loop.call_soon_threadsafe(task.cancel))
        log = logs.inside_another_program()
        async with build(self._settings, self._listener, lambda: self._settings, log) as daemon:
            refuse_unheard(self._options, daemon.parts.choice)
            self.url = daemon.url
            daemon.tell_address()
            self._ends_by(lambda: loop.call_soon_threadsafe(daemon.end, signal.SIGTERM))
            # The usual store is that of this user's daemon, whose runs are none of this program's.
            resumes = self._settings.store.url is not None
            await daemon.run(lambda: self.started.set_result(None), resumes=resumes)

    def _ends_by(self, tell: Callable[[], object]) -> None:
        """From now on this is how it is told to end; at once where it is to end already."""
        with self._ending:
            self._tell_to_end = tell
            late = self._is_to_end
        if late:
            tell()
