"""The state of a managed server. The supervisor sets it; others read it and wait for changes."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

from forge_proxy.backends.llama_server.launch import LaunchSpec
from forge_proxy.backends.llama_server.status import LoadProgress, ServerStatus, State
from forge_proxy.engine.events import ServerStateChanged
from forge_proxy.engine.ports import Observer

_REPORT_INTERVAL = 10.0
"""Seconds between progress reports while loading."""


class ServerState:
    """The current status. Each change of state is reported to the observer."""

    def __init__(self, spec: LaunchSpec, observe: Observer) -> None:
        self.status = ServerStatus("stopped", spec, time.time())
        self._observe = observe
        self._changed = asyncio.Event()
        """Set, and replaced, whenever the state changes."""
        self._reported_at = 0.0

    @property
    def name(self) -> str:
        """The kind of program."""
        return self.status.spec.program.kind

    @property
    def description(self) -> str:
        """The state, or the progress of loading."""
        return str(self.status.progress or self.status.state)

    async def wait_for_change(self) -> None:
        """Wait for the next change of state."""
        await self._changed.wait()

    def set(
        self,
        state: State,
        *,
        spec: LaunchSpec | None = None,
        error: str | None = None,
        restarts: int | None = None,
    ) -> None:
        """Set the state and wake all waiting tasks."""
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
        self._changed.set()
        self._changed = asyncio.Event()
        if state != old.state or error:
            self._observe(ServerStateChanged(self.name, state, error, self.status.spec.alias))

    def report_loading(self, pid: int, progress: LoadProgress | None) -> None:
        """Update the progress of loading. The observer gets a report every 10 s."""
        if self.status.state != "loading":
            self._reported_at = 0.0
            self.set("loading")
        if progress and progress.seconds >= self._reported_at + _REPORT_INTERVAL:
            self._reported_at = progress.seconds
            self._observe(ServerStateChanged(self.name, "loading", str(progress), self.status.spec.alias))
        self.status = replace(self.status, pid=pid, progress=progress)
