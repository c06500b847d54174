"""An honest client as a program: `python -m tests.attack.canary HOST PORT KEY`. A small request every 20 ms, in turn
`GET /healthz` and a guarded chat completion, until its input ends. Then it prints the longest waits as JSON.

A process of its own, so that the attackers' work does not delay its measurements more than the machine does.
"""

from __future__ import annotations

import json
import select
import sys
import time
from http.client import HTTPConnection

_PAUSE = 0.02


def main() -> None:
    """Measure until standard input is closed."""
    host, port, key = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    tool = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
    chat = json.dumps({"model": "says", "messages": [{"role": "user", "content": "hi"}], "tools": [tool]}).encode()
    requests = {"lag": ("GET", "/healthz", None), "chat": ("POST", "/v1/chat/completions", chat)}
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
    longest = dict.fromkeys(requests, 0.0)
    failures: list[str] = []
    print("ready", flush=True)  # noqa: T201
    connections = {name: HTTPConnection(host, port, timeout=60) for name in requests}
    while not select.select([sys.stdin], [], [], _PAUSE)[0]:
        for name, (method, path, body) in requests.items():
            began = time.perf_counter()
            try:
                connections[name].request(method, path, body, headers)
                response = connections[name].getresponse()
                response.read()
                if response.status != 200:
                    failures.append(f"{path}: {response.status}")
            except OSError as exc:
                failures.append(f"{path}: {type(exc).__name__}")
                connections[name].close()
            longest[name] = max(longest[name], time.perf_counter() - began)
    print(json.dumps({**longest, "failures": failures[:5], "failed": len(failures)}), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
