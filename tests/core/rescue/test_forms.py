"""A well-formed call is read back exactly, in each form it is written in and whatever its arguments hold."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from forge_proxy.core.chat import ToolCall
from forge_proxy.core.jsontypes import Json
from forge_proxy.core.rescue import rescue
from tests.properties import OBJECTS, TEXTS, examples

NAMES = ("get_weather", "write_file", "respond")
Form = Callable[[str, str], str]


class Style(NamedTuple):
    """How the same JSON may be printed."""

    ascii_only: bool = False
    indent: int | None = None

    def print(self, value: object) -> str:
        return json.dumps(value, ensure_ascii=self.ascii_only, indent=self.indent)


STYLES = st.builds(Style, st.booleans(), st.sampled_from([None, 0, 2]))


def twice(arguments: str) -> str:
    """Arguments written as the text of a string once more."""
    return json.dumps(arguments)


def keyed(name_key: str, arguments_key: str, name: str, arguments: str) -> str:
    return f'{{"{name_key}": "{name}", "{arguments_key}": {arguments}}}'


def keyed_backwards(name_key: str, arguments_key: str, name: str, arguments: str) -> str:
    return f'{{"{arguments_key}":{arguments},"{name_key}":"{name}"}}'


call = partial(keyed, "name", "arguments")

# Markup that is a call wherever it stands outside code.
EXPLICIT: dict[str, Form] = {
    "hermes": lambda name, arguments: f"<tool_call>\n{call(name, arguments)}\n</tool_call>",
    "hermes on one line": lambda name, arguments: f"<tool_call>{call(name, arguments)}</tool_call>",
    "hermes, never closed": lambda name, arguments: f"<tool_call>\n{call(name, arguments)}",
    "hermes with a list": lambda name, arguments: f"<tool_call>\n[{call(name, arguments)}]\n</tool_call>",
    "hermes, arguments first": lambda name, arguments: (
        f"<tool_call>{keyed_backwards('name', 'arguments', name, arguments)}</tool_call>"
    ),
    "hermes, encoded twice": lambda name, arguments: f"<tool_call>{call(name, twice(arguments))}</tool_call>",
    "mistral list": lambda name, arguments: f"[TOOL_CALLS] [{call(name, arguments)}]",
    "mistral object": lambda name, arguments: f"[TOOL_CALLS]{call(name, arguments)}",
    "mistral name": lambda name, arguments: f"[TOOL_CALLS]{name}{arguments}",
    "mistral name and args": lambda name, arguments: f"[TOOL_CALLS]{name}[ARGS]{arguments}",
    "mistral with an id": lambda name, arguments: f"[TOOL_CALLS]{name}[CALL_ID]a1b2c3d4e[ARGS]{arguments}",
    "rehearsal": lambda name, arguments: f"{name}[ARGS]{arguments}",
    "rehearsal, spaced": lambda name, arguments: f"{name}[ARGS] {arguments}",
    "function tag": lambda name, arguments: f"<function={name}>{arguments}</function>",
}
# JSON that is a call only where a text ends with it.
LOOSE: dict[str, Form] = {
    **{
        f"bare, {name_key} and {arguments_key}": partial(keyed, name_key, arguments_key)
        for name_key in ("name", "tool", "tool_name", "function", "function_name")
        for arguments_key in ("arguments", "args", "parameters", "input", "params")
    },
    "bare, arguments first": partial(keyed_backwards, "name", "parameters"),
    "bare, with a type": lambda name, arguments: f'{{"type": "function", "name": "{name}", "parameters": {arguments}}}',
    "bare list": lambda name, arguments: f"[{call(name, arguments)}]",
    "bare, encoded twice": lambda name, arguments: call(name, twice(arguments)),
    "bare, closed as hermes": lambda name, arguments: f"{call(name, arguments)}\n</tool_call><|im_end|>",
    "fenced": lambda name, arguments: f"```json\n{call(name, arguments)}\n```",
    "fenced without a language": lambda name, arguments: f"```\n{call(name, arguments)}\n```\n",
    "fenced list": lambda name, arguments: f"```json\n[\n  {call(name, arguments)}\n]\n```",
    "fenced, closed on the same line": lambda name, arguments: f"```json\n{call(name, arguments)}```",
    "fenced, never closed": lambda name, arguments: f"```tool_call\n{call(name, arguments)}",
    "fenced hermes": lambda name, arguments: f"```xml\n<tool_call>{call(name, arguments)}</tool_call>\n```",
    "fenced rehearsal": lambda name, arguments: f"```\n{name}[ARGS]{arguments}\n```",
    "envelope of one": lambda name, arguments: (
        f'{{"type": "function", "function": {{"name": "{name}", "arguments": {twice(arguments)}}}}}'
    ),
    "envelope of a message": lambda name, arguments: (
        '{"tool_calls": [{"id": "c1", "type": "function", "function": '
        f'{{"name": "{name}", "arguments": {twice(arguments)}}}}}]}}'
    ),
    "anthropic": lambda name, arguments: f'{{"type": "tool_use", "id": "c1", "name": "{name}", "input": {arguments}}}',
}
each_form = pytest.mark.parametrize("form", [*EXPLICIT.values(), *LOOSE.values()], ids=[*EXPLICIT, *LOOSE])


@each_form
@examples(25)
@given(arguments=OBJECTS, style=STYLES)
def test_any_arguments_are_read_back_to_the_letter(form: Form, arguments: dict[str, Json], style: Style) -> None:
    written = style.print(arguments)

    rescued = rescue(form("get_weather", written), NAMES)

    assert [(found.call.tool, found.call.arguments) for found in rescued.calls] == [("get_weather", written)]
    assert json.loads(rescued.calls[0].call.arguments) == arguments
    assert (rescued.text, rescued.broken) == ("", False)


@each_form
def test_the_text_before_a_call_stays(form: Form) -> None:
    rescued = rescue(f"Let me look.\n\n  {form('write_file', '{}')}", NAMES)

    assert [found.call.tool for found in rescued.calls] == ["write_file"]
    assert rescued.text == "Let me look."


@pytest.mark.parametrize("form", EXPLICIT.values(), ids=EXPLICIT)
def test_the_text_around_a_call_in_markup_stays_on_lines_of_its_own(form: Form) -> None:
    rescued = rescue(
        f"One. {form('write_file', '{}')} \n Two. {form('nonsense', '{}')}\nThree.</s>\n", (*NAMES, "nonsense")
    )

    assert [found.call.tool for found in rescued.calls] == ["write_file", "nonsense"]
    assert rescued.text == "One.\nTwo.\nThree."


@pytest.mark.parametrize("form", LOOSE.values(), ids=LOOSE)
def test_loose_json_that_more_text_follows_is_shown_and_not_called(form: Form) -> None:
    text = f"It would say:\n{form('write_file', '{}')}\nThat is all."

    rescued = rescue(text, NAMES)

    assert (rescued.text, rescued.calls) == (text, ())


@each_form
def test_a_call_says_where_it_stood_and_how_it_was_written(form: Form) -> None:
    written = form("write_file", '{"a": 1}')

    found = rescue(f"Hm. \n{written}", NAMES).calls[0]

    assert found.start == 5
    assert 5 < found.end <= 5 + len(written)
    assert re.fullmatch("(fenced-)?(json|hermes|mistral|rehearsal|function-tag)", found.form)
    assert found.form.startswith("fenced-") == written.startswith("```")


CALLS = st.lists(st.tuples(st.sampled_from(NAMES), OBJECTS), min_size=1, max_size=4)
SEVERAL: dict[str, tuple[Form, str, str, str]] = {
    "hermes blocks": (EXPLICIT["hermes"], "", "\n", ""),
    "hermes blocks in a row": (EXPLICIT["hermes on one line"], "", "", ""),
    "hermes, one block": (call, "<tool_call>\n", "\n", "\n</tool_call>"),
    "hermes, one list": (call, "<tool_call>[", ", ", "]</tool_call>"),
    "mistral list": (call, "[TOOL_CALLS][", ", ", "]"),
    "mistral names": (EXPLICIT["mistral name"], "", "", ""),
    "mistral args": (EXPLICIT["mistral name and args"], "", "", ""),
    "rehearsals": (EXPLICIT["rehearsal"], "", "\n", ""),
    "bare lines": (call, "", "\n", ""),
    "bare list": (call, "[", ",\n", "]"),
    "fenced list": (call, "```json\n[", ",\n", "]\n```"),
    "fenced lines": (call, "```json\n", "\n", "\n```"),
    "fences": (LOOSE["fenced"], "", "\n\n", ""),
    "fenced hermes": (EXPLICIT["hermes"], "```\n", "\n", "\n```"),
    "one message": (LOOSE["envelope of one"], '{"tool_calls": [', ", ", "]}"),
}


@pytest.mark.parametrize("several", SEVERAL.values(), ids=SEVERAL)
@examples(25)
@given(calls=CALLS, style=STYLES)
def test_several_calls_are_all_read_in_order(
    several: tuple[Form, str, str, str], calls: list[tuple[str, dict[str, Json]]], style: Style
) -> None:
    form, opening, between, closing = several
    written = [(name, style.print(arguments)) for name, arguments in calls]

    rescued = rescue(opening + between.join(form(*one) for one in written) + closing, NAMES)

    assert [(found.call.tool, found.call.arguments) for found in rescued.calls] == written
    assert rescued.text == ""


KEYS = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_.-]{0,12}", fullmatch=True)
_ENDS_A_VALUE = re.compile(r"</parameter>\s*(<parameter=|</function>)")


@pytest.mark.parametrize("opening", ["<tool_call>\n", "<tool_call>", ""], ids=["in lines", "in a row", "no opener"])
@examples(60)
@given(arguments=st.dictionaries(KEYS, TEXTS, max_size=3))
def test_qwen_coder_values_are_read_back_as_the_texts_they_are(opening: str, arguments: dict[str, str]) -> None:
    assume(not any(_ENDS_A_VALUE.search(value) for value in arguments.values()))
    parameters = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in arguments.items())

    rescued = rescue(f"Now.\n{opening}<function=write_file>\n{parameters}</function>\n</tool_call>", NAMES)

    assert [(found.call.tool, found.call.args(), found.form) for found in rescued.calls] == [
        ("write_file", arguments, "qwen-coder")
    ]
    assert rescued.text == "Now."


def test_a_qwen_coder_value_on_one_line_keeps_its_spaces() -> None:
    rescued = rescue("<function=write_file><parameter=text> a\n\n b </parameter></function>", NAMES)

    assert rescued.calls[0].call.args() == {"text": " a\n\n b "}


@pytest.mark.parametrize(
    ("text", "identity"),
    [
        ('{"id": "call_9", "name": "respond", "arguments": {}}', "call_9"),
        ('{"id": 9, "name": "respond", "arguments": {}}', ""),
        ('{"id": "call_9", "type": "function", "function": {"name": "respond", "arguments": "{}"}}', "call_9"),
        ("[TOOL_CALLS]respond[CALL_ID]a1b2c3d4e[ARGS]{}", "a1b2c3d4e"),
        ("respond[ARGS]{}", ""),
    ],
)
def test_a_call_keeps_the_id_that_it_was_given(text: str, identity: str) -> None:
    assert [found.call for found in rescue(text, NAMES).calls] == [ToolCall("respond", "{}", identity)]


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        ', "arguments": null',
        ', "arguments": {}',
        ', "arguments": ""',
        ', "arguments": " "',
        ', "arguments": "{}"',
        ', "parameters": {}, "type": "function"',
    ],
)
def test_a_call_without_arguments_has_empty_ones(arguments: str) -> None:
    rescued = rescue(f'<tool_call>{{"name": "respond"{arguments}}}</tool_call>', NAMES)

    assert [found.call for found in rescued.calls] == [ToolCall("respond", "{}")]


def test_numbers_keep_the_digits_they_were_written_with() -> None:
    arguments = '{"a": 1.0, "b": 123456789012345678901234567890, "c": 1e2, "d": -0.0, "a": 2.50}'

    assert rescue(f"[TOOL_CALLS]respond{arguments}", NAMES).calls[0].call.arguments == arguments


@pytest.mark.parametrize("said", ["functions.write_file", "Write_File", "default_api.WRITE_FILE"])
def test_loose_json_names_a_tool_by_the_name_that_was_offered(said: str) -> None:
    assert rescue(call(said, "{}"), NAMES).calls[0].call.tool == "write_file"


def test_loose_json_after_a_long_story_is_part_of_it() -> None:
    story = "It was a dark and stormy night. " * 13
    loose = '\n{"name": "respond", "arguments": {}}'

    assert rescue(story[:399] + loose, NAMES).calls != ()
    assert rescue(story + loose, NAMES).calls == ()


def test_loose_json_at_the_end_is_a_call_when_markup_stands_before_it() -> None:
    story = "It was a dark and stormy night. " * 13

    rescued = rescue(f'{story}\nrespond[ARGS]{{}}\n{{"name": "respond", "arguments": {{}}}}', NAMES)

    assert [found.form for found in rescued.calls] == ["rehearsal", "json"]
