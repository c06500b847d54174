"""What state a managed server is in, for all to see; those who wait for another one are woken. Written by its owner."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

from forge_proxy.backends.llama_server.launch import LaunchSpec
from forge_proxy.backends.llama_server.status import LoadProgress, ServerStatus, State
from forge_proxy.engine.events import ServerStateChanged
from forge_proxy.engine.ports import Observer

_TOLD_EVERY = 10.0
"""Seconds between reports of how a load gets on."""


class ServerState:
    """The status now, each turn of which is observed."""

    def __init__(self, spec: LaunchSpec, observe: Observer) -> None:
        self.status = ServerStatus("stopped", spec, time.time())
        self._observe = observe
        self._turned = asyncio.Event()
        """Set, and replaced, whenever the state changes."""
        self._told = 0.0

    @property
    def name(self) -> str:
        """The kind of program."""
        return self.status.spec.program.kind

    @property
    def in_words(self) -> str:
        """The state, and how a load gets on."""
        return str(self.status.progress or self.status.state)

    async def turns(self) -> None:
        """Wait for the next turn."""
        await self._turned.wait()

    def turn(
        self,
        state: State,
        *,
        spec: LaunchSpec | None = None,
        error: str | None = None,
        restarts: int | None = None,
    ) -> None:
        """The state is another one: all who wait for that look again."""
        old = self.status
        kept = state in ("ready", "draining")
        self.status = ServerStatus(
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
            self._observe(ServerStateChanged(self.name, state, error))

    def loading(self, pid: int, progress: LoadProgress | None) -> None:
        """A load gets on: told now and then."""
        if self.status.state != "loading":
            self._told = 0.0
            self.turn("loading")
        if progress and progress.seconds >= self._told + _TOLD_EVERY:
            self._told = progress.seconds
            self._observe(ServerStateChanged(self.name, "loading", str(progress)))
        self.status = replace(self.status, pid=pid, progress=progress)
