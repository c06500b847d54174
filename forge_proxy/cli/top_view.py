"""Draws `forge-proxy top`: the daemon above, the requests under way below. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from forge_proxy.cli.log_lines import describe_value

_JsonDict = dict[str, Any]
_STYLES = {"queued": "dim", "loading": "yellow", "retrying": "yellow", "buffering": "yellow"}
_HEAD_LINES = 8
"""Lines that are needed around the requests."""
KEYS = "↑↓ select   c cancel   b budget mode   g guardrails on/off   q quit"


@dataclass(frozen=True, slots=True)
class TopState:
    """What is shown. `status` is the daemon's `/status`; None while it is not known."""

    status: _JsonDict | None = None
    requests: Sequence[_JsonDict] = field(default_factory=list[_JsonDict])
    count: int = 0
    selected: str | None = None
    """The id of the selected request."""
    message: str = ""
    """The result of the last key, or what is to be confirmed."""
    error: str = ""
    """Why nothing new is shown."""


def draw(state: TopState, height: int) -> RenderableType:
    """Return the screen for a terminal with this number of lines."""
    shown = select_shown(state, max(1, height - _HEAD_LINES))
    more = state.count - len(shown)
    title = f"Requests under way: {state.count}" + (f" ({len(shown)} shown)" if more > 0 else "")
    lines: list[RenderableType] = [
        *_draw_daemon(state),
        Text(title, style="bold"),
        _draw_requests(shown, state.selected),
    ]
    note = Text(state.error, style="red") if state.error else Text(state.message, style="yellow")
    return Group(*lines, note, Text(KEYS, style="dim", no_wrap=True, overflow="ellipsis"))


def select_shown(state: TopState, rows: int) -> Sequence[_JsonDict]:
    """Return the requests that fit, the selected one among them."""
    ids = [one["request_id"] for one in state.requests]
    at = ids.index(state.selected) if state.selected in ids else 0
    first = max(0, min(at - rows + 1, len(ids) - rows))
    return state.requests[first : first + rows]


def _draw_daemon(state: TopState) -> list[Text]:
    if state.status is None:
        return [Text("connecting", style="dim")]
    status = state.status
    backend, queue, budget = status["backend"], status["queue"], status["budget"]
    server = backend["server"] or {"state": backend["health"]["status"], "model": None, "detail": ""}
    enabled = status["guardrails"]["enabled"]
    switched_on = [name for name, is_on in enabled.items() if is_on]
    guardrails = "all on" if len(switched_on) == len(enabled) else ", ".join(switched_on) or "all off"
    server_words = [describe_value(server["model"] or backend["kind"]), server["state"], str(server["detail"] or "")]
    rows = [
        ("server", "  ".join(filter(None, server_words))),
        (
            "queue",
            f"{queue['running']} of {queue['slots'] or 'any number of'} slots, {queue['waiting']} waiting"
            + (", paused" if queue["paused"] else ""),
        ),
        ("budget", f"{budget['mode']}, {budget['tokens'] or 'unknown'} tokens"),
        ("guardrails", guardrails),
    ]
    return [Text.assemble((f"{name:<12}", "bold"), words, no_wrap=True, overflow="ellipsis") for name, words in rows]


def _draw_requests(requests: Sequence[_JsonDict], selected: str | None) -> Table:
    table = Table(box=None, expand=True, pad_edge=False, show_edge=False)
    for name, ratio in (("phase", 4), ("model", 4), ("client", 4)):
        table.add_column(name, no_wrap=True, overflow="ellipsis", ratio=ratio)
    for name in ("try", "tokens", "tok/s", "time"):
        table.add_column(name, no_wrap=True, justify="right", min_width=len(name))
    for one in requests:
        speed = one["tokens_per_second"]
        client = " ".join(filter(None, (one["client"], one["program"]))) or one["surface"]
        table.add_row(
            Text(describe_phase(one), style=_STYLES.get(one["phase"], "green")),
            Text(describe_value(one["model"] or "")),
            Text(describe_value(client)),
            str(one["attempt"]),
            str(one["output_tokens"]),
            "" if speed is None else f"{speed:.1f}",
            f"{one['elapsed']:.1f}",
            style="reverse" if one["request_id"] == selected else "",
        )
    return table


def describe_phase(one: _JsonDict) -> str:
    """Return the phase with the place in the queue or the progress of the prompt."""
    done, prompt = one["processed_tokens"], one["prompt_tokens"]
    if one["queue_position"] is not None:
        return f"{one['phase']} #{one['queue_position']}"
    if prompt and done is not None and not one["output_tokens"]:
        return f"{one['phase']} {100 * done // prompt} %"
    return str(one["phase"])
