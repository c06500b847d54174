"""`python -m tests.bench.bodies [--bodies 50] [--megabytes 60] [--kind text]`: many large bodies at the same time.

Prints the growth of the daemon's memory, its CPU time, and the duration of small requests meanwhile. Bounded: each body
is sent once, and after two minutes the bench ends.
"""
# ruff: noqa: T201  a command line prints

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from http.client import HTTPConnection
from statistics import median

from tests.bench.children import ROOT, Server, running_daemon

_SECONDS = 120.0
_SMALL_GAP_SECONDS = 0.02
_ANSWER = json.dumps({
    "id": "x", "object": "chat.completion", "created": 1, "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}],
}).encode()  # fmt: skip
_HEAD = b"HTTP/1.1 %d OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
_BEGIN, _END = b'{"model":"m","messages":[{"role":"user","content":"', b'"}]}'
KINDS = {
    "text": (_BEGIN, b"A", _END),
    "emoji": (_BEGIN, b"AAAAAAAA", "\U0001f600".encode() + _END),
    "lists": (b'{"model":"m","messages":[{"role":"user","content":[', b"[],", b"1]}]}"),
}


def body_of(kind: str, size: int) -> bytes:
    """Return a request body of about that many bytes."""
    begin, middle, end = KINDS[kind]
    return begin + middle * ((size - len(begin) - len(end)) // len(middle)) + end


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The backend: drops each body and sends a response."""
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if line)
            left = int(fields.get(b"content-length", b"0"))
            while left:
                left -= len(await reader.read(min(left, 1 << 20)))
            writer.write(_HEAD % (200, len(_ANSWER), _ANSWER))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


@asynccontextmanager
async def backend() -> AsyncGenerator[int]:
    """Return its port."""
    server = await asyncio.start_server(_answer, "127.0.0.1", 0, limit=1 << 20)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def _post(port: int, body: bytes) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode())
        view = memoryview(body)
        sending = asyncio.create_task(_send(writer, view))
        status = int((await reader.readline()).split()[1])
        sending.cancel()
    except (ConnectionError, IndexError):
        return 0
    else:
        return status
    finally:
        writer.close()


async def _send(writer: asyncio.StreamWriter, view: memoryview) -> None:
    for at in range(0, len(view), 1 << 18):
        writer.write(view[at : at + (1 << 18)])
        await writer.drain()


async def send_bodies(port: int, number: int, kind: str, size: int) -> Counter[int]:
    """Send them all at once. Return how often each status came."""
    body = body_of(kind, size)
    return Counter(await asyncio.gather(*[_post(port, body) for _ in range(number)]))


class Watch:
    """Send small requests one after the other and measure the daemon's memory, in a thread, until it is stopped."""

    def __init__(self, daemon: Server, body: bytes) -> None:
        self.latencies: list[float] = []
        self._daemon, self._body = daemon, body
        self._before = daemon.memory()
        self.peak = self._before
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    @property
    def growth(self) -> float:
        return self.peak - self._before

    def end(self) -> None:
        self._ends.set()
        self._thread.join()

    def _run(self) -> None:
        connection = HTTPConnection("127.0.0.1", self._daemon.port, timeout=_SECONDS)
        while not self._ends.wait(_SMALL_GAP_SECONDS):
            began = time.perf_counter()
            connection.request("POST", "/v1/chat/completions", self._body)
            connection.getresponse().read()
            self.latencies.append(time.perf_counter() - began)
            self.peak = max(self.peak, self._daemon.memory())
        connection.close()


async def _serve_backend() -> None:
    async with backend() as port:
        print(port, flush=True)
        await asyncio.sleep(_SECONDS)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bodies", type=int, default=50)
    parser.add_argument("--megabytes", type=int, default=60)
    parser.add_argument("--kind", choices=[*KINDS], default="text")
    parser.add_argument("--send", type=int, help="send to that port and print the statuses; for the bench itself")
    parser.add_argument("--backend", action="store_true", help="be the backend; for the bench itself")
    asks = parser.parse_args()
    size = asks.megabytes * 1024 * 1024
    if asks.backend:
        asyncio.run(_serve_backend())
    elif asks.send:
        print(dict(asyncio.run(asyncio.wait_for(send_bodies(asks.send, asks.bodies, asks.kind, size), _SECONDS))))
    else:
        _measure(asks.bodies, asks.kind, asks.megabytes)


def _measure(bodies: int, kind: str, megabytes: int) -> None:
    me = [sys.executable, "-m", "tests.bench.bodies"]
    behind = subprocess.Popen([*me, "--backend"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert behind.stdout is not None
        port = int(behind.stdout.readline())
        with running_daemon(Server("backend", port, behind.pid, 0.0)) as daemon:
            watch = Watch(daemon, body_of("text", 200))
            began, cpu = time.perf_counter(), daemon.cpu_seconds()
            try:
                words = [*me, "--send", str(daemon.port), "--bodies", str(bodies), "--kind", kind]
                sent = subprocess.run(
                    [*words, "--megabytes", str(megabytes)], cwd=ROOT, capture_output=True, text=True, check=False,
                    timeout=_SECONDS,
                )  # fmt: skip
            finally:
                watch.end()
            seconds, cpu = time.perf_counter() - began, daemon.cpu_seconds() - cpu
            print(f"{bodies} bodies of {megabytes} MB ({kind}): statuses {sent.stdout.strip() or sent.stderr[-300:]}")
            print(f"  {seconds:.1f} s, CPU {cpu:.1f} s, memory grew by {watch.growth:.0f} MB at most")
            print(
                f"  small requests: {len(watch.latencies)}, median {1e3 * median(watch.latencies):.1f} ms,"
                f" longest {1e3 * max(watch.latencies):.0f} ms"
            )
    finally:
        behind.kill()
        behind.wait()


if __name__ == "__main__":
    main()
