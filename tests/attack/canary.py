"""An honest client as a program: `python -m tests.attack.canary HOST PORT KEY`.

It sends `GET /healthz` and small guarded chat completions, each 20 ms after the one before, until its input ends. Then
it prints the longest waits as JSON.

A process of its own, so that the attackers' work does not delay its measurements more than the machine does.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from http.client import HTTPConnection, RemoteDisconnected

_PAUSE = 0.02


class Prober:
    """Sends one request again and again. `longest` is in seconds."""

    def __init__(self, address: tuple[str, int], key: str, method: str, path: str, body: bytes | None) -> None:
        self._address = address
        self._request = (method, path, body)
        self._headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
        self.longest = 0.0
        self.failures: list[str] = []

    def probe(self, ended: threading.Event) -> None:
        """Send requests until stopped."""
        connection = HTTPConnection(*self._address, timeout=60)
        while not ended.wait(_PAUSE):
            began = time.perf_counter()
            try:
                try:
                    status = self._send(connection)
                except (
                    RemoteDisconnected,
                    BrokenPipeError,
                    ConnectionResetError,
                ):  # an idle connection that was closed
                    connection.close()
                    status = self._send(connection)
                if status != 200:
                    self.failures.append(f"{self._request[1]}: {status}")
            except OSError as exc:
                self.failures.append(f"{self._request[1]}: {type(exc).__name__}")
                connection.close()
            self.longest = max(self.longest, time.perf_counter() - began)

    def _send(self, connection: HTTPConnection) -> int:
        method, path, body = self._request
        connection.request(method, path, body, self._headers)
        response = connection.getresponse()
        response.read()
        return response.status


def main() -> None:
    """Measure until standard input is closed."""
    address, key = (sys.argv[1], int(sys.argv[2])), sys.argv[3]
    tool = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
    chat = json.dumps({"model": "says", "messages": [{"role": "user", "content": "hi"}], "tools": [tool]}).encode()
    lag = Prober(address, key, "GET", "/healthz", None)
    small = Prober(address, key, "POST", "/v1/chat/completions", chat)
    ended = threading.Event()
    threads = [threading.Thread(target=prober.probe, args=(ended,)) for prober in (lag, small)]
    for thread in threads:
        thread.start()
    print("ready", flush=True)  # noqa: T201
    sys.stdin.read()
    ended.set()
    for thread in threads:
        thread.join()
    failures = [*lag.failures, *small.failures]
    told = {"lag": lag.longest, "chat": small.longest, "failures": failures[:5], "failed": len(failures)}
    print(json.dumps(told), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
