"""Finish reasons that do not match the response."""

from __future__ import annotations

import json
from dataclasses import replace

from tests.fakes.says import Said
from tests.harness.fault import Ask, Fault, first, first_call, right
from tests.harness.tasks import Call


def _complete_with_length(ask: Ask) -> Said | None:
    return replace(right(ask.move), finish="length") if isinstance(ask.move, Call) else None


def _cut_text(ask: Ask) -> Said:
    if isinstance(ask.move, Call):
        return Said(text=f"I will now use {ask.move.tool} to", finish="length")
    return Said(text=ask.move[: len(ask.move) // 2], finish="length")


def _cut_call(call: Call, _ask: Ask) -> Said:
    arguments = json.dumps(call.args)
    return Said(calls=((call.tool, arguments[: len(arguments) * 2 // 3]),), finish="length")


FAULTS = (
    Fault(
        "length, complete call",
        "each call is complete and valid, with `length`",
        _complete_with_length,
    ),
    Fault("length, cut text", "text cut by the limit, with `length`", first(_cut_text), is_plain=True),
    Fault("length, cut call", "arguments cut by the limit, with `length`", first_call(_cut_call), is_plain=True),
    Fault(
        "content filter",
        "nothing, with `content_filter`",
        first(lambda _: Said(text="", finish="content_filter")),
        is_plain=True,
    ),
    Fault(
        "stop for a call", "a valid call with `stop`", first_call(lambda call, _: replace(right(call), finish="stop"))
    ),
)
