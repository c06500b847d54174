"""The names that arguments without a name get from the schema of the tool."""

from __future__ import annotations

import json
from typing import Any

import pytest

from forge_proxy.core.guardrails.arguments.mapping import map_arguments
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.rescue import RecoveredCall

PROPERTIES: JsonObject = {"unit": {}, "city": {}, "days": {}}


@pytest.mark.parametrize(
    ("required", "given", "named"),
    [
        ([], {"0": "C", "1": "Oslo"}, {"unit": "C", "city": "Oslo"}),
        (["city"], {"0": "Oslo"}, {"city": "Oslo"}),  # the only required parameter comes first
        (["city"], {"0": "Oslo", "1": "C"}, {"city": "Oslo", "unit": "C"}),
        (["days", "city"], {"0": "C", "1": "Oslo"}, {"unit": "C", "city": "Oslo"}),
        (["unknown"], {"0": "C"}, {"unit": "C"}),
        (["city"], {"0": 3, "city": "Oslo"}, {"unit": 3, "city": "Oslo"}),
        ([], {"0": 1, "1": 2, "2": 3, "3": 4}, {"0": 1, "1": 2, "2": 3, "3": 4}),  # more than there are parameters
    ],
)
def test_positional_arguments_get_the_names_of_the_parameters_in_order(
    required: list[str], given: dict[str, Any], named: dict[str, Any]
) -> None:
    positional = sum(name.isdigit() for name in given)
    found = RecoveredCall(ToolCall("get_weather", json.dumps(given)), "python", 0, 1, positional=positional)
    schema: JsonObject = {"properties": PROPERTIES, "required": [*required]}

    arguments = map_arguments(schema, found)

    assert json.loads(arguments) == named


@pytest.mark.parametrize(
    ("given", "unwrapped"),
    [
        ({"arguments": {"city": "Oslo"}}, {"city": "Oslo"}),
        ({"arguments": '{"city": "Oslo"}'}, {"city": "Oslo"}),
        ({"properties": {"city": "Oslo"}}, {"city": "Oslo"}),
        ({"arguments": "Oslo"}, {"arguments": "Oslo"}),
        ({"arguments": {}, "city": "Oslo"}, {"arguments": {}, "city": "Oslo"}),
        ({"city": {"unit": "C"}}, {"city": {"unit": "C"}}),
    ],
)
def test_arguments_in_a_parameter_that_the_tool_does_not_have_are_unwrapped(
    given: dict[str, Any], unwrapped: dict[str, Any]
) -> None:
    found = RecoveredCall(ToolCall("get_weather", json.dumps(given)), "tags", 0, 1)

    assert json.loads(map_arguments({"properties": PROPERTIES}, found)) == unwrapped
