"""Formats an event of the daemon as one line for people. Pure, except for the time zone."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from rich.text import Text

from forge_proxy.core.jsontypes import is_list

_STYLES = {"warning": "yellow", "error": "red"}
_NAME_WIDTH = 14
_APART = ("timestamp", "level", "event", "request_id")


def render_event(data: dict[str, Any]) -> Text:
    """Return the line of an event: time, name, fields, and at the end the request.

    Names of models, tools and programs are made up by others: what could control the terminal is escaped.
    """
    fields = [(name, value) for name, value in data.items() if name not in _APART and value not in (None, "", [], {})]
    style = _STYLES.get(data["level"], "")
    line = Text.assemble(
        (_local_time(data["timestamp"]), "dim"), "  ", (f"{data['event']:<{_NAME_WIDTH}}", f"bold {style}".strip())
    )
    for name, value in fields:
        line.append("  ").append(f"{name}=", "dim").append(describe_value(value), style)
    if request_id := data.get("request_id"):
        line.append("  ").append(describe_value(request_id), "dim")
    return line


def describe_value(value: object) -> str:
    """Return a value as text on one line without control characters."""
    if is_list(value):
        return ",".join(describe_value(one) for one in value)
    text = value if isinstance(value, str) else json.dumps(value)
    return text if text.isprintable() and " " not in text else json.dumps(text, ensure_ascii=not text.isprintable())


def _local_time(timestamp: str) -> str:
    return datetime.fromisoformat(timestamp).astimezone().strftime("%H:%M:%S")
