"""The daemon embedded in a Python program, in its own thread so that neither blocks the other."""

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

from forge_proxy.api.server import address, listen
from forge_proxy.backends.selection import refuse_contradictions
from forge_proxy.daemon.app import build
from forge_proxy.daemon.options import ProxyOptions, apply_options, refuse_unsupported
from forge_proxy.settings import Settings
from forge_proxy.telemetry import logs


class ProxyServer:
    """`forge-proxy serve` within the current process.

    Use it with `async with` or `with`, or call `start` and `stop`. A program may run several. It installs no signal
    handlers and does not configure logging; it logs to the standard logger `forge_proxy`. `options` override
    `settings`; the environment is not read. Unfinished runs are resumed if `settings` set `store.url`.

    Raises `SettingsError` or `BackendChoiceError`.
    """

    def __init__(self, settings: Settings | None = None, **options: Unpack[ProxyOptions]) -> None:
        self.settings = apply_options(options, settings, ProxyOptions)
        refuse_contradictions(self.settings.backend, self.settings.models)
        self._options = options
        self._running: _Running | None = None

    @property
    def url(self) -> str:
        """The base URL for clients, with `/v1`. Raises `RuntimeError` if the server is not running."""
        if self._running is None:
            raise RuntimeError("the proxy server is not running: call start() or use it in a with statement")
        return self._running.url

    async def start(self) -> None:
        """Listen, and load the model of a managed server. Returns once both are done.

        Raises `CannotListen`, `ServerConfigError`, `BackendChoiceError`, `CannotStart` or another `BackendFault`, and
        `RuntimeError` if it is already running.
        """
        running = self._begin()
        try:
            await asyncio.shield(asyncio.wrap_future(running.started))
        except BaseException:  # the waiting task was cancelled, or the start failed
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop the proxy and everything it started, once running responses have finished.

        They have at most `server.drain_seconds`. Does nothing if it is not running.
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
            raise RuntimeError("the proxy server is already running")
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
        self._stop: Callable[[], object] = _stop_nothing
        self.url = address(*listener.getsockname()[:2])
        self.started: Future[None] = Future()
        # A daemon thread: a program that exits without `stop` does not wait for it. Child processes end with it.
        self._thread = threading.Thread(target=self._run, name="forge-proxy", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop the proxy, and wait until its thread has ended."""
        with self._ending:
            self._is_to_end = True
            stop = self._stop
        with suppress(RuntimeError):  # its event loop has closed meanwhile
            stop()
        self._thread.join()

    def _run(self) -> None:
        # Not uvloop: it sets a SIGCHLD handler, which belongs to the embedding program.
        with self._listener, asyncio.Runner() as runner:
            try:
                runner.run(self._serve())
            except asyncio.CancelledError:
                pass
            except BaseException as error:
                if self.started.done():
                    logging.getLogger("forge_proxy").exception("the proxy server failed")
                else:
                    self.started.set_exception(error)
        self.started.cancel()  # if it was stopped before it had started

    async def _serve(self) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None  # noqa: S101  # a coroutine runs in a task
        self._end_with(lambda: loop.call_soon_threadsafe(task.cancel))
        log = logs.build_standard_logger()
        async with build(self._settings, self._listener, lambda: self._settings, log) as daemon:
            refuse_unsupported(self._options, daemon.parts.choice)
            daemon.log_address()
            self._end_with(lambda: loop.call_soon_threadsafe(daemon.end, signal.SIGTERM))
            # The default store belongs to this user's daemon; its runs are not this program's.
            resumes = self._settings.store.url is not None
            await daemon.run(lambda: self.started.set_result(None), resumes=resumes)

    def _end_with(self, stop: Callable[[], object]) -> None:
        """Set the function that `end` calls. Calls it at once if `end` was already called."""
        with self._ending:
            self._stop = stop
            is_late = self._is_to_end
        if is_late:
            stop()


def _stop_nothing() -> None:
    """Do nothing: the thread has not started its event loop yet."""
