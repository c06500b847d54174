"""An application on a real port of this machine, in the event loop of the test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from forge_proxy.api.config import ServerConfig
from forge_proxy.api.server import HttpServer, listen


@asynccontextmanager
async def served(app: FastAPI) -> AsyncGenerator[str]:
    """The URL of the application, without `/v1`, while it is served by the daemon's own HTTP server."""
    config = ServerConfig(port=0)
    listener, server = listen(config), HttpServer(app, config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving
        listener.close()
