"""`forge-proxy top` in a real terminal: what it shows, a resize, cancelling, and how it ends."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import httpx

from tests.fakes.processes import ROOT, command, daemon, environment, model_server, until
from tests.system.asking import PATH, ask


class Terminal:
    """The command in a terminal, and everything that it has written."""

    def __init__(self, url: str) -> None:
        self._ours, self._its = pty.openpty()
        self.resize(24, 100)
        self.modes = termios.tcgetattr(self._its)
        self.written = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "forge_proxy", "top", "--url", url],
            cwd=ROOT, env=_without_size(environment({"TERM": "xterm"})),
            stdin=self._its, stdout=self._its, stderr=self._its,
            start_new_session=True,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with suppress(OSError):  # the terminal is closed
            while piece := os.read(self._ours, 65536):
                self.written += piece.decode(errors="replace")

    def wait_for(self, text: str) -> None:
        until(lambda: text in self.written, f"{text} is shown")
        self.written = self.written[self.written.rindex(text) :]

    def press(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._its, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def wait(self) -> int:
        code = self.process.wait(60)
        assert termios.tcgetattr(self._its) == self.modes
        return code

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._its)
        self._reader.join(10)
        os.close(self._ours)


def _without_size(variables: dict[str, str]) -> dict[str, str]:
    """Leave out the variables of workers of pytest-xdist that would fix the size of the terminal."""
    return {name: value for name, value in variables.items() if name not in ("COLUMNS", "LINES")}


@contextmanager
def terminal(url: str) -> Generator[Terminal]:
    opened = Terminal(url)
    try:
        yield opened
    finally:
        opened.close()


def test_a_request_is_seen_and_cancelled_and_the_guardrails_are_switched() -> None:
    with model_server(slots=1) as server, daemon("--backend-url", server.url) as proxy, terminal(proxy.url) as top:
        with ThreadPoolExecutor(1) as pool:
            headers = {"x-request-id": "one", "user-agent": "aider/0.86"}
            body = ask("hangs", stream=True)
            sent = pool.submit(httpx.post, proxy.url + PATH, json=body, headers=headers, timeout=60)
            top.wait_for("Requests under way: 1")
            top.wait_for("aider/0.86")
            top.press(b"c")
            top.wait_for("cancel one?")
            top.press(b"y")
            assert sent.result(60).status_code == 503
        top.wait_for("Requests under way: 0")

        top.press(b"g")
        top.wait_for("switch the guardrails off?")
        top.press(b"y")
        top.wait_for("guardrails: all off")
        enabled = httpx.get(f"{proxy.url}/admin/v1/guardrails").json()["enabled"]
        top.resize(24, 40)
        top.wait_for("c cancel   b budget mode   …")
        top.press(b"q")
        assert top.wait() == 0

    assert not any(enabled.values())


def test_it_ends_with_ctrl_c_and_with_the_daemon() -> None:
    with model_server() as server, daemon("--backend-url", server.url) as proxy:
        with terminal(proxy.url) as top:
            top.wait_for("Requests under way: 0")
            top.process.send_signal(signal.SIGINT)
            assert top.wait() == 0
            assert "Traceback" not in top.written
        with terminal(proxy.url) as top:
            top.wait_for("Requests under way: 0")
            proxy.stop()
            assert top.wait() == 0
            top.wait_for("forge-proxy: the daemon is stopping")


def test_without_a_terminal_it_says_what_to_use_instead() -> None:
    ended = command("top", "--url", "http://127.0.0.1:9")

    assert ended.code == 1
    assert ended.err == (
        "forge-proxy: top needs a terminal; without one, use forge-proxy logs or GET /admin/v1/requests/stream\n"
    )
