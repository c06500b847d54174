"""Writes log lines without blocking the event loop on a pipe that nobody reads.

Lines that can be written without blocking are written at once: waking a thread per line costs as much as answering a
small request. Other lines are queued for a writer thread. The queue is limited in bytes. Lines that exceed the limit or
cannot be written are dropped, and their number is logged as soon as a line can be written again.
"""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from collections.abc import Callable

LIMIT = 4 * 1024 * 1024
"""Maximum bytes of queued lines: about 15,000 requests."""
_CLOSE_SECONDS = 2.0


class LogWriter:
    """The queue and its writer thread. `describe_dropped` renders the line that reports the number of dropped lines."""

    def __init__(self, descriptor: int, describe_dropped: Callable[[int], bytes], limit: int = LIMIT) -> None:
        self._descriptor = descriptor
        self._describe_dropped = describe_dropped
        self._limit = limit
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)
        self._changed = threading.Condition()
        self._is_writing = False
        self.dropped = 0
        """Number of dropped lines that have not been reported yet."""
        threading.Thread(target=self._run, name="log-writer", daemon=True).start()

    def write(self, line: bytes) -> None:
        """Write, queue or drop a line. Never blocks; thread-safe."""
        with self._changed:
            if not (self._waiting or self._is_writing or self.dropped) and self._can_write_now(line):
                line = self._write_now(line)
                if not line:
                    return
            if self._bytes + len(line) > self._limit:
                self.dropped += 1
                return
            self._waiting.append(line)
            self._bytes += len(line)
            self._changed.notify_all()

    def close(self, seconds: float = _CLOSE_SECONDS) -> None:
        """Wait until all lines are written, for at most `seconds`."""
        with self._changed:
            self._changed.wait_for(lambda: not (self._waiting or self._is_writing), seconds)

    def _can_write_now(self, line: bytes) -> bool:
        """Return whether writing this line cannot block: a pipe that is ready accepts up to PIPE_BUF bytes at once."""
        return len(line) <= select.PIPE_BUF and [ready for _, ready in self._poll.poll(0)] == [select.POLLOUT]

    def _write_now(self, line: bytes) -> bytes:
        """Write the line. Returns the unwritten rest, which is the whole line if writing fails."""
        try:
            return line[os.write(self._descriptor, line) :]
        except OSError:  # the thread gets the same error and counts it
            return line

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                line = self._waiting.popleft()
                self._is_writing = True
            is_written = self._write_all(line)
            with self._changed:
                self._bytes -= len(line)  # only now: the line used memory until it was written
                self._is_writing = False
                self.dropped += not is_written
                dropped = self.dropped
                self._changed.notify_all()
            if is_written and dropped and self._write_all(self._describe_dropped(dropped)):
                with self._changed:
                    self.dropped -= dropped

    def _write_all(self, line: bytes) -> bool:
        """Write the line and return whether it succeeded. Blocks while the reader does not read."""
        try:
            while line:
                line = line[os.write(self._descriptor, line) :]
        except OSError:  # a full disk, a closed pipe, or one that another process made non-blocking
            return False
        return True
