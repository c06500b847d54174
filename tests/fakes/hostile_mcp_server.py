"""An MCP server on stdio without any package, whose tools misbehave as their names say.

It implements only `initialize`, `tools/list` and what each tool does to the pipe.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

_MEGABYTE = b"x" * 1024 * 1024


def write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def send(**message: Any) -> None:
    write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def send_result(number: int, text: str) -> None:
    send(id=number, result={"content": [{"type": "text", "text": text}]})


def send_raw_result(number: int, value: bytes) -> None:
    """Send a result whose structured content is not written by `json`."""
    write(b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],"structuredContent":{"a":%b}}}\n' % (number, value))


def hang(_: int) -> None:
    time.sleep(1000)


def endless_line(_: int) -> None:
    while True:
        write(_MEGABYTE)


def endless_lines(_: int) -> None:
    while True:
        write(b"this is no message\n" * 10_000)


def endless_notifications(_: int) -> None:
    note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}
    while True:
        write((json.dumps(note).encode() + b"\n") * 1000)


def endless_strange_responses(_: int) -> None:
    while True:
        write(b'{"jsonrpc":"2.0","id":123456789,"result":{}}\n' * 1000)


def endless_errors(_: int) -> None:
    while True:
        sys.stderr.buffer.write(_MEGABYTE)


def garbage(number: int) -> None:
    write(b"\xff\xfe no message\n\n{}\n[]\nnull\n")
    send_result(number, "after garbage")


def hundred_megabytes(number: int) -> None:
    write(b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"' % number)
    for _ in range(100):
        write(_MEGABYTE)
    write(b'"}]}}\n')


def deep(number: int) -> None:
    send_raw_result(number, b"[" * 10_000 + b"]" * 10_000)


def deep_enough_to_read(number: int) -> None:
    send_raw_result(number, b"[" * 150 + b"]" * 150)


def invalid_utf8(number: int) -> None:
    send_raw_result(number, b'"\xff\xfe"')


def not_a_number(number: int) -> None:
    send_raw_result(number, b"NaN")


def half_character(number: int) -> None:
    write(b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"a\\ud83d"}]}}\n' % number)


def pid(number: int) -> None:
    send_result(number, str(os.getpid()))


def daemonize(number: int) -> None:
    """Start a process in a session of its own whose parent ends at once; its pid is the result."""
    script = (
        "import os, sys, time\n"
        "if os.fork(): os._exit(0)\n"
        "os.setsid()\n"
        "if os.fork(): os._exit(0)\n"
        "print(os.getpid(), flush=True)\n"
        "os.close(1)\n"
        "time.sleep(1000)\n"
    )
    started = subprocess.run(
        [sys.executable, "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True
    )
    send_result(number, started.stdout.decode().strip())


TOOLS: dict[str, Callable[[int], None]] = {
    tool.__name__: tool
    for tool in (
        hang, endless_line, endless_lines, endless_notifications, endless_strange_responses, endless_errors, garbage,
        hundred_megabytes, deep, deep_enough_to_read, invalid_utf8, not_a_number, half_character, pid, daemonize,
    )
}  # fmt: skip


def main() -> None:
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        match message["method"]:
            case "initialize":
                version = message["params"]["protocolVersion"]
                info = {"name": "hostile", "version": "1"}
                result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
                send(id=message["id"], result=result)
            case "tools/list":
                tools = [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]
                send(id=message["id"], result={"tools": tools})
            case "tools/call":
                TOOLS[message["params"]["name"]](message["id"])
            case _:
                send(id=message["id"], error={"code": -32601, "message": "no such method"})


if __name__ == "__main__":
    main()
