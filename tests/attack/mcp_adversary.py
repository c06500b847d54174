"""A hostile MCP server as a program: `python -m tests.attack.mcp_adversary KIND`.

It speaks the protocol until the tool `count` is called, and then does what KIND says. `silent` never answers at all.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

_SECONDS = 60.0
_TOOL = {
    "name": "count",
    "description": "Counts.",
    "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}},
}


def _answer(request: dict[str, Any], result: object) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}) + "\n")
    sys.stdout.flush()


def _misbehave(kind: str, request: dict[str, Any]) -> None:
    end = time.monotonic() + _SECONDS
    if kind == "dies":
        sys.exit(1)
    if kind == "huge":
        _answer(request, {"content": [{"type": "text", "text": "x" * 100_000_000}]})
    note = json.dumps(
        {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x" * 500}}
    )
    while time.monotonic() < end:
        if kind == "floods":
            sys.stdout.write((note + "\n") * 100)
        elif kind == "long-line":
            sys.stdout.write("x" * 65536)
        elif kind == "garbage":
            sys.stdout.write("\x00garbage {]\n")
            time.sleep(0.001)
        else:
            time.sleep(1)
        sys.stdout.flush()


def main() -> None:
    """Serve until the input ends."""
    kind = sys.argv[1]
    for line in sys.stdin:
        request = json.loads(line)
        method = request.get("method")
        if "id" not in request or kind == "silent":
            continue
        if method == "initialize":
            version = request["params"]["protocolVersion"]
            about = {"name": "adversary", "version": "1"}
            _answer(request, {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about})
        elif method == "tools/list":
            _answer(request, {"tools": [_TOOL]})
        elif method == "tools/call":
            _misbehave(kind, request)
        elif method == "ping":
            _answer(request, {})
        else:
            error = {"code": -32601, "message": f"no method {method}"}
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
