"""A server between the daemon and a model server, which records the prompts of chat completions."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

_DROPPED = ("transfer-encoding", "connection", "content-length")


class RecordingRelay:
    """`prompts` are the last messages of all chat completions that were requested, in their order."""

    def __init__(self, target: str) -> None:
        self.prompts: list[str] = []
        self.url = ""
        self._target = urlsplit(target).netloc

    @contextmanager
    def running(self) -> Generator[RecordingRelay]:
        """Serve on a free port."""
        relay = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                relay.pass_on(self)

            def do_POST(self) -> None:
                relay.pass_on(self)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
                """Log nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()

    def pass_on(self, request: BaseHTTPRequestHandler) -> None:
        """Send a request on, and its response back as it comes. The client may be gone."""
        body = request.rfile.read(int(request.headers.get("content-length", 0)))
        if request.path == "/v1/chat/completions":
            self.prompts.append(json.loads(body)["messages"][-1]["content"])
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _DROPPED}
        connection = http.client.HTTPConnection(self._target, timeout=60)
        try:
            connection.request(request.command, request.path, body, headers)
            response = connection.getresponse()
            request.send_response(response.status)
            for name, value in response.getheaders():
                if name.lower() not in _DROPPED:
                    request.send_header(name, value)
            request.send_header("connection", "close")
            request.end_headers()
            while piece := response.read1(65536):
                request.wfile.write(piece)
                request.wfile.flush()
        except OSError:
            pass
        finally:
            connection.close()
