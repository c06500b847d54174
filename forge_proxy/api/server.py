"""The listening socket, and the HTTP server that runs the application on it."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Collection, Generator
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Any, cast
from urllib.parse import urlsplit

import uvicorn
from fastapi import FastAPI

from forge_proxy.api.auth import read_keys
from forge_proxy.api.config import ServerConfig, ServerConfigError
from forge_proxy.api.connections import (
    IDLE_SECONDS,
    Connection,
    ConnectionLimits,
    ConnectionSupervisor,
    connection_limit,
)
from forge_proxy.api.origins import is_loopback
from forge_proxy.api.protocol import http_protocol
from forge_proxy.core.errors import ForgeError
from forge_proxy.engine.memory import MemoryBudget


class CannotListen(ForgeError):
    """The daemon cannot listen on the configured address."""


class PortTaken(CannotListen):
    """Another program uses the port. `owner` names it if it is a forge-proxy; `stop` is the command that stops it."""

    def __init__(self, host: str, port: int, owner: str = "", stop: str = "") -> None:
        by = f" by {owner}" if owner else ""
        remedy = f"stop it with `{stop}`" if stop else f"stop {'it' if owner else 'the program that listens there'}"
        super().__init__(f"port {port} on {host} is already in use{by}; {remedy} or choose another with --port")


class HttpServer(uvicorn.Server):
    """The HTTP server around an application. On shutdown it accepts no more, then waits for running requests."""

    def __init__(self, app: FastAPI, config: ServerConfig, memory: MemoryBudget | None = None) -> None:
        limits = ConnectionLimits(
            config.max_header_kb * 1024,
            config.header_timeout_seconds,
            config.body_timeout_seconds,
            config.send_timeout_seconds,
            connections=connection_limit(),
        )
        self._supervisor = ConnectionSupervisor(limits, memory=memory)
        self._has_overdue = False
        """Whether overdue connections remain that are closed at the next tick."""
        super().__init__(
            uvicorn.Config(
                app,
                http=http_protocol(self._supervisor, app.state.error_envelopes),
                ws="none",
                log_config=None,
                access_log=False,
                server_header=False,
                lifespan="off",
                timeout_graceful_shutdown=config.drain_seconds,
                timeout_keep_alive=IDLE_SECONDS,
            )
        )

    async def on_tick(self, counter: int) -> bool:
        """Close overdue connections once a second; uvicorn calls this ten times a second."""
        if counter % 10 == 0 or self._has_overdue:
            connections = cast("Collection[Connection]", self.server_state.connections)
            self._has_overdue = self._supervisor.close_overdue(connections, asyncio.get_running_loop().time())
        return await super().on_tick(counter)

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave signals to the daemon: uvicorn would raise them again on exit, before the backend is stopped."""
        yield


def listen(config: ServerConfig) -> socket.socket:
    """Open the listening socket; the daemon does this before it starts anything else.

    Raises `CannotListen`, or `ServerConfigError` if other machines could reach a daemon that requires no keys.
    """
    host, port = config.host, config.port
    family, kind, socket_address = resolve_address(config)
    listener = socket.socket(family, kind)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(socket_address)
        listener.listen(2048)
    except OSError as exc:
        listener.close()
        if exc.errno == errno.EADDRINUSE:
            raise PortTaken(host, port) from exc
        raise CannotListen(f"cannot listen on {host}:{port}: {exc.strerror or exc}") from exc
    listener.setblocking(False)
    return listener


def resolve_address(config: ServerConfig) -> tuple[socket.AddressFamily, socket.SocketKind, Any]:
    """Resolve the address to listen on. Raises the same errors as `listen`."""
    host, port = config.host, config.port
    keys = read_keys(config)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as exc:
        raise CannotListen(f"cannot listen on {host}:{port}: {exc.strerror or exc}") from exc
    # A name may resolve to IPv6 and IPv4: prefer IPv4, since clients are configured with 127.0.0.1.
    family, kind, _, _, socket_address = min(found, key=lambda one: one[0] != socket.AF_INET)
    if not (keys or config.allow_public_without_keys or is_loopback(str(socket_address[0]))):
        raise ServerConfigError(
            f"server.host {host} is reached by other machines, and clients need no key: set server.api_keys "
            "(FORGE_PROXY_SERVER__API_KEYS) or server.api_keys_file, or server.allow_public_without_keys: true "
            "(FORGE_PROXY_SERVER__ALLOW_PUBLIC_WITHOUT_KEYS=true) if something else restricts access"
        )
    return family, kind, socket_address


def is_open_to_all(config: ServerConfig, listener: socket.socket) -> bool:
    """Return whether other machines can reach the listener without a key."""
    return not (is_loopback(listener.getsockname()[0]) or read_keys(config))


def address(host: str, port: int) -> str:
    """Return the base URL for clients."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/v1"


async def leads_to(url: str, listener: socket.socket) -> bool:
    """Return whether `url` leads to the listener itself; requests to it would loop forever."""
    parts = urlsplit(url)
    host, port = listener.getsockname()[:2]
    if (parts.port or (443 if parts.scheme == "https" else 80)) != port:
        return False
    try:
        found = await asyncio.get_running_loop().getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
    except OSError:
        return False
    own, targets = ip_address(host), [ip_address(target[0]) for *_, target in found]
    return own in targets or (own.is_unspecified and any(target.is_loopback for target in targets))
