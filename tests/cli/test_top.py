"""The screen of `forge-proxy top`: what it shows at any size, and what its keys do."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from rich.console import Console

from forge_proxy.cli.top import TopScreen
from forge_proxy.cli.top_view import TopState, describe_phase, draw, select_shown
from forge_proxy.client.remote import AdminClient, DaemonError

STATUS: dict[str, Any] = {
    "backend": {
        "kind": "embedded",
        "health": {"status": "ok"},
        "server": {"state": "ready", "model": "coder", "detail": ""},
    },
    "queue": {"running": 1, "slots": 2, "waiting": 3, "paused": False},
    "budget": {"mode": "backend", "tokens": 32768},
    "guardrails": {"enabled": {"rescue": True, "retry": True}},
}


def request(number: int, **fields: Any) -> dict[str, Any]:
    return {
        "request_id": f"req-{number}",
        "surface": "messages",
        "client": "",
        "program": "claude-cli/2.0",
        "model": "coder",
        "phase": "generating",
        "attempt": 1,
        "elapsed": 2.5,
        "queue_position": None,
        "prompt_tokens": None,
        "processed_tokens": None,
        "output_tokens": 40,
        "tokens_per_second": 21.25,
        **fields,
    }


def drawn(state: TopState, width: int, height: int) -> list[str]:
    console = Console(width=width, height=height, force_terminal=False)
    with console.capture() as captured:
        console.print(draw(state, height))
    return captured.get().splitlines()


@pytest.mark.parametrize(("width", "height"), [(40, 12), (80, 24), (200, 60)])
def test_the_screen_fits_a_terminal_of_any_size(width: int, height: int) -> None:
    requests = [request(number) for number in range(100)]

    lines = drawn(TopState(STATUS, requests, 150, "req-50"), width, height)

    assert len(lines) <= height
    assert all(len(line) <= width for line in lines)
    assert "Requests under way: 150" in "\n".join(lines)
    assert "21.2" in "\n".join(lines)


def test_the_daemon_and_the_requests_are_shown() -> None:
    text = "\n".join(drawn(TopState(STATUS, [request(1, model="\x1b[2Jx")], 1, "req-1", "a message"), 120, 24))

    assert "server      coder  ready" in text
    assert "1 of 2 slots, 3 waiting" in text
    assert "backend, 32768 tokens" in text
    assert "guardrails  all on" in text
    assert "claude-cli/2.0" in text
    assert "a message" in text
    assert "\x1b" not in text


def test_the_selected_request_is_among_those_that_are_shown() -> None:
    requests = [request(number) for number in range(10)]

    def shown(selected: str) -> list[str]:
        return [one["request_id"] for one in select_shown(TopState(requests=requests, selected=selected), 3)]

    assert shown("req-0") == ["req-0", "req-1", "req-2"]
    assert shown("req-5") == ["req-3", "req-4", "req-5"]
    assert shown("req-9") == ["req-7", "req-8", "req-9"]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "generating"),
        ({"phase": "queued", "queue_position": 3}, "queued #3"),
        ({"phase": "prefill", "prompt_tokens": 200, "processed_tokens": 50, "output_tokens": 0}, "prefill 25 %"),
    ],
)
def test_a_phase_has_its_place_or_its_progress(fields: dict[str, Any], text: str) -> None:
    assert describe_phase(request(1, **fields)) == text


class Remote(AdminClient):
    """A daemon that records what it is told."""

    def __init__(self, error: str = "") -> None:
        super().__init__("http://nowhere", None)
        self.sent: list[tuple[str, str, Any]] = []
        self._error = error

    def admin(self, method: str, path: str, body: dict[str, Any] | None = None, **query: Any) -> dict[str, Any]:
        if method != "GET":
            self.sent.append((method, path, body))
        if self._error:
            raise DaemonError(self._error)
        return STATUS


def press(remote: Remote, keys: str) -> TopScreen:
    """A screen with two requests, once all that these keys have started is done."""
    screen = TopScreen(remote, STATUS)
    screen.show([request(1), request(2)], 2)
    for key in keys:
        screen.press(key)
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and thread.name == "top-action":
            thread.join()
    return screen


@pytest.mark.parametrize(
    ("keys", "sent"),
    [
        ("c", []),
        ("cn", []),
        ("cy", [("POST", "requests/req-1/cancel", None)]),
        ("jcy", [("POST", "requests/req-2/cancel", None)]),
        ("jkjjcy", [("POST", "requests/req-2/cancel", None)]),
        ("by", [("PUT", "budget", {"mode": "forge-full"})]),
        ("gy", [("PATCH", "guardrails", {"enabled": {"rescue": False, "retry": False}})]),
        ("y", []),
    ],
)
def test_keys_act_once_they_are_confirmed(keys: str, sent: list[Any]) -> None:
    remote = Remote()

    press(remote, keys)

    assert remote.sent == sent


def test_an_error_of_the_daemon_is_shown() -> None:
    assert press(Remote("no request with the id req-1 is under way"), "cy").state.message.startswith("no request with")
