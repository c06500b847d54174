"""What looks like a call and is none stays text; what is a call in broken markup is told apart from both."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from forge_proxy.core.rescue import Rescued, rescue
from tests.properties import TEXTS, examples

NAMES = ("get_weather", "write_file", "delete")
CALL = '{"name": "delete", "arguments": {"path": "/"}}'
BLOCK = f"<tool_call>{CALL}</tool_call>"
CODER = "<function=delete>\n<parameter=path>\n/\n</parameter>\n</function>"
ESCAPED = CALL.replace('"', '\\"')

SHOWN = {
    # documentation
    "a json block before more prose": f"Write:\n```json\n{CALL}\n```\nThen wait for the result.",
    "two json blocks before more prose": f"```json\n{CALL}\n```\nor\n```json\n{CALL}\n```\nWhich one?",
    "markup in a block before more prose": f"Like this:\n```xml\n{BLOCK}\n```\nThat is all.",
    "markup below other lines of a block": f"Like this:\n```\n# a call\n{BLOCK}\n```",
    "markup twice in a block": f"```\n{BLOCK}\n{BLOCK}\n```\nThat is all.",
    "markup twice in a block, with words between": f"```\n{BLOCK}\nand then\n{BLOCK}\n```\nThat is all.",
    "qwen-coder in a block": f"For example:\n```xml\n{CODER}\n```\nThat is all.",
    "a rehearsal in a block": '```\nanswer = 1\ndelete[ARGS]{"path": "/"}\n```',
    "a block that is never closed": f"For example:\n```\nfirst\n{BLOCK}",
    "a block with more backticks": f"````markdown\n```json\n{CALL}\n```\n{BLOCK}\n````\n",
    "an indented fence": f"- Write:\n  ```xml\n  # so:\n  {BLOCK}\n  ```\n",
    "a fence after words": f"Write: ```xml\n<!-- so -->\n{BLOCK}\n```\nand wait.",
    # inline code
    "inline json": f"Write `{CALL}`.",
    "inline json at the end": f"Write `{CALL}`",
    "inline markup": f"Write `{BLOCK}`.",
    "inline markup after other code": f"Write `x = {BLOCK}` there.",
    "inline markup in two backticks": f"Write ``{BLOCK}``.",
    "inline markup in three backticks": f"Write ```{BLOCK}``` there.",
    "inline opener": "The `<tool_call>` tag opens a call.",
    "inline rehearsal": "It prints `delete[ARGS]{}` then.",
    # JSON that is no call
    "a person": '{"name": "Ada", "age": 36}',
    "an unknown name": '{"name": "other", "arguments": {}}',
    "an unknown name beside a known one": f'[{CALL}, {{"name": "other", "arguments": {{}}}}]',
    "an unknown name in a fence": '```json\n{"name": "other", "arguments": {}}\n```',
    "arguments that are a list": '{"name": "delete", "arguments": ["/"]}',
    "arguments that are words": '{"name": "delete", "arguments": "everything"}',
    "arguments that are a number": '{"name": "delete", "arguments": 7}',
    "a name that is no text": '{"name": ["delete"], "arguments": {}}',
    "a name that is empty": '{"name": "", "arguments": {}}',
    "arguments alone": '{"arguments": {"path": "/"}}',
    "arguments under an unknown key": '{"name": "delete", "options": {"path": "/"}}',
    "arguments in the call itself": '{"name": "delete", "path": "/"}',
    "another first key": '{"thought": "so", "name": "delete", "arguments": {}}',
    "a list with more than calls": f"[{CALL}, 1]",
    "a list in a list": f"[[{CALL}]]",
    "an empty list": "[]",
    "an empty object": "{}",
    "an empty list of calls": '{"tool_calls": []}',
    "a schema": '{"type": "object", "properties": {"name": {"type": "string"}}}',
    "the definition of a tool": '{"name": "delete", "description": "deletes", "parameters": {"type": "object"}}',
    "the definition as it is sent": (
        '```json\n[{"type": "function", "function": {"name": "delete", "description": "", "parameters": {}}}]\n```'
    ),
    "a call inside other json": f'{{"type": "log",\n"entry":\n{CALL}\n}}',
    "an envelope in an envelope": f'{{"type": "function", "function": {{"function": {CALL}}}}}',
    # JSON in prose
    "json in the middle of a line": f"I would say {CALL}",
    "json before more prose": f"{CALL}\nThat would delete everything.",
    "json before a fence": f"{CALL}\n```\nrm -r /\n```",
    "json with words between": f"{CALL}\nor\n{CALL}\nwhat do you say?",
    "json that is not strict": "{'name': 'delete', 'arguments': {}}",
    "json that is cut off": '{"name": "delete", "arguments": {"path": "/"',
    # names
    "a name alone": "I will call delete now.",
    "a call in another language": 'delete("/")',
    "a rehearsal of an unknown tool": "other[ARGS]{}",
    "a rehearsal of a longer name": "do_delete[ARGS]{}, x.delete[ARGS]{}, x-delete[ARGS]{}",
    "an orphan closer": "That is all.</tool_call>",
}

ATTEMPTS = {
    "no name": '<tool_call>{"arguments": {}}</tool_call>',
    "no json": "<tool_call>delete</tool_call>",
    "json that is not strict": "<tool_call>{'name': 'delete'}</tool_call>",
    "json that is cut off": '<tool_call>{"name": "delete", "arguments": {"pa',
    "arguments that would be lost": '<tool_call>{"name": "delete", "path": "/"}</tool_call>',
    "a list with more than calls": f"[TOOL_CALLS][{CALL}, 1]",
    "a cut list": f"[TOOL_CALLS][{CALL}",
    "an empty list": "[TOOL_CALLS][]",
    "an empty message": '<tool_call>{"tool_calls": []}</tool_call>',
    "a name and no arguments": "[TOOL_CALLS]delete",
    "a rehearsal that is cut off": 'delete[ARGS]{"path": ',
    "qwen-coder that is cut off": "<function=delete>\n<parameter=path>\n/",
    "qwen-coder without a closer": "<function=delete>\n<parameter=path>\n/\n</function>",
    "a function tag that is cut off": '<function=delete>{"path": "/"',
}


@pytest.mark.parametrize("text", SHOWN.values(), ids=SHOWN)
def test_what_is_shown_or_told_stays_as_it_is(text: str) -> None:
    assert rescue(text, NAMES) == Rescued(text)


@pytest.mark.parametrize("text", ATTEMPTS.values(), ids=ATTEMPTS)
def test_a_call_that_cannot_be_read_is_called_broken(text: str) -> None:
    assert rescue(text, NAMES) == Rescued(text, broken=True)


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name": "other", "arguments": {}}</tool_call>',
        "<tool_call><function=other></function></tool_call>",
        "<function=other>{}</function>",
        '[TOOL_CALLS][{"name": "other", "arguments": {}}]',
        "[TOOL_CALLS]other{}",
        "[TOOL_CALLS]other[ARGS]{}",
    ],
)
def test_an_unknown_name_in_markup_is_a_call_all_the_same(text: str) -> None:
    rescued = rescue(text, NAMES)

    assert [found.call.tool for found in rescued.calls] == ["other"]
    assert rescued.text == ""


INSIDE = {
    "hermes": '<tool_call>{"name": "write_file", "arguments": {"text": "%s"}}</tool_call>',
    "mistral": '[TOOL_CALLS]write_file{"text": "%s"}',
    "rehearsal": 'write_file[ARGS]{"text": "%s"}',
    "fenced": '```json\n{"name": "write_file", "arguments": {"text": "%s"}}\n```',
    "bare": '{"name": "write_file", "arguments": {"text": "%s"}}',
    "encoded twice": '{"name": "write_file", "arguments": "{\\"text\\": \\"%s\\"}"}',
}
MARKUP = {
    "hermes": BLOCK,
    "qwen-coder": CODER,
    "mistral": "[TOOL_CALLS]delete{}",
    "rehearsal": "delete[ARGS]{}",
    "bare": f"\n{CALL}",
    "fence": f"```json\n{CALL}\n```\n",
    "opener": "<tool_call>",
    "closer": "</tool_call>",
    "backtick": "`",
    "open fence": "\n```\n",
}
inside = pytest.mark.parametrize("outer", INSIDE.values(), ids=INSIDE)
markup = pytest.mark.parametrize("inner", MARKUP.values(), ids=MARKUP)


def in_a_string(inner: str, outer: str) -> str:
    """`outer` with `inner` as a text inside it, escaped as often as it takes."""
    for _ in range(2 if '\\"' in outer else 1):
        inner = inner.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return outer.replace("%s", inner)


@inside
@markup
def test_markup_in_the_argument_of_a_call_is_only_its_argument(outer: str, inner: str) -> None:
    rescued = rescue(in_a_string(inner, outer), NAMES)

    assert [(found.call.tool, found.call.args()) for found in rescued.calls] == [("write_file", {"text": inner})]
    assert (rescued.text, rescued.broken) == ("", False)


@inside
@markup
@pytest.mark.parametrize("lost", [2, 4, 12])
def test_markup_in_the_argument_of_a_call_that_is_cut_off_is_no_call(outer: str, inner: str, lost: int) -> None:
    text = in_a_string(inner, outer)

    assert not any(found.call.tool == "delete" for found in rescue(text[:-lost], NAMES).calls)


@inside
@markup
def test_markup_in_the_argument_of_a_broken_call_is_no_call(outer: str, inner: str) -> None:
    text = in_a_string(inner, outer).replace('"write_file', "'write_file").replace('{"text"', "{'text'")

    assert rescue(text, NAMES).calls == ()


@inside
@markup
def test_markup_in_json_that_is_no_call_is_no_call(outer: str, inner: str) -> None:
    text = in_a_string(inner, outer.replace('"arguments"', '"options"'))

    assert not any(found.call.tool == "delete" for found in rescue(text, NAMES).calls)


@pytest.mark.parametrize("inner", [BLOCK, "[TOOL_CALLS]delete{}", "delete[ARGS]{}", f"\n{CALL}\n", "```\n" + BLOCK])
@pytest.mark.parametrize("closed", [True, False])
def test_markup_in_a_qwen_coder_value_is_only_its_value(inner: str, closed: bool) -> None:
    text = f"<tool_call>\n<function=write_file>\n<parameter=text>\n{inner}\n"
    text += "</parameter>\n</function>\n</tool_call>" if closed else ""

    rescued = rescue(text, NAMES)

    calls = [(found.call.tool, found.call.args()) for found in rescued.calls]
    assert calls == ([("write_file", {"text": inner})] if closed else [])
    assert rescued.broken is not closed


@pytest.mark.parametrize(
    "text",
    [
        f"<tool_call>{{'name': 'write_file'}}</tool_call>\n{BLOCK}",
        f"<tool_call> is how it begins: {BLOCK}",
        f'<tool_call>{{"name": "write_file", "arguments": {{"a": {{}}</tool_call>\n{BLOCK}',
        f'{{"name": "delete", "arguments": {{"path": 1,}}}}\n{BLOCK}',
        f"<tool_call>\n[TOOL_CALLS][{CALL}]",
        f"```json\n{{'name'}}\n```\n{BLOCK}",
        f"It`s `so`: {BLOCK}",
        f"Say `x`\n```py\nx = `1`\n```\n{BLOCK}",
    ],
)
def test_a_good_call_after_a_broken_one_or_after_code_is_found(text: str) -> None:
    assert [(found.call.tool, found.call.args()) for found in rescue(text, NAMES).calls] == [("delete", {"path": "/"})]


def test_code_in_the_arguments_of_a_call_is_no_code_of_the_text() -> None:
    opening = '<tool_call>{"name": "write_file", "arguments": {"text": "`"}}</tool_call>'
    fence = "<function=write_file><parameter=text>\n```\n</parameter></function>"

    rescued = rescue(f"{opening}`{BLOCK}\n{fence}\n{BLOCK}", NAMES)

    assert [found.call.tool for found in rescued.calls] == ["write_file", "delete", "write_file", "delete"]


WORDS = (
    "The weather ",
    "is fine. ",
    "\n",
    "\n\n",
    "- ",
    "`code` ",
    "```json\n",
    "```\n",
    "{",
    "}",
    '"name": ',
    '"Ada"',
)
PROSE = st.lists(st.sampled_from(WORDS) | st.text(max_size=6), max_size=12).map("".join)


@examples(300)
@given(text=PROSE)
def test_prose_without_a_tools_name_and_without_markup_is_untouched(text: str) -> None:
    assume(not any(name in text.casefold() for name in NAMES))

    assert rescue(text, NAMES) == Rescued(text)


@examples(200)
@given(text=TEXTS)
def test_without_tools_only_markup_is_a_call(text: str) -> None:
    rescued = rescue(text, ())

    assert all(not found.form.endswith(("json", "rehearsal")) for found in rescued.calls)
