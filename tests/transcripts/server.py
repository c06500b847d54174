"""A model server that answers requests with the next bytes of a script and keeps the requests that it received."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

JSON, EVENTS, LINES = "application/json", "text/event-stream", "application/x-ndjson"

_MODELS = {"object": "list", "data": [{"id": "scripted", "object": "model", "max_model_len": 8192}]}
_READ = {
    "/v1/models": _MODELS,
    "/api/version": {"version": "0.13.0"},
    "/api/tags": {"models": [{"model": "scripted", "digest": "1"}]},
    "/api/ps": {"models": [{"model": "scripted", "context_length": 8192}]},
}
_SHOWN = {"capabilities": ["completion", "tools"], "model_info": {"llama.context_length": 8192}}
"""Ollama's answer to `POST /api/show`."""


@dataclass(frozen=True)
class Reply:
    """One response of the model server. Without `is_complete` the connection ends in the middle of it."""

    body: bytes
    kind: str = JSON
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    is_complete: bool = True


@dataclass
class ScriptedServer:
    """The running server. `script` is used up reply by reply; `received` holds the requests it answered from it."""

    url: str = ""
    script: list[Reply] = field(default_factory=list[Reply])
    received: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    received_headers: list[Mapping[str, str]] = field(default_factory=list[Mapping[str, str]])
    """The headers of all `POST` requests."""

    def set_script(self, replies: Sequence[Reply]) -> None:
        """Answer with these from now on, and forget what was received."""
        self.script, self.received = list(replies), []

    def next_reply(self, path: str, body: Any) -> Reply:
        """The reply to a request."""
        if path == "/api/show":
            return Reply(json.dumps(_SHOWN).encode())
        if path == "/api/chat" and not body.get("messages"):  # Ollama loads a model so
            return Reply(json.dumps({"done": True, "done_reason": "load"}).encode())
        self.received.append((path, body))
        return self.script.pop(0) if self.script else Reply(b'{"error": {"message": "the script is over"}}', status=500)


@contextmanager
def scripted_server() -> Generator[ScriptedServer]:
    """The server, listening on a free port."""
    scripted = ScriptedServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = _READ.get(self.path)
            self._send(Reply(json.dumps(known or {"error": "not found"}).encode(), status=200 if known else 404))

        def do_POST(self) -> None:
            scripted.received_headers.append({name.lower(): value for name, value in self.headers.items()})
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._send(scripted.next_reply(self.path, body))

        def _send(self, reply: Reply) -> None:
            self.send_response(reply.status)
            self.send_header("Content-Type", reply.kind)
            for name, value in reply.headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body) + (not reply.is_complete)))
            self.end_headers()
            self.wfile.write(reply.body)
            self.close_connection = not reply.is_complete

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the base class names it so
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    scripted.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield scripted
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
