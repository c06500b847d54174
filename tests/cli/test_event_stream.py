"""The CLI reads server-sent events of the daemon, with any characters in them."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from forge_proxy.client.remote import AdminClient, NoDaemon, SentEvent


@contextmanager
def stream_server(body: str, content_type: str = "text/event-stream") -> Generator[str]:
    """A server that responds to every GET request with this body."""

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", content_type)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the library's name
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            serving.join()


def test_events_may_contain_line_separators_of_unicode() -> None:
    text = "a\u2028b\u2029c\x85d"
    body = f': ping\n\nid: 1\nevent: message\ndata: {{"text": "{text}"}}\n\n: ping\n\nid: 2\nevent: end\ndata: {{}}\n\n'

    with stream_server(body) as url:
        events = list(AdminClient(url, None).events("runs/run_1/events", lambda event: event.type == "end"))

    assert events == [SentEvent(1, "message", {"text": text}), SentEvent(2, "end", {})]


def test_a_server_that_responds_with_a_page_is_not_a_daemon() -> None:
    with stream_server("<html>", "text/html") as url, pytest.raises(NoDaemon, match="is another server"):
        list(AdminClient(url, None).events("runs/run_1/events", lambda _: True))
