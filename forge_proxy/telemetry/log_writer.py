"""Writes log lines so that a pipe without a reader never blocks the event loop.

A line that the reader takes at once is written at once: to wake a thread for each line costs as much as to answer a
small request. Any other waits for a thread of its own. Lines that wait are bounded in bytes. Lines above the bound, and
lines that cannot be written, are dropped; their number is logged once a line can be written again.
"""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from collections.abc import Callable

LIMIT = 4 * 1024 * 1024
"""Bytes of lines that wait: some 15,000 requests."""
_CLOSE_SECONDS = 2.0


class LogWriter:
    """The queue and its thread. `describe_dropped` renders the line that reports how many lines were dropped."""

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
        """Lines that were dropped and not reported yet."""
        threading.Thread(target=self._run, name="log-writer", daemon=True).start()

    def write(self, line: bytes) -> None:
        """Write, queue or drop a line. Returns at once; called by any thread."""
        with self._changed:
            if not (self._waiting or self._is_writing or self.dropped) and self._takes_at_once(line):
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
        """Wait until all lines are written, but no longer than this."""
        with self._changed:
            self._changed.wait_for(lambda: not (self._waiting or self._is_writing), seconds)

    def _takes_at_once(self, line: bytes) -> bool:
        """Whether writing this line cannot block: a pipe that is ready takes as much as it takes in one piece."""
        return len(line) <= select.PIPE_BUF and [ready for _, ready in self._poll.poll(0)] == [select.POLLOUT]

    def _write_now(self, line: bytes) -> bytes:
        """Write the line. Returns what is left of it; all of it if it cannot be written."""
        try:
            return line[os.write(self._descriptor, line) :]
        except OSError:  # the thread finds that out again, and counts it
            return line

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                line = self._waiting.popleft()
                self._is_writing = True
            is_written = self._write_all(line)
            with self._changed:
                self._bytes -= len(line)  # not before it is written: it is held until then
                self._is_writing = False
                self.dropped += not is_written
                dropped = self.dropped
                self._changed.notify_all()
            if is_written and dropped and self._write_all(self._describe_dropped(dropped)):
                with self._changed:
                    self.dropped -= dropped

    def _write_all(self, line: bytes) -> bool:
        """Whether the line is written; blocks for as long as the reader does not read."""
        try:
            while line:
                line = line[os.write(self._descriptor, line) :]
        except OSError:  # a full disk, a closed pipe, or one that another process made non-blocking
            return False
        return True
