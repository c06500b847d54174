"""`forge-proxy top`: the requests under way at a running daemon, in a terminal, with keys that act on them."""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from urllib.parse import quote

import typer

from forge_proxy.cli.admin import Key, Url
from forge_proxy.cli.top_view import TopState, draw
from forge_proxy.client.remote import DEFAULT_URL, AdminClient
from forge_proxy.core.errors import ForgeError

_INTERVAL = 0.25
"""Seconds between two drawings."""
_STATUS_INTERVAL = 2.0
_MODES = ("backend", "forge-full", "forge-fast")
_ARROWS = {b"\x1b[A": "k", b"\x1b[B": "j", b"\x1bOA": "k", b"\x1bOB": "j"}


class NoTerminal(ForgeError):
    """A command that needs a terminal has none."""

    def __init__(self) -> None:
        super().__init__("top needs a terminal; without one, use forge-proxy logs or GET /admin/v1/requests/stream")


def top(url: Url = DEFAULT_URL, key: Key = None) -> None:
    """Show the requests under way, and cancel one, switch the budget or the guardrails with a key."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise NoTerminal
    remote = AdminClient(url, key)
    screen = TopScreen(remote, remote.admin("GET", "status"))
    try:
        with _read_single_keys():
            screen.run()
    except KeyboardInterrupt:
        raise typer.Exit from None


class TopScreen:
    """The state of the screen. Threads read the daemon; the main thread draws and reads keys."""

    def __init__(self, remote: AdminClient, status: dict[str, object]) -> None:
        self._remote = remote
        self.state = TopState(status)
        self._confirmed: Callable[[], str] | None = None
        """What the key `y` does."""
        self._guardrails: dict[str, bool] = {}
        """The guardrails before they were switched off."""
        self._is_over = False
        self._lock = threading.Lock()

    def run(self) -> None:
        """Show the screen until the user quits or the daemon stops."""
        from rich.console import Console
        from rich.live import Live

        for read in (self._follow, self._poll_status):
            threading.Thread(target=self._report_errors, args=(read,), daemon=True).start()
        console = Console(highlight=False)
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while not self._is_over:
                live.update(draw(self.state, console.size.height), refresh=True)
                if select.select([sys.stdin], [], [], _INTERVAL)[0]:
                    pressed = os.read(sys.stdin.fileno(), 16)
                    self.press(_ARROWS.get(pressed, pressed[:1].decode("ascii", "replace")))
        if self.state.error:
            print(f"forge-proxy: {self.state.error}", file=sys.stderr)

    def press(self, key: str) -> None:
        """Act on a key."""
        confirmed, self._confirmed = self._confirmed, None
        if confirmed is not None:
            self._start(confirmed) if key == "y" else self._change(message="")
            return
        match key:
            case "q":
                self._is_over = True
            case "j" | "k":
                self._select(1 if key == "j" else -1)
            case "c" if (selected := self.state.selected) is not None:
                self._ask(f"cancel {selected}?", partial(self._cancel, selected))
            case "b":
                self._ask(f"switch the budget to {self._next_mode()}?", self._switch_budget)
            case "g":
                self._ask(f"switch the guardrails {'off' if any(self._enabled().values()) else 'on'}?", self._toggle)
            case _:
                self._change(message="")

    def _ask(self, question: str, action: Callable[[], str]) -> None:
        self._confirmed = action
        self._change(message=f"{question} y: yes, any other key: no")

    def _start(self, action: Callable[[], str]) -> None:
        """Run an action in a thread: a budget may restart the model server, and the screen stays current meanwhile."""

        def run() -> None:
            try:
                self._change(message=action())
            except ForgeError as error:
                self._change(message=str(error))

        self._change(message="…")
        threading.Thread(target=run, name="top-action", daemon=True).start()

    def _cancel(self, request_id: str) -> str:
        self._remote.admin("POST", f"requests/{quote(request_id, safe='')}/cancel")
        return f"cancelled {request_id}"

    def _switch_budget(self) -> str:
        mode = self._next_mode()
        self._remote.admin("PUT", "budget", {"mode": mode})
        return f"the budget is {mode}"

    def _toggle(self) -> str:
        enabled = self._enabled()
        if any(enabled.values()):
            self._guardrails, wanted = enabled, dict.fromkeys(enabled, False)
        else:
            wanted = self._guardrails or dict.fromkeys(enabled, True)
        self._remote.admin("PATCH", "guardrails", {"enabled": wanted})
        self._change(status=self._remote.admin("GET", "status"))
        return f"guardrails: {', '.join(name for name, is_on in wanted.items() if is_on) or 'all off'}"

    def _enabled(self) -> dict[str, bool]:
        return dict(self.state.status["guardrails"]["enabled"]) if self.state.status else {}

    def _next_mode(self) -> str:
        mode = self.state.status["budget"]["mode"] if self.state.status else ""
        return _MODES[(_MODES.index(mode) + 1) % len(_MODES)] if mode in _MODES else _MODES[0]

    def _select(self, step: int) -> None:
        ids = [str(one["request_id"]) for one in self.state.requests]
        at = ids.index(self.state.selected) + step if self.state.selected in ids else 0
        self._change(selected=ids[max(0, min(at, len(ids) - 1))] if ids else None)

    def _change(self, **fields: object) -> None:
        with self._lock:
            self.state = replace(self.state, **fields)  # pyright: ignore[reportArgumentType]  # names of its fields

    def _follow(self) -> None:
        lost = "the connection to the daemon was lost; reconnecting"
        events = self._remote.events(
            "requests/stream", lambda sent: sent.type == "stopping", on_loss=lambda: self._change(error=lost)
        )
        for sent in events:
            if sent.type == "stopping":
                self._change(error=str(sent.data["message"]))
                self._is_over = True
                return
            self.show(sent.data["requests"], int(sent.data["count"]))

    def show(self, requests: list[dict[str, object]], count: int) -> None:
        """Show these requests."""
        ids = [str(one["request_id"]) for one in requests]
        chosen = self.state.selected
        selected = chosen if chosen in ids else (ids[0] if ids else None)
        self._change(requests=requests, count=count, selected=selected, error="")

    def _poll_status(self) -> None:
        while not self._is_over:
            time.sleep(_STATUS_INTERVAL)
            try:
                self._change(status=self._remote.admin("GET", "status"))
            except ForgeError as error:
                self._change(error=str(error))

    def _report_errors(self, read: Callable[[], None]) -> None:
        try:
            read()
        except ForgeError as error:
            self._change(error=str(error))
            self._is_over = True


@contextmanager
def _read_single_keys() -> Generator[None]:
    """Let keys arrive without Enter and without an echo, and restore the terminal at the end."""
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
