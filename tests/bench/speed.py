"""How fast texts are searched for calls, in this process: the one piece of work that may hold up the event loop."""

from __future__ import annotations

import time
from collections.abc import Generator
from statistics import median

from forge_proxy.core.rescue import Scan, rescue

_SIZE = 1_000_000
_PIECE = 4096
_NAMES = ("get_weather", "send_email", "list_files", "respond")
_TEXTS = {
    "prose": "The quick brown fox jumps over the lazy dog, and nobody asked it to. ",
    "code": '```python\ndef f(x):\n    return {"a": [x], "b": x[0]}\n```\nThen call `f`.\n',
    "JSON of other things": '{"name": "Anna", "arguments": {"deep": [1, 2, {"x": "y"}]}}\n',
    "broken calls": '<tool_call>\n{"name": "get_weather", "arguments": {"city": \n',
    "open brackets": '{"name": [',
}


def rescue_speeds(times: int) -> Generator[tuple[str, float]]:
    """What is searched, and MB of it a second: whole texts of 1 MB by `rescue`, the same in pieces by `Scan`."""
    for label, text in _TEXTS.items():
        whole = (text * (_SIZE // len(text) + 1))[:_SIZE]
        yield f"rescue, {label}", _SIZE / 1e6 / median(_seconds_to_rescue(whole) for _ in range(times))
    yield f"scan, prose in pieces of {_PIECE}", _SIZE / 1e6 / median(_seconds_to_scan() for _ in range(times))


def _seconds_to_rescue(text: str) -> float:
    began = time.perf_counter()
    rescue(text, _NAMES)
    return time.perf_counter() - began


def _seconds_to_scan() -> float:
    text = _TEXTS["prose"] * (_SIZE // len(_TEXTS["prose"]))
    scan = Scan(_NAMES)
    began = time.perf_counter()
    for at in range(0, len(text), _PIECE):
        scan.feed(text[at : at + _PIECE])
    return time.perf_counter() - began
