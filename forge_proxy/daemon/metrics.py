"""The metrics of a daemon: connects them to the parts whose state they show."""

from __future__ import annotations

import asyncio

from forge_proxy.daemon.container import EngineAssembly
from forge_proxy.telemetry.metrics import DaemonMetrics, LiveState

_HEALTH_SECONDS = 2.0
"""How long a scrape waits for the model server, which may hang. Prometheus itself waits for 10 s by default."""


def build_metrics(parts: EngineAssembly) -> DaemonMetrics:
    """Return the metrics over these parts. They still have to be added to the listeners of events."""
    engine = parts.engine

    async def read_state() -> LiveState:
        try:
            async with asyncio.timeout(_HEALTH_SECONDS):
                is_up = (await parts.backend.health()).status == "ok"
        except TimeoutError:
            is_up = False
        return LiveState(is_up, engine.queue.waiting, engine.queue.running, engine.models.first_known)

    return DaemonMetrics(engine.models.is_known, read_state)
