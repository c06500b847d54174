"""Calls in other shapes than a client expects, text beside them, and calls that are repeated."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

from tests.fakes.says import DONE, Said, as_event
from tests.harness.fault import Ask, Fault, Say, always, first, first_call, right
from tests.harness.response import EVENTS, JsonDict, Response, Send, in_calls
from tests.harness.tasks import Call

DEEP = 300
"""Levels of nesting: fewer than JSON readers accept, more than some writers can write."""
REPEATS = 6
"""Fewer than the turns that any client of the table allows."""


def _with_arguments(call: Call, arguments: str) -> Said:
    return Said(calls=((call.tool, arguments),))


def _with_args(call: Call, **more: object) -> Said:
    return _with_arguments(call, json.dumps({**call.args, **more}))


def _parallel(call: Call, _ask: Ask) -> Said | None:
    again = json.dumps(call.args).replace("/hello.py", "/./hello.py")
    return (
        Said(calls=((call.tool, json.dumps(call.args)), (call.tool, again))) if again != json.dumps(call.args) else None
    )


def _in_strings(call: Call, ask: Ask) -> Said | None:
    """Change numbers to strings: those in the call, or the first one that the tool would accept."""
    numbers = {name: str(value) for name, value in call.args.items() if isinstance(value, int)}
    for function in ask.tools:
        if function["name"] == call.tool and not numbers:
            properties: dict[str, JsonDict] = function["parameters"]["properties"]
            takes = [name for name, schema in properties.items() if schema.get("type") in ("integer", "number")]
            numbers = dict.fromkeys(takes[:1], "100")
    return _with_args(call, **numbers) if numbers else None


def _markup(call: Call) -> str:
    return json.dumps({"name": call.tool, "arguments": call.args})


def _again(ask: Ask) -> Said | None:
    """The last response is right; every response after it is the first call again."""
    if isinstance(ask.move, Call) or not ask.times or not ask.answered:
        return None
    return right(ask.answered[0])


def _in_a_loop(ask: Ask) -> Said | None:
    if not isinstance(ask.move, Call) or len(ask.answered) != 1 or ask.times >= REPEATS:
        return None
    return right(ask.answered[0])


def _as_object(call: JsonDict) -> JsonDict:
    function = call["function"]
    if function["arguments"]:
        return {**call, "function": {**function, "arguments": json.loads(function["arguments"])}}
    return {**call, "function": {"name": function["name"]}}


def _with_id(id_: str) -> Send:
    return in_calls(lambda call: {**call, "id": id_} if "id" in call else call)


def _nested() -> JsonDict:
    return json.loads('{"a": ' * DEEP + "1" + "}" * DEEP)


def _deep_field(said: Said, stream: bool) -> Response:
    if stream:
        first_chunk, *others = said.as_chunks()
        chunks = [{**first_chunk, "details": _nested()}, *others]
        return Response(kind=EVENTS, pieces=(*(as_event(chunk) for chunk in chunks), DONE))
    return Response(pieces=(json.dumps({**json.loads(said.as_whole()), "details": _nested()}).encode(),))


def _renamed(change: Callable[[str], str]) -> Say:
    return first_call(lambda call, _: Said(calls=((change(call.tool), json.dumps(call.args)),)))


def _instead(say: Callable[[Call], Said]) -> Say:
    return first_call(lambda call, _: say(call))


FAULTS = (
    Fault("text and call", "text before the call", _instead(lambda call: replace(right(call), text="I do it now."))),
    Fault("parallel", "two calls in one answer", first_call(_parallel)),
    Fault(
        "cut JSON",
        "arguments that end too soon",
        _instead(lambda call: _with_arguments(call, json.dumps(call.args)[:-3])),
        is_plain=True,
    ),
    Fault(
        "Python arguments", "arguments in single quotes", _instead(lambda call: _with_arguments(call, repr(call.args)))
    ),
    Fault("empty arguments", "arguments that are an empty string", _instead(lambda call: _with_arguments(call, ""))),
    Fault("number as string", "numbers as strings", first_call(_in_strings)),
    Fault(
        "extra parameter",
        "a parameter that the tool does not have",
        _instead(lambda call: _with_args(call, reason="none")),
    ),
    Fault("object arguments", "each time, arguments as an object, not a string", say=always, send=in_calls(_as_object)),
    Fault("wrong case", "the tool's name in capitals", _renamed(str.upper)),
    Fault("prefixed name", "`functions.` before the tool's name", _renamed("functions.{}".format)),
    Fault("no id", "each time, calls with an empty id", say=always, send=_with_id("")),
    Fault("same id", "two calls with the same id", first_call(_parallel), _with_id("call_1")),
    Fault(
        "tool_call tags",
        "the call as text in `<tool_call>` tags",
        _instead(lambda call: Said(text=f"<tool_call>\n{_markup(call)}\n</tool_call>")),
    ),
    Fault(
        "fenced JSON",
        "the call as text in a JSON fence",
        _instead(lambda call: Said(text=f"```json\n{_markup(call)}\n```")),
    ),
    Fault(
        "think tags",
        "`<think>` tags in the text before the call",
        _instead(lambda call: replace(right(call), text="<think>I need that.</think>")),
    ),
    Fault(
        "reasoning", "reasoning before the call", _instead(lambda call: replace(right(call), reasoning="I need that."))
    ),
    Fault(
        "reasoning only",
        "reasoning and nothing else",
        first(lambda _: Said(text="", reasoning="I need that.")),
        is_plain=True,
    ),
    Fault(
        "deep arguments",
        f"an argument nested {DEEP} levels deep",
        _instead(lambda call: _with_args(call, **{next(iter(call.args)): _nested()})),
    ),
    Fault("deep response", f"a field of the response nested {DEEP} levels deep", send=_deep_field),
    Fault("loop", f"the same call {REPEATS} times after it was answered", _in_a_loop),
    Fault("repeats when retried", "after its last answer the first call again, for ever", _again, is_plain=True),
)
