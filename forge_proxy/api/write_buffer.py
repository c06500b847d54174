"""A transport that coalesces writes: a response head with its body, the last pieces of a stream.

uvicorn writes each piece separately and uvloop sends each immediately; the system call costs as much as all other work
of the daemon for that piece.
"""

from __future__ import annotations

import asyncio
import fcntl
import struct
import sys
import termios

_HEAD = b"HTTP/1."
_MAX_BUFFERED = 64 * 1024
"""Maximum bytes to buffer: uvicorn applies back pressure only when the transport has much to send."""


class CoalescingTransport(asyncio.Transport):
    """Buffers a response head until more is written, and writes within the same millisecond as the previous one; both
    at most until the next turn of the event loop, before it polls. A single piece is sent immediately.

    Everything else is delegated to the wrapped transport.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._pending: list[bytes | bytearray | memoryview] = []
        self._pending_size: int = 0
        self._is_head_pending: bool = False
        self._wrote_at: float = 0.0
        self._written = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send data in order. A body that starts like a head is sent correctly, too."""
        size = len(data)
        self._written += size
        now = self._loop.time()  # in uvloop, the start of this turn, with millisecond resolution
        if self._is_head_pending or size >= _MAX_BUFFERED or self._pending_size + size >= _MAX_BUFFERED:
            self._pending.append(data)
            self._send()
        elif self._pending:
            self._pending.append(data)
            self._pending_size += size
        elif now == self._wrote_at or (isinstance(data, bytes) and data.startswith(_HEAD)):
            self._is_head_pending = now != self._wrote_at
            self._pending.append(data)
            self._pending_size = size
            self._loop.call_soon(self._send)
        else:
            self._transport.write(data)
        self._wrote_at = now

    def close(self) -> None:
        """Send the buffered data, then close."""
        self._send()
        self._transport.close()

    def abort(self) -> None:
        """Close at once. Buffered data is sent only as far as the socket accepts it."""
        self._send()
        self._transport.abort()

    def is_closing(self) -> bool:
        """See `asyncio.Transport`."""
        return self._transport.is_closing()

    def pause_reading(self) -> None:
        """See `asyncio.Transport`."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """See `asyncio.Transport`."""
        self._transport.resume_reading()

    def get_extra_info(self, name: str, default: object = None) -> object:
        """See `asyncio.Transport`."""
        return self._transport.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        """Return the number of bytes that the operating system has not accepted yet."""
        return self._transport.get_write_buffer_size() + self._pending_size

    def count_delivered(self) -> int:
        """Return the number of bytes that the client's system has acknowledged, or that this system has accepted if it
        does not report acknowledgements.

        The two differ by megabytes for a slow client: the system's buffer accepts more only when much of it is free.
        """
        return self._written - self.get_write_buffer_size() - _count_unacknowledged(self.get_extra_info("socket"))

    def _send(self) -> None:
        pending, self._pending, self._pending_size, self._is_head_pending = self._pending, [], 0, False
        if pending and not self._transport.is_closing():  # the client may have disconnected meanwhile
            self._transport.write(pending[0] if len(pending) == 1 else b"".join(pending))


def _count_unacknowledged(connection: object) -> int:
    """Return the number of bytes in the operating system's send buffer of a socket. Linux reports it (`SIOCOUTQ`)."""
    fileno = getattr(connection, "fileno", None)
    if fileno is None or sys.platform != "linux":
        return 0
    try:
        return struct.unpack("i", fcntl.ioctl(fileno(), termios.TIOCOUTQ, bytes(4)))[0]
    except OSError:  # the socket is closed
        return 0
