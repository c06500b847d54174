"""Validation of one call: it is delivered unchanged, delivered repaired, or a problem."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.chat import ChatRequest, ToolChoice, ToolSpec
from forge_proxy.core.guardrails.check import check
from forge_proxy.core.guardrails.nudges import Problem
from forge_proxy.core.guardrails.policy import GuardPolicy
from forge_proxy.core.guardrails.schema.compiled import find_faults
from forge_proxy.core.guardrails.turn import Fault, Outcome, Turn, open_turn
from forge_proxy.core.guardrails.verdict import Intervention
from forge_proxy.core.jsontypes import Json, JsonObject
from forge_proxy.core.messages import ToolCall
from tests.properties import OBJECTS, TEXTS, VALUES, examples

WEATHER: JsonObject = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOLS = (ToolSpec("get_weather", WEATHER), ToolSpec("note"), ToolSpec("ping", {"type": "object"}))


def turn(choice: ToolChoice = ToolChoice()) -> Turn:  # noqa: B008 - a frozen value
    request = ChatRequest({}, tools=TOOLS, tool_choice=choice)
    opened = open_turn(request, GuardPolicy(), request_id="r", nudge_text=True)
    assert opened is not None
    return opened


def problem(fault: Fault, call: ToolCall, *reasons: str) -> Problem:
    return Problem(fault, call, reasons)


@pytest.mark.parametrize(
    "arguments", ['{"city": "Paris"}', ' {"city":"Paris",\n"days":3.0}', '{"city": "Rome", "city": "Paris"}']
)
def test_a_valid_call_is_not_changed(arguments: str) -> None:
    call = ToolCall("get_weather", arguments, "c1")

    assert check(turn(), call) == (call, ())


@pytest.mark.parametrize(
    ("said", "arguments", "change"),
    [
        ('{"city": "Paris", "days": "3"}', {"city": "Paris", "days": 3}, "days: string → integer"),
        ('{"city": "Paris", "x": 1}', {"city": "Paris"}, "x: dropped, the schema has no such parameter"),
        ('{"City": "Paris"}', {"city": "Paris"}, "parameter: City → city"),
        ('{"city": 7}', {"city": "7"}, "city: integer → string"),
        ('"{\\"city\\": \\"Paris\\"}"', {"city": "Paris"}, "arguments: unwrapped"),
    ],
)
def test_an_unambiguous_fault_is_repaired_and_reported(said: str, arguments: dict[str, Json], change: str) -> None:
    checked = check(turn(), ToolCall("get_weather", said, "c1"))

    assert not isinstance(checked, Problem)
    call, marks = checked
    assert (call.tool, call.args(), call.id) == ("get_weather", arguments, "c1")
    assert marks == (Intervention(Outcome.REPAIRED, "get_weather", change),)


def test_several_faults_are_repaired_at_once() -> None:
    said = json.dumps(json.dumps({"city": "Paris", "days": "3", "x": 1, "y": 2}))

    checked = check(turn(), ToolCall("functions.Get_Weather", said))

    assert not isinstance(checked, Problem)
    assert checked[0] == ToolCall("get_weather", '{"city": "Paris", "days": 3}')
    assert [mark.detail for mark in checked[1]] == [
        "name: functions.Get_Weather → get_weather",
        "days: string → integer",
        "x: dropped, the schema has no such parameter",
        "y: dropped, the schema has no such parameter",
    ]


@pytest.mark.parametrize("tool", ["note", "ping"])
def test_a_call_without_arguments_gets_an_empty_object(tool: str) -> None:
    assert check(turn(), ToolCall(tool, "")) == (ToolCall(tool, "{}"), ())


@pytest.mark.parametrize(
    ("call", "fault", "reasons"),
    [
        (ToolCall("delete", "{}"), Fault.UNKNOWN_TOOL, ()),
        (ToolCall("", "{}"), Fault.UNKNOWN_TOOL, ()),
        (ToolCall("get_weather", "{"), Fault.MALFORMED, ("arguments are not a JSON object",)),
        (ToolCall("get_weather", '["Paris"]'), Fault.MALFORMED, ("arguments are not a JSON object",)),
        (ToolCall("get_weather", '{"city": "\\ud83d"}'), Fault.MALFORMED, ("arguments are not a JSON object",)),
        (
            ToolCall("get_weather", '{"city": "a", "days": 1e999}'),
            Fault.MALFORMED,
            ("arguments are not a JSON object",),
        ),
        (ToolCall("get_weather", "{}"), Fault.BAD_ARGUMENTS, ("`city`: required, missing",)),
        (ToolCall("get_weather", '{"city": null}'), Fault.BAD_ARGUMENTS, ("`city`: expected string, got null",)),
        (
            ToolCall("get_weather", '{"days": "soon", "x": 1}'),
            Fault.BAD_ARGUMENTS,
            ('`days`: expected integer, got "soon"', "`city`: required, missing"),
        ),
        (ToolCall("respond", "{}"), Fault.BAD_ARGUMENTS, ("`message`: required, missing",)),
    ],
)
def test_an_ambiguous_fault_is_a_problem_with_reasons(call: ToolCall, fault: Fault, reasons: tuple[str, ...]) -> None:
    found = check(turn(), call)

    assert isinstance(found, Problem)
    assert (found.fault, found.call, set(found.reasons)) == (fault, call, set(reasons))


def test_a_problem_names_the_resolved_tool() -> None:
    found = check(turn(), ToolCall("Get_Weather", "{}"))

    assert isinstance(found, Problem)
    assert str(found) == "get_weather: `city`: required, missing"


def test_an_excluded_tool_is_reported_as_not_allowed() -> None:
    only = turn(ToolChoice("required", ("note",)))

    assert check(only, ToolCall("NOTE", "{}"))
    assert check(only, ToolCall("ping", "{}")) == problem(Fault.NOT_ALLOWED, ToolCall("ping", "{}"))
    assert check(only, ToolCall("pong", "{}")) == problem(Fault.UNKNOWN_TOOL, ToolCall("pong", "{}"))


def test_the_respond_tool_is_always_allowed() -> None:
    some = turn(ToolChoice("auto", ("note",)))

    assert not isinstance(check(some, ToolCall("respond", '{"message": "hi"}')), Problem)


def test_interventions_contain_no_values() -> None:
    secret = "hunter2"
    schema: JsonObject = {
        "properties": {
            "user": {"type": "object", "properties": {"name": {"type": "string"}, "keys": {"type": "array"}}},
            "tags": {"type": "array", "items": {"type": "string"}},
            "mode": {"enum": ["Hunter2", "other"]},
            "code": {"type": "string"},
            "config": {"type": "object"},
        },
        "required": ["user", "code"],
        "additionalProperties": False,
    }
    said = {
        "User": json.dumps({"name": 11235813, "keys": [secret]}),
        "tags": secret,
        "mode": secret,
        "coed": 11235813,
        "config": json.dumps({"password": secret}),
        "more": secret,
    }
    request = ChatRequest({}, tools=(ToolSpec("login", schema),))
    opened = open_turn(request, GuardPolicy(), request_id="r", nudge_text=True)
    assert opened is not None

    checked = check(opened, ToolCall("login", json.dumps(said)))

    assert not isinstance(checked, Problem)
    assert [mark.detail for mark in checked[1]] == [
        "parameter: User → user",
        "user: string → object",
        "user.name: integer → string",
        "tags: string → array",
        "mode: spelled as in the enum",
        "parameter: coed → code",
        "code: integer → string",
        "config: string → object",
        "more: dropped, the schema has no such parameter",
    ]


def test_long_integers_and_non_ascii_letters_survive_repairs() -> None:
    said = '{"city": "Malm\\u00f6 😀", "days": "123456789012345678901234567890", "x": 1}'

    checked = check(turn(), ToolCall("get_weather", said))

    assert not isinstance(checked, Problem)
    assert checked[0].arguments == '{"city": "Malmö 😀", "days": 123456789012345678901234567890}'


ARGUMENTS = (
    OBJECTS.map(json.dumps) | TEXTS | st.fixed_dictionaries({"city": VALUES}, optional={"days": VALUES}).map(json.dumps)
)


@examples(300)
@given(name=st.sampled_from([tool.name for tool in TOOLS]) | TEXTS, arguments=ARGUMENTS)
def test_an_accepted_call_names_an_offered_tool_and_satisfies_its_schema(name: str, arguments: str) -> None:
    checked = check(turn(), ToolCall(name, arguments))

    if not isinstance(checked, Problem):
        call, marks = checked
        tool = turn().tool(call.tool)
        args = call.args()
        assert tool is not None
        assert args is not None
        assert find_faults(tool.parameters, args) == ()
        assert marks or call.arguments in (arguments, "{}")
