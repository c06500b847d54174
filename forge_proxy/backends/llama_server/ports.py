"""Claims TCP ports for managed servers."""

from __future__ import annotations

import socket

HOST = "127.0.0.1"


class NoPort(Exception):
    """The port cannot be used, usually because another program listens on it."""


def claim(port: int) -> int:
    """Return the port, or a free one for 0. Another program may still bind it before the server. Raises `NoPort`."""
    try:
        with socket.socket() as tried:
            # As servers do: closed connections of an earlier server do not block the port, listeners do.
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind((HOST, port))
            return tried.getsockname()[1]
    except OSError as exc:
        raise NoPort(f"port {port} on {HOST}: {exc.strerror or exc}") from exc
