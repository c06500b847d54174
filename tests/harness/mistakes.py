"""The mistakes a scripted model makes in its first answer at each point of a conversation: the columns of the table.

A mistake that has several shapes takes another one at each point, so that a task meets more than one of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.fakes.says import Said
from tests.harness.tasks import Call, Move

RIGHT = "none"
PLAIN = "plain answer"
"""The last answer is text, whatever tool is offered for it and however often it is asked for."""
REPEATED_ID = "repeated id"
"""Each answer counts its calls anew, as some servers do; otherwise every id is a new one."""


def right(move: Move) -> Said:
    """The move, as it should be said."""
    return Said(text=move) if isinstance(move, str) else Said(calls=((move.tool, json.dumps(move.args)),))


def _text(call: Call, _: int) -> Said:
    return Said(text=f"I will now use {call.tool} for that.")


def _markup(call: Call, index: int) -> Said:
    arguments = json.dumps(call.args)
    whole = json.dumps({"name": call.tool, "arguments": call.args})
    shapes = (
        f"<tool_call>\n{whole}\n</tool_call>",
        f"[TOOL_CALLS]{call.tool}{arguments}",
        f"```json\n{whole}\n```",
    )
    return Said(text=shapes[index % len(shapes)])


def _unknown_name(call: Call, _: int) -> Said:
    return Said(calls=((f"{call.tool}_right_now", json.dumps(call.args)),))


def _broken_json(call: Call, index: int) -> Said:
    # Neither can be mended without guessing.
    if index % 2:
        return Said(text=f'<tool_call>{{"name": "{call.tool}", "arguments": {{</tool_call>')
    return Said(calls=((call.tool, f'{{"{next(iter(call.args))}": }}'),))


def _wrong_type(call: Call, _: int) -> Said:
    first, *others = call.args
    args = {first: {"value": call.args[first]}, **{name: call.args[name] for name in others}}
    return Said(calls=((call.tool, json.dumps(args)),))


def _no_arguments(call: Call, _: int) -> Said:
    return Said(calls=((call.tool, "{}"),))


_IN_CALLS: dict[str, Callable[[Call, int], Said]] = {
    "text": _text,
    "markup": _markup,
    "unknown name": _unknown_name,
    "broken JSON": _broken_json,
    "wrong type": _wrong_type,
    "no arguments": _no_arguments,
    REPEATED_ID: lambda call, _: right(call),
}
_IN_ANYTHING = {
    "empty": Said(text=""),
    "500": Said(status=500, body={"error": {"code": 500, "message": "out of memory", "type": "server_error"}}),
}
MISTAKES = (RIGHT, PLAIN, *_IN_CALLS, *_IN_ANYTHING)


def mistaken(mistake: str, move: Move, index: int) -> Said | None:
    """The move with this mistake in it, made for the `index`th time; None where it cannot be made."""
    if mistake in _IN_ANYTHING:
        return _IN_ANYTHING[mistake]
    if mistake in (RIGHT, PLAIN) or isinstance(move, str):
        return None
    return _IN_CALLS[mistake](move, index)
