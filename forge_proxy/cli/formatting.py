"""What the daemon says, for people: a line a fact. `--json` prints it as it came."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.text import Text

_JsonDict = dict[str, Any]


def show(said: _JsonDict, *, as_json: bool) -> None:
    """Print an answer: as JSON, or each value under its dotted name."""
    if as_json:
        print(json.dumps(said, indent=2))
    else:
        show_rows(list(_flat(said)))


def show_rows(rows: list[tuple[str, str]]) -> None:
    """Print names and values in two columns."""
    console = Console(highlight=False)
    width = max((len(name) for name, _ in rows), default=0) + 2
    for name, value in rows:  # as they are: the values hold other programs' words, brackets included
        console.print(Text.assemble((f"{name:<{width}}", "bold"), value), soft_wrap=True)


def status_rows(said: _JsonDict) -> list[tuple[str, str]]:
    """The facts that matter of `/admin/v1/status`."""
    backend, queue, hardware = said["backend"], said["queue"], said["hardware"]
    health, server = backend["health"], backend["server"]
    off = [name for name, on in said["guardrails"]["enabled"].items() if not on]
    gpus = [f"{gpu['name']} ({gpu['vram_mb'] or '?'} MiB)" for gpu in hardware["gpus"]]
    cores = f"{hardware['cores']} cores"
    rows = [
        ("daemon", f"forge-proxy {said['version']}, up {_duration(said['uptime_seconds'])}"),
        ("backend", _place(backend)),
        ("because", backend["because"]),
        ("health", f"{health['status']} {health['detail']}".strip()),
    ]
    if server is not None:
        rows.append(("server", f"{server['state']}, model {server['model'] or 'none'} {server['detail']}".strip()))
    return [
        *rows,
        ("budget", budget_words(said["budget"])),
        ("queue", _queue_words(queue)),
        ("memory", f"{said['memory']['used_mb']:g} of {said['memory']['limit_mb']:g} MB of bodies and responses"),
        ("guardrails", "all on" if not off else f"off: {', '.join(off)}"),
        ("hardware", "; ".join((", ".join(gpus) or "no graphics card", f"{hardware['ram_mb']} MiB RAM", cores))),
    ]


def budget_words(budget: _JsonDict) -> str:
    """A budget on one line."""
    tokens = "no bound" if budget["tokens"] is None else f"{budget['tokens']} tokens"
    return f"{budget['mode']}: {tokens} ({budget['because']})"


def preview_rows(said: _JsonDict) -> list[tuple[str, str]]:
    """What `/admin/v1/compaction/preview` says: a line a phase, then one for each message that would be cut."""
    counted = "" if said["exact"] else "about "
    rows = [("as it is", f"{counted}{said['tokens']} tokens, the budget is {said['budget_tokens']}")]
    for phase in said["phases"]:
        cut = f"messages cut: {len(phase['cuts'])}, {counted}{phase['tokens']} tokens left"
        rows.append((f"phase {phase['phase']}", cut if phase["fits"] else f"{cut}: still over the budget"))
    if said["used"] is None:
        return [*rows, ("used", "none: nothing would be cut" if said["fits"] else "none: it would be refused")]
    rows.append(("used", f"phase {said['used']}" + ("" if said["fits"] else ", and it would be refused even so")))
    used = next(phase for phase in said["phases"] if phase["phase"] == said["used"])
    cuts = [(f"message {cut['message']}", f"{cut['type']} {cut['what']}: {cut['why']}") for cut in used["cuts"]]
    return [*rows, *cuts]


def _queue_words(queue: _JsonDict) -> str:
    words = f"{queue['running']} running, {queue['waiting']} waiting, slots {queue['slots'] or 'not bounded'}"
    return f"{words}; paused: who comes waits for the model server" if queue["paused"] else words


def _place(backend: _JsonDict) -> str:
    kind, url = backend["kind"], backend["url"]
    return f"{kind} at {url}" if "://" in url else kind  # one of ours has no address while it does not run


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():  # pyright: ignore[reportUnknownVariableType]
            yield from _flat(inner, f"{name}.{key}" if name else str(key))  # pyright: ignore[reportUnknownArgumentType]
    elif isinstance(value, list):
        yield name, ", ".join(map(str, value)) or "none"  # pyright: ignore[reportUnknownArgumentType]
    else:
        yield name, _word(value)


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "none" if value is None else str(value)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
