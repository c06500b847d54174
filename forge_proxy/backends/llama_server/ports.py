"""TCP ports for servers of ours: one that is free, or whether a certain one is."""

from __future__ import annotations

import socket

HOST = "127.0.0.1"


class NoPort(Exception):
    """It cannot be had, mostly since something listens there already."""


def claim(port: int) -> int:
    """The port, or a free one for 0. Somebody may still take it before the server does. Raises `NoPort`."""
    try:
        with socket.socket() as tried:
            # As a server does, so that connections of one that has just ended are not in the way; listeners still are.
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind((HOST, port))
            return tried.getsockname()[1]
    except OSError as exc:
        raise NoPort(f"port {port} on {HOST}: {exc.strerror or exc}") from exc
