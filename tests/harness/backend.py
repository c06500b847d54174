"""A model server whose model makes one mistake at each point of a conversation: the far side while a client works."""

from __future__ import annotations

import json
import sys
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.fakes.says import Said
from tests.harness.mistakes import PLAIN, REPEATED_ID, mistaken, right
from tests.harness.tasks import Call, JsonDict, Task

MODEL = "scripted"


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # a client that was ended leaves its connections
            super().handle_error(request, client_address)  # pyright: ignore[reportArgumentType]


class ScriptedModel:
    """Does a client's `task`, with `mistake` in the first answer at each point of it; `url` is without `/v1`.

    `made` says how often the mistake was made, `exchanges` what was asked and what was said.
    """

    def __init__(self, task: Task, mistake: str) -> None:
        self.exchanges: list[tuple[JsonDict, Said]] = []
        self._task = task
        self._mistake = mistake
        self._mistaken: set[str] = set()
        self._one_at_a_time = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> ScriptedModel:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def made(self) -> int:
        return len(self._mistaken)

    def say(self, body: JsonDict) -> Said:
        """The model's next answer."""
        with self._one_at_a_time:
            said = self._next(body)
            if self._mistake != REPEATED_ID:
                said = replace(said, ids=f"call_{len(self.exchanges)}_")
            self.exchanges.append((body, said))
            return said

    def _next(self, body: JsonDict) -> Said:
        move = self._task.next_move(body)
        if move is None:
            return Said(text="A title")
        offered = {tool["function"]["name"] for tool in body.get("tools") or []}
        if isinstance(move, str) and "respond" in offered and self._mistake != PLAIN:
            move = Call("respond", {"message": move})
        wrong = None if repr(move) in self._mistaken else mistaken(self._mistake, move, self.made)
        if wrong is None:
            return right(move)
        self._mistaken.add(repr(move))
        return wrong

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class names it so
                return

            def do_GET(self) -> None:
                if self.path.endswith("/models"):
                    self._send_json(200, {"object": "list", "data": [{"id": MODEL, "object": "model"}]})
                else:
                    self._send_json(404, {"error": {"code": 404, "message": "not found", "type": "not_found"}})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                said = model.say(body)
                if said.status != 200:
                    self._send_json(said.status, said.body)
                elif body.get("stream"):
                    self._send_events(said)
                else:
                    self._send_json(200, json.loads(said.as_whole()))

            def _send_json(self, status: int, body: JsonDict) -> None:
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def _send_events(self, said: Said) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                for event in said.as_stream().split(b"\n\n")[:-1]:
                    self.wfile.write(b"%x\r\n%s\n\n\r\n" % (len(event) + 2, event))
                self.wfile.write(b"0\r\n\r\n")

        return Handler
