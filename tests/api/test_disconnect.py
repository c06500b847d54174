"""The watch for a client that disconnects leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest

from forge_proxy.api.disconnect import cancel_on_disconnect


async def test_a_watch_is_freed_without_garbage_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forge_proxy.api.disconnect._WATCH_DELAY", 0)
    watching = asyncio.Event()

    async def receive() -> Any:
        watching.set()
        await asyncio.Event().wait()

    async def watch() -> weakref.ref[object]:
        watched = cancel_on_disconnect(receive)
        async with watched:
            await watching.wait()
        return weakref.ref(watched)

    gc.disable()
    try:
        freed = await asyncio.create_task(watch())
        await asyncio.sleep(0)  # the watch's own task is cancelled
        await asyncio.sleep(0)
        assert freed() is None
    finally:
        gc.enable()
