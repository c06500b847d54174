"""The export of traces, and the observers of the texts of requests: traces may contain them, as the store may."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING

from forge_proxy.core.requests.content import AttemptContent, RequestContent
from forge_proxy.engine.ports import ContentObserver
from forge_proxy.settings import Settings, SettingsError
from forge_proxy.telemetry.fan_out import EventFanOut

if TYPE_CHECKING:  # the extra `otel`, which takes half a second to import
    from forge_proxy.telemetry.traces import TraceWriter

_LOG = logging.getLogger("forge_proxy.telemetry")


@asynccontextmanager
async def export_traces(settings: Settings, listeners: EventFanOut) -> AsyncGenerator[TraceWriter | None]:
    """Export the traces of a daemon, if the settings name a collector. Raises `SettingsError` without the extra."""
    traces = settings.telemetry.traces
    if traces.endpoint is None:
        yield None
        return
    try:
        module = await asyncio.to_thread(import_module, "forge_proxy.telemetry.traces")
    except ImportError as exc:
        raise SettingsError(
            f"telemetry.traces.endpoint needs the extra otel: install forge-proxy[otel] ({exc})"
        ) from exc
    writer: TraceWriter = module.TraceWriter(traces.endpoint, traces.sample_ratio)
    listeners.add(writer)
    try:
        yield writer
    finally:
        await asyncio.sleep(0)  # events are observed in the next iteration of the event loop
        await asyncio.to_thread(writer.close)


def combine_observers(observers: Sequence[ContentObserver]) -> ContentObserver | None:
    """Return one observer that passes each text on to all; None if there are none. A failing one is isolated."""
    if not observers:
        return None

    def observe(content: AttemptContent | RequestContent, /) -> None:
        for one in observers:
            try:
                one(content)
            except Exception:  # noqa: BLE001  # the request goes to its end
                _LOG.exception("an observer of the texts of requests failed")

    return observe
