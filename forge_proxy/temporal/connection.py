"""Connects to the Temporal server of the settings."""

from __future__ import annotations

import asyncio
import logging
from functools import cache

from temporalio.client import Client
from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig

from forge_proxy.jobs.temporal_config import TemporalConfig


@cache
def _quiet_runtime() -> Runtime:
    """Return the runtime of the SDK without its own log lines: the daemon's log is JSON, and reports what matters."""
    logging.getLogger("temporalio").setLevel(logging.CRITICAL)
    return Runtime(telemetry=TelemetryConfig(logging=LoggingConfig(filter="OFF")))


async def connect(config: TemporalConfig) -> Client:
    """Connect to the server. Raises `RuntimeError`, or `OSError` for a key file that cannot be read."""
    key = await asyncio.to_thread(config.api_key_file.read_text) if config.api_key_file is not None else None
    return await Client.connect(
        config.address,
        namespace=config.namespace,
        tls=config.tls,
        api_key=key.strip() if key is not None else None,
        runtime=_quiet_runtime(),
    )
