"""A workflow that contradicts itself is refused where it is made, by the name of the field."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import Json
from forge_proxy.core.workflow import ToolDef, Workflow
from forge_proxy.core.workflow.errors import InvalidWorkflow

PATH: dict[str, Json] = {"type": "object", "properties": {"path": {"type": "string"}}}


def tool(name: str, needs: Sequence[Any] = (), schema: dict[str, Json] = PATH) -> ToolDef:
    return ToolDef(ToolSpec.from_json_schema(name, "", schema), None, needs)


def workflow(
    tools: Mapping[str, ToolDef] | Sequence[ToolDef] = (),
    required: Sequence[str] = (),
    terminal: str | Sequence[str] = "finish",
    prompt: str = "",
) -> Workflow:
    named = tools if isinstance(tools, Mapping) else {each.name: each for each in (*tools, tool("finish"))}
    return Workflow("w", "", named, required, terminal, prompt)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"tools": {}}, "tools: a workflow needs at least one tool"),
        ({"tools": {"x": tool("finish")}}, "tools.x: the tool is called 'finish': key and name must be equal"),
        ({"tools": [tool("no space")]}, "tools.no space: a name is 1 to 64 letters, digits, _, - or ."),
        (
            {"tools": [tool("a", schema={"type": "object", "minProperties": "x"})]},
            "tools.a.parameters: not a valid JSON Schema: minProperties: ",
        ),
        ({"required": "look"}, "required_steps: expected a list, as ['look']"),
        ({"tools": [tool("a", "b")]}, "tools.a.prerequisites: expected a list, as ['b']"),
        (
            {"tools": [ToolDef(ToolSpec("a"), "x")]},  # pyright: ignore[reportArgumentType]
            "tools.a.callable: expected a function, got str",
        ),
        ({"required": ["look"]}, "required_steps: no tool 'look'; available: finish"),
        ({"tools": [tool("a")], "required": ["a", "a"]}, "required_steps[1]: a is listed twice"),
        ({"required": ["finish"]}, "required_steps[0]: finish is a terminal tool"),
        ({"terminal": ["finish", "end"]}, "terminal_tool[1]: no tool 'end'; available: finish"),
        ({"terminal": []}, "terminal_tool: name at least one tool"),
        ({"tools": [tool("a", ["b"])]}, "tools.a.prerequisites[0]: no tool 'b'"),
        ({"tools": [tool("a", ["finish"])]}, "tools.a.prerequisites[0]: finish is a terminal tool"),
        ({"tools": [tool("a", [{"match_arg": "b"}])]}, "tools.a.prerequisites[0]: expected a tool's name or"),
        (
            {"tools": [tool("a"), tool("b", [{"tool": "a", "match_arg": "x"}])]},
            "tools.b.prerequisites[0].match_arg: b has no argument 'x'",
        ),
        (
            {"tools": [tool("a", ["b"]), tool("b", ["a"])]},
            "tools.a.prerequisites: a, b require each other",
        ),
    ],
)
def test_a_contradiction_is_named(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidWorkflow) as caught:
        workflow(**wrong)

    assert str(caught.value).startswith(said)
    assert isinstance(caught.value, ValueError)


def test_arguments_are_an_object() -> None:
    with pytest.raises(InvalidRequest, match=r"a\.parameters\.type: expected 'object': arguments are always"):
        ToolSpec.from_json_schema("a", "", {"type": "array"})
    with pytest.raises(InvalidRequest, match=r"a\.parameters: expected a JSON Schema as a dict, got NoneType"):
        ToolSpec.from_json_schema("a", "", None)  # pyright: ignore[reportArgumentType]


def test_terminal_tools_are_one_or_several() -> None:
    assert workflow().terminal_tools == {"finish"}
    assert workflow([tool("end")], terminal=["end", "finish"]).terminal_tools == {"end", "finish"}


def test_placeholders_are_filled_in_and_other_braces_are_left_alone() -> None:
    flow = workflow(prompt='You help {who}. Answer as {"a": {}} or {who}.')

    assert flow.build_system_prompt(who="Ann {x}") == 'You help Ann {x}. Answer as {"a": {}} or Ann {x}.'
    with pytest.raises(InvalidWorkflow, match=r"prompt_vars\.who: the system prompt has this placeholder"):
        flow.build_system_prompt()


def test_a_placeholder_may_have_any_name_and_its_value_is_text() -> None:
    flow = workflow(prompt="You help {self}.")

    assert flow.build_system_prompt(self="Ann") == "You help Ann."
    for value in (5, None):
        with pytest.raises(InvalidWorkflow, match=rf"prompt_vars\.self: expected text, got {value}"):
            flow.build_system_prompt(self=value)  # pyright: ignore[reportArgumentType]


def test_tools_are_a_list_or_a_dict_by_name() -> None:
    tools = [tool("look"), tool("finish")]

    listed = Workflow("w", "", tools, [], "finish", "")
    named = Workflow("w", "", {each.name: each for each in tools}, [], "finish", "")

    assert listed == named
    assert listed.tool_names == ("look", "finish")
    assert replace(listed, required_steps=["look"]).required_steps == ("look",)


def look() -> None: ...


@pytest.mark.parametrize(
    ("tools", "said"),
    [
        ([], "tools: a workflow needs at least one tool"),
        ([tool("a"), tool("b"), tool("a")], "tools[2]: tools[0] is called 'a' too"),
        ([tool("a"), look], "tools[1]: expected a ToolDef, got function; create one with ToolDef.from_function"),
        ({"a": look}, "tools.a: expected a ToolDef, got function"),
        (["a"], "tools[0]: expected a ToolDef, got str"),
    ],
)
def test_a_wrong_list_of_tools_is_named_by_its_place(tools: Any, said: str) -> None:
    with pytest.raises(InvalidWorkflow) as caught:
        Workflow("w", "", tools, [], "finish", "")

    assert str(caught.value).startswith(said)


def no_argument() -> None: ...
def path(path: str) -> None: ...
def position(path: str, /) -> None: ...
def more(path: str, mode: str) -> None: ...
def optional(path: str, mode: str = "r") -> None: ...
def anything(**arguments: str) -> None: ...


REQUIRED: dict[str, Json] = {**PATH, "required": ["path"]}


@pytest.mark.parametrize(
    ("function", "schema", "said"),
    [
        (
            no_argument,
            REQUIRED,
            "the schema has an argument 'path', which no_argument() -> 'None' does not take by name",
        ),
        (position, REQUIRED, "the schema has an argument 'path', which position(path: 'str', /)"),
        (more, REQUIRED, "needs 'mode', which the schema does not have as an argument"),
        (path, PATH, "needs 'path', which the schema does not require: add it to its required, or give"),
    ],
)
def test_a_function_that_does_not_take_what_its_schema_names_is_refused(
    function: Callable[..., Any], schema: dict[str, Json], said: str
) -> None:
    wrong = ToolDef(ToolSpec.from_json_schema("a", "", schema), function)

    with pytest.raises(InvalidWorkflow) as caught:
        workflow([wrong])

    assert str(caught.value).startswith("tools.a.callable: ")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("function", "schema"),
    [
        (path, REQUIRED),
        (optional, REQUIRED),
        (optional, PATH | {"required": ["path"]}),
        (anything, REQUIRED),
        (anything, PATH),
        (more, {"type": "object"}),
        (max, REQUIRED),  # its signature cannot be read
    ],
)
def test_a_function_that_takes_what_its_schema_names_is_fine(
    function: Callable[..., Any], schema: dict[str, Json]
) -> None:
    right = ToolDef(ToolSpec.from_json_schema("a", "", schema), function)

    assert workflow([right]).tool_names == ("a", "finish")
