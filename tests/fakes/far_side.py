"""A model server and tools on one port, in the process of the test. A test can hold their responses back.

The model calls the offered tools in order: response n of a conversation calls tool n. Both outlive a daemon that is
killed.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.fakes.says import Said

JsonDict = dict[str, Any]
_SECONDS = 30.0
SECRET = "tests-sign-with-this-secret"


@dataclass
class FarSide:
    """The received requests, and which responses are held back. `url` is the model server's; a tool is at
    `url/tools/NAME`.
    """

    url: str = ""
    asked: list[list[JsonDict]] = field(default_factory=list[list[JsonDict]])
    """The messages of each request to the model."""
    called: list[JsonDict] = field(default_factory=list[JsonDict])
    """The calls of tools, with the header `Idempotency-Key` as `header`."""
    held: set[str] = field(default_factory=set[str])
    """What gets no response until `let_go`: `model`, or the name of a tool."""
    lag: float = 0.0
    """Minimum seconds for each response."""
    changed: threading.Condition = field(default_factory=threading.Condition)

    def hold(self, what: str) -> None:
        """Hold back its responses."""
        with self.changed:
            self.held.add(what)

    def let_go(self, what: str) -> None:
        """Send its responses again."""
        with self.changed:
            self.held.discard(what)
            self.changed.notify_all()

    def wait_for_asked(self, times: int) -> None:
        """Wait until the model has received this many requests."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.asked) >= times, _SECONDS), f"asked {len(self.asked)} times"

    def wait_for_called(self, tool: str, times: int = 1) -> None:
        """Wait until a tool has been called this many times."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.keys(tool)) >= times, _SECONDS), f"called: {self.called}"

    def keys(self, tool: str) -> list[str]:
        """Return the keys of all calls of a tool."""
        return [call["key"] for call in self.called if call["tool"] == tool]

    def answer(self, path: str, body: JsonDict, key: str | None) -> tuple[str, bytes]:
        """Return the content type and body of a response once it is not held back."""
        time.sleep(self.lag)
        with self.changed:
            if path.startswith("/tools/"):
                what, said = body["tool"], json.dumps({"output": f"{body['tool']} was done"}).encode()
                self.called.append({**body, "header": key})
            else:
                what, said = "model", self._say(body).as_stream()
                self.asked.append(body["messages"])
            self.changed.notify_all()
            self.changed.wait_for(lambda: what not in self.held, _SECONDS)
        return ("application/json" if what != "model" else "text/event-stream"), said

    def _say(self, body: JsonDict) -> Said:
        names = [tool["function"]["name"] for tool in body["tools"]]
        turn = sum(message["role"] == "assistant" for message in body["messages"])
        return Said(calls=((names[turn % len(names)], '{"n": 1}'),), ids=f"call_{turn}_")


@contextmanager
def far_side(port: int = 0) -> Generator[FarSide]:
    """Run both, listening."""
    side = FarSide()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body: JsonDict = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            kind, said = side.answer(self.path, body, self.headers["Idempotency-Key"])
            with suppress(OSError):  # the client was killed meanwhile
                self._send(kind, said)

        def do_GET(self) -> None:
            self._send("application/json", b'{"object": "list", "data": [{"id": "scripted"}]}')

        def _send(self, kind: str, said: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name it has
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    side.url = f"http://127.0.0.1:{server.server_port}"
    serving = threading.Thread(target=server.serve_forever, args=(0.05,))
    serving.start()
    try:
        yield side
    finally:
        for what in list(side.held):
            side.let_go(what)
        server.shutdown()
        serving.join()
        server.server_close()
