"""Formats admin API responses for people, one line per value. `--json` prints them unchanged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.text import Text

_JsonDict = dict[str, Any]
_FORMER_FIELDS = frozenset({"acts", "because", "known", "now", "text_answers", "unmanaged_because"})
"""Former names of fields, which responses repeat until 0.3."""

_OBSTACLES = {
    "paused": "new requests wait for the model server",
    "hours": "outside jobs.hours",
    "interactive_requests": "interactive requests wait",
    "slots": "all slots are used",
    "reserved_slots": "the free slots are reserved for interactive clients",
    "model": "another model is loaded",
}
"""Why background requests wait, by `blocked_by`."""


def show(response: _JsonDict, *, as_json: bool) -> None:
    """Print a response as JSON, or each value with its dotted name."""
    if as_json:
        print(json.dumps(response, indent=2))
    else:
        show_rows(list(_flat(response)))


def show_rows(rows: list[tuple[str, str]]) -> None:
    """Print names and values in two columns."""
    console = Console(highlight=False)
    width = max((len(name) for name, _ in rows), default=0) + 2
    for name, value in rows:  # no rich markup: the values contain text of other programs, including brackets
        console.print(Text.assemble((f"{name:<{width}}", "bold"), value), soft_wrap=True)


def status_rows(response: _JsonDict) -> list[tuple[str, str]]:
    """Return the rows of `/admin/v1/status`."""
    backend, queue, hardware = response["backend"], response["queue"], response["hardware"]
    health, server = backend["health"], backend["server"]
    off = [name for name, on in response["guardrails"]["enabled"].items() if not on]
    gpus = [f"{gpu['name']} ({gpu['vram_mb'] or '?'} MiB)" for gpu in hardware["gpus"]]
    cores = f"{hardware['cores']} cores"
    rows = [
        ("daemon", f"forge-proxy {response['version']}, up {describe_duration(response['uptime_seconds'])}"),
        ("backend", _place(backend)),
        ("reason", backend["reason"]),
        ("health", f"{health['status']} {health['detail']}".strip()),
    ]
    if server is not None:
        rows.append(("server", f"{server['state']}, model {server['model'] or 'none'} {server['detail']}".strip()))
    return [
        *rows,
        ("budget", budget_words(response["budget"])),
        ("queue", _queue_words(queue)),
        ("background", _background_words(queue["background"])),
        *_job_rows(response["jobs"]),
        (
            "memory",
            f"{response['memory']['used_mb']:g} of {response['memory']['limit_mb']:g} MB of bodies and responses",
        ),
        ("guardrails", "all on" if not off else f"off: {', '.join(off)}"),
        ("hardware", "; ".join((", ".join(gpus) or "no graphics card", f"{hardware['ram_mb']} MiB RAM", cores))),
    ]


def budget_words(budget: _JsonDict) -> str:
    """Describe a budget on one line."""
    tokens = "no bound" if budget["tokens"] is None else f"{budget['tokens']} tokens"
    return f"{budget['mode']}: {tokens} ({budget['reason']})"


def tier_words(tier: _JsonDict) -> str:
    """Describe a tier on one line: its model, and what is set for it."""
    given = {name: value for name, value in tier["settings"].items() if value not in (None, "auto") and name != "model"}
    words = [str(tier["served"] or tier["settings"]["model"] or "no model is known")]
    words += [f"{tier['window']} tokens"] if tier["window"] is not None else []
    words += [f"{name} {value}" for name, value in given.items()]
    return ", ".join(words) + ("" if tier["is_listed"] else " (not set)")


def preview_rows(response: _JsonDict) -> list[tuple[str, str]]:
    """Return the rows of `/admin/v1/compaction/preview`: one per phase, then one per message that would be cut."""
    counted = "" if response["exact"] else "about "
    rows = [("as it is", f"{counted}{response['tokens']} tokens, the budget is {response['budget_tokens']}")]
    for phase in response["phases"]:
        cut = f"messages cut: {len(phase['cuts'])}, {counted}{phase['tokens']} tokens remain"
        rows.append((f"phase {phase['phase']}", cut if phase["fits"] else f"{cut}: still over the budget"))
    if response["used"] is None:
        return [
            *rows,
            ("used", "none: nothing would be cut" if response["fits"] else "none: the request would be rejected"),
        ]
    rows.append(
        (
            "used",
            f"phase {response['used']}" + ("" if response["fits"] else ", and the request would still be rejected"),
        )
    )
    used = next(phase for phase in response["phases"] if phase["phase"] == response["used"])
    cuts = [(f"message {cut['message']}", f"{cut['type']} {cut['action']}: {cut['reason']}") for cut in used["cuts"]]
    return [*rows, *cuts]


def _job_rows(jobs: _JsonDict | None) -> list[tuple[str, str]]:
    """Describe the jobs, and each queue in which one runs or waits."""
    if jobs is None:
        return []
    unfinished: _JsonDict = jobs["unfinished"] or {}
    words = ", ".join(f"{number} {status}" for status, number in unfinished.items()) or "none unfinished"
    queues = [
        f"{name} {queue['running']} of {queue['limit']} running, {queue['waiting']} waiting"
        for name, queue in jobs["queues"].items()
        if queue["running"] or queue["waiting"]
    ]
    return [("jobs", "; ".join((f"{jobs['scheduler']} scheduler: {words}", *queues)))]


def _queue_words(queue: _JsonDict) -> str:
    words = f"{queue['running']} running, {queue['waiting']} waiting, slots {queue['slots'] or 'not bounded'}"
    return f"{words}; paused: new requests wait for the model server" if queue["paused"] else words


def _background_words(background: _JsonDict) -> str:
    words = f"{background['running']} running, {background['waiting']} waiting"
    reason = background["blocked_by"]
    return f"{words}: {_OBSTACLES.get(reason, reason)}" if reason else words


def _place(backend: _JsonDict) -> str:
    kind, url = backend["kind"], backend["url"]
    return f"{kind} at {url}" if "://" in url else kind  # a managed server has no address while it is stopped


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():  # pyright: ignore[reportUnknownVariableType]
            if key not in _FORMER_FIELDS:
                yield from _flat(inner, f"{name}.{key}" if name else str(key))  # pyright: ignore[reportUnknownArgumentType]
    elif isinstance(value, list):
        yield name, ", ".join(map(str, value)) or "none"  # pyright: ignore[reportUnknownArgumentType]
    else:
        yield name, _format_value(value)


def _format_value(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "none" if value is None else str(value)


def describe_duration(seconds: float) -> str:
    """Describe a duration by its two largest units."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
