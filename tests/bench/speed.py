"""The speed of the search for calls in texts, in this process: the only work that may block the event loop."""

from __future__ import annotations

import json
import time
from collections.abc import Generator
from statistics import median

from forge_proxy.core.rescue import StreamingParser, rescue

_SIZE = 1_000_000
_PIECES = (16, 4096)
_NAMES = ("get_weather", "send_email", "list_files", "respond")
_CODE = '```python\ndef f(x):\n    return {"a": [x], "b": x[0]}\n```\nThen call `f`.\n'
_REPEATED = {
    "prose": "The quick brown fox jumps over the lazy dog, and nobody asked it to. ",
    "code": _CODE,
    "HTML": '<div class="a"><p>Hello <b>you</b></p></div>\n',
    "JSON of other things": '{"name": "Anna", "arguments": {"deep": [1, 2, {"x": "y"}]}}\n',
    "broken calls": '<tool_call>\n{"name": "get_weather", "arguments": {"city": \n',
    "open brackets": '{"name": [',
}


def _texts() -> Generator[tuple[str, str]]:
    """Return texts of 1 MB, and a shorter one whose brackets cannot be matched."""
    for label, text in _REPEATED.items():
        yield label, (text * (_SIZE // len(text) + 1))[:_SIZE]
    code = json.dumps(_CODE * (_SIZE // len(_CODE)))
    yield "one long call", f'<tool_call>{{"name": "send_email", "arguments": {{"text": {code}}}}}</tool_call>'
    raw = _CODE * (_SIZE // len(_CODE))
    yield "one long call in tags", f"<function=send_email><parameter=text>{raw}</parameter></function>"
    yield "8,000 opening braces", "{" * 8000
    yield "8,000 opening braces of a call", "<tool_call>" + '{"name":' * 8000


def rescue_speeds(times: int) -> Generator[tuple[str, float]]:
    """Print MB per second: whole texts by `rescue`, prose and code in pieces by `StreamingParser`."""
    for label, text in _texts():
        yield f"rescue, {label}", len(text) / 1e6 / median(_seconds_to_rescue(text) for _ in range(times))
        if label in ("prose", "code", "one long call"):
            for length in _PIECES:
                took = median(_seconds_to_scan(text, length) for _ in range(times))
                yield f"scan, {label} in pieces of {length:,}", len(text) / 1e6 / took


def _seconds_to_rescue(text: str) -> float:
    began = time.perf_counter()
    rescue(text, _NAMES)
    return time.perf_counter() - began


def _seconds_to_scan(text: str, length: int) -> float:
    scan = StreamingParser(_NAMES)
    began = time.perf_counter()
    for at in range(0, len(text), length):
        scan.feed(text[at : at + length])
    return time.perf_counter() - began
