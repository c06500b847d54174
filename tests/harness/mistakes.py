"""The mistakes of a scripted model in its first response at each point of a conversation: the columns of the table.

A mistake with several shapes takes another one at each point, so that a task meets more than one of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

from tests.fakes.says import Said
from tests.harness.fault import Fault, first, first_call, right
from tests.harness.response import JsonDict
from tests.harness.tasks import Call

RIGHT = "none"
PLAIN = "plain answer"
"""The last response is text, whatever tool is offered for it and however often it is retried."""
REPEATED_ID = "repeated id"
"""Each response counts its calls from the start, as some servers do; otherwise every id is new."""


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
    # Neither can be repaired without guessing.
    if index % 2:
        return Said(text=f'<tool_call>{{"name": "{call.tool}", "arguments": {{</tool_call>')
    return Said(calls=((call.tool, f'{{"{next(iter(call.args))}": }}'),))


def _wrong_type(call: Call, _: int) -> Said:
    first, *others = call.args
    args = {first: {"value": call.args[first]}, **{name: call.args[name] for name in others}}
    return Said(calls=((call.tool, json.dumps(args)),))


def _no_arguments(call: Call, _: int) -> Said:
    return Said(calls=((call.tool, "{}"),))


def _in_calls(name: str, sentence: str, say: Callable[[Call, int], Said]) -> Fault:
    return Fault(name, sentence, first_call(lambda call, ask: say(call, ask.index)), must_be_done=True)


def _in_anything(name: str, sentence: str, said: Said) -> Fault:
    return Fault(name, sentence, first(lambda _: said), must_be_done=True)


_FAILED: JsonDict = {"error": {"code": 500, "message": "out of memory", "type": "server_error"}}

FAULTS = (
    Fault(
        RIGHT,
        "no mistake; if the proxy offers its tool for plain-text responses, the last answer takes it",
        lambda _: None,
        must_be_done=True,
        has_occasion=True,
    ),
    Fault(
        PLAIN,
        "no mistake either; the last answer is plain text, also if it is retried",
        lambda _: None,
        must_be_done=True,
        has_occasion=True,
        is_plain=True,
    ),
    _in_calls("text", "it says what it will do in place of the call", _text),
    _in_calls("markup", "it writes the call as text, each time in another form", _markup),
    _in_calls("unknown name", "it calls a tool that is not offered", _unknown_name),
    _in_calls("broken JSON", "arguments or markup that cannot be repaired", _broken_json),
    _in_calls("wrong type", "an object for a string", _wrong_type),
    _in_calls("no arguments", "a call with no arguments", _no_arguments),
    _in_calls(
        REPEATED_ID,
        "every answer numbers its calls from the same id on, as some servers do",
        lambda call, _: right(call),
    ),
    _in_anything("empty", "it says nothing", Said(text="")),
    replace(_in_anything("500", "the server fails", Said(status=500, body=_FAILED)), is_failure=True),
)
MISTAKES = tuple(fault.name for fault in FAULTS)
