"""TCP ports for servers of ours: one that is free, or whether a certain one is."""

from __future__ import annotations

import errno
import socket

HOST = "127.0.0.1"


class PortTaken(Exception):
    """Something listens there already."""


def claim(port: int) -> int:
    """The port, or a free one for 0. Somebody may still take it before the server does. Raises `PortTaken`."""
    with socket.socket() as tried:
        # As a server does, so that connections of one that has just ended are not in the way; listeners still are.
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((HOST, port))
        except OSError as exc:
            if exc.errno in (errno.EADDRINUSE, errno.EACCES):
                raise PortTaken(f"port {port} on {HOST}: {exc.strerror}") from exc
            raise
        return tried.getsockname()[1]
