"""A transport that sends together what is written at one time: an answer's head with its body, the end of a stream.

uvicorn writes each piece by itself, and uvloop sends each at once: a system call that wakes the other side costs as
much as all else that we do for a piece.
"""

from __future__ import annotations

import asyncio
import fcntl
import struct
import sys
import termios

_HEAD = b"HTTP/1."
_MOST_HELD = 64 * 1024
"""Bytes that are held at most: uvicorn's writers wait only once the transport has much to send."""


class CoalescingTransport(asyncio.Transport):
    """Holds a head until more is written, and what is written within the same millisecond as the last; neither longer
    than until the loop's next turn, which is before it waits for anything. A piece that comes by itself leaves at once.

    Everything else is the transport's own.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._held: list[bytes | bytearray | memoryview] = []
        self._held_size: int = 0
        self._holds_head: bool = False
        self._wrote_at: float = 0.0
        self._written = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send this in its order. A body that looks like a head is none the worse for it."""
        size = len(data)
        self._written += size
        now = self._loop.time()  # of uvloop: when this turn began, in milliseconds
        if self._holds_head or size >= _MOST_HELD or self._held_size + size >= _MOST_HELD:
            self._held.append(data)
            self._send()
        elif self._held:
            self._held.append(data)
            self._held_size += size
        elif now == self._wrote_at or (isinstance(data, bytes) and data.startswith(_HEAD)):
            self._holds_head = now != self._wrote_at
            self._held.append(data)
            self._held_size = size
            self._loop.call_soon(self._send)
        else:
            self._transport.write(data)
        self._wrote_at = now

    def close(self) -> None:
        """Send what is held, then close."""
        self._send()
        self._transport.close()

    def abort(self) -> None:
        """Close at once; what was written before leaves as far as the socket takes it."""
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
        """Bytes that were written and that the operating system has not accepted."""
        return self._transport.get_write_buffer_size() + self._held_size

    def count_delivered(self) -> int:
        """Bytes that the client's system has acknowledged; if this system does not report those, that it has accepted.

        A client that reads slowly frees megabytes of the system's buffer before that accepts more.
        """
        return self._written - self.get_write_buffer_size() - _count_unacknowledged(self.get_extra_info("socket"))

    def _send(self) -> None:
        held, self._held, self._held_size, self._holds_head = self._held, [], 0, False
        if held and not self._transport.is_closing():  # whoever it is for may have left since it was written
            self._transport.write(held[0] if len(held) == 1 else b"".join(held))


def _count_unacknowledged(connection: object) -> int:
    """Bytes in the operating system's buffer of a socket. Linux reports them (`SIOCOUTQ`)."""
    fileno = getattr(connection, "fileno", None)
    if fileno is None or sys.platform != "linux":
        return 0
    try:
        return struct.unpack("i", fcntl.ioctl(fileno(), termios.TIOCOUTQ, bytes(4)))[0]
    except OSError:  # it is closed
        return 0
