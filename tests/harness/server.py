"""The scripted server: one model after another on one port, each response written as literal bytes."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.harness.backend import MODEL, ScriptedModel
from tests.harness.response import EVENTS, JsonDict, Response

_SECONDS = 5.0
"""Seconds for the requests of an ended client to end."""


class ScriptedServer(ThreadingHTTPServer):
    """Serves `model` at `url`, which has no `/v1`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.model: ScriptedModel | None = None
        self._running = 0
        self._changed = threading.Condition()

    def __enter__(self) -> ScriptedServer:
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    @contextmanager
    def serving(self, model: ScriptedModel) -> Generator[ScriptedModel]:
        """Serve this model, and then wait until none of its requests is in progress."""
        self.model = model
        try:
            yield model
        finally:
            self.model = None
            with self._changed:
                self._changed.wait_for(lambda: not self._running, _SECONDS)

    @contextmanager
    def running(self) -> Generator[None]:
        with self._changed:
            self._running += 1
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # a client that was killed leaves its connections
            super().handle_error(request, client_address)  # pyright: ignore[reportArgumentType]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ScriptedServer  # pyright: ignore[reportIncompatibleVariableOverride]

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class names it so
        return

    def do_GET(self) -> None:
        if self.path.endswith("/models"):
            self._write(_json(200, {"object": "list", "data": [{"id": MODEL, "object": "model"}]}))
        else:
            self._write(_json(404, {"error": {"code": 404, "message": "not found", "type": "not_found"}}))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        model = self.server.model
        if model is None or not self.path.endswith("/chat/completions"):
            self._write(_json(404, {"error": {"code": 404, "message": "not found", "type": "not_found"}}))
            return
        with self.server.running():
            self._write(model.answer(body).response)

    def _write(self, response: Response) -> None:
        if response.status is None or not response.is_complete:
            self.close_connection = True
        if response.status is None:
            return
        is_chunked = response.kind == EVENTS or len(response.pieces) > 1
        self.wfile.write(_head(response, is_chunked=is_chunked))
        time.sleep(response.pause)
        for piece in response.pieces:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece) if is_chunked else piece)
        if is_chunked and response.is_complete:
            self.wfile.write(b"0\r\n\r\n")


def _json(status: int, body: JsonDict) -> Response:
    return Response(status, pieces=(json.dumps(body).encode(),))


def _head(response: Response, *, is_chunked: bool) -> bytes:
    length = sum(len(piece) for piece in response.pieces) + (not response.is_complete)
    framing = {"Transfer-Encoding": "chunked"} if is_chunked else {"Content-Length": str(length)}
    kind = {"Content-Type": response.kind} if response.kind is not None else {}
    headers = {**kind, **({} if response.status == 204 else framing), **response.headers}
    lines = [f"HTTP/1.1 {response.status} Scripted", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()
