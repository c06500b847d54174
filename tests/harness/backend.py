"""A model server whose model makes one mistake a conversation: it plays the far side while a real harness works."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.fakes.says import Said, respond

ANSWER = "hello.py prints a greeting."
MISTAKES: dict[str, Callable[[str, dict[str, str]], Said]] = {
    "right": lambda name, args: Said(calls=((name, json.dumps(args)),)),
    "fence": lambda name, args: Said(text=f"```json\n{json.dumps({'name': name, 'arguments': args})}\n```"),
    "hermes": lambda name, args: Said(
        text=f"<tool_call>\n{json.dumps({'name': name, 'arguments': args})}\n</tool_call>"
    ),
    "mistral": lambda name, args: Said(text=f"[TOOL_CALLS]{name}{json.dumps(args)}"),
    "announced": lambda name, args: Said(text="I will read hello.py now."),
    "unknown name": lambda name, args: Said(calls=((f"{name}_the_file", json.dumps(args)),)),
    "no arguments": lambda name, args: Said(calls=((name, "{}"),)),
    "broken JSON": lambda name, args: Said(text=f'<tool_call>{{"name": "{name}", "arguments": {{</tool_call>'),
    "empty": lambda name, args: Said(text=""),
}


class MistakenModel:
    """Reads hello.py by the harness's own `read` tool, with `mistake` on the first try, and then answers.

    `file_read` says whether the harness ran the tool: whether the file's content came back as a tool result.
    """

    def __init__(self, mistake: str) -> None:
        self.file_read = False
        self._mistake = MISTAKES[mistake]
        self._made = False
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> MistakenModel:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()

    def say(self, body: dict[str, Any]) -> Said:
        """The model's next answer."""
        tools = {tool["function"]["name"]: tool["function"]["parameters"] for tool in body.get("tools") or []}
        if "read" not in tools:
            return Said(text="A title")
        results = [m["content"] for m in body["messages"] if m["role"] == "tool"]
        if any("hello from the file" in json.dumps(result) for result in results):
            self.file_read = True
            return respond(ANSWER) if "respond" in tools else Said(text=ANSWER)
        args = {tools["read"]["required"][0]: "hello.py"}
        if self._made:
            return MISTAKES["right"]("read", args)
        self._made = True
        return self._mistake("read", args)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        model = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class names it so
                return

            def do_GET(self) -> None:
                self._send("application/json", b'{"object": "list", "data": [{"id": "mistaken", "object": "model"}]}')

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                said = model.say(body)
                if body.get("stream"):
                    self._send("text/event-stream", said.as_stream())
                else:
                    self._send("application/json", said.as_whole())

            def _send(self, kind: str, data: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        return Handler
