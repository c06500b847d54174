"""A well-formed call is recovered exactly, in each form and with any arguments."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from forge_proxy.core.jsontypes import Json, write
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.rescue import rescue
from tests.folding import folded
from tests.properties import OBJECTS, TEXTS, examples, sample

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

HARMONY = "<|start|>assistant"
PLAMO = "<|plamo:{}:plamo|>".format

# Markup that is a call anywhere outside code.
EXPLICIT: dict[str, Form] = {
    "hermes": lambda name, arguments: f"<tool_call>\n{call(name, arguments)}\n</tool_call>",
    "hermes on one line": lambda name, arguments: f"<tool_call>{call(name, arguments)}</tool_call>",
    "hermes, never closed": lambda name, arguments: f"<tool_call>\n{call(name, arguments)}",
    "hermes with a list": lambda name, arguments: f"<tool_call>\n[{call(name, arguments)}]\n</tool_call>",
    "hermes, arguments first": lambda name, arguments: (
        f"<tool_call>{keyed_backwards('name', 'arguments', name, arguments)}</tool_call>"
    ),
    "hermes, encoded twice": lambda name, arguments: f"<tool_call>{call(name, twice(arguments))}</tool_call>",
    "hermes, name before the object": lambda name, arguments: f"<tool_call>{name}\n{arguments}\n</tool_call>",
    "hermes, other spellings": lambda name, arguments: f"<toolcall>\n{call(name, arguments)}\n</tool-call>",
    "mistral list": lambda name, arguments: f"[TOOL_CALLS] [{call(name, arguments)}]",
    "mistral object": lambda name, arguments: f"[TOOL_CALLS]{call(name, arguments)}",
    "mistral name": lambda name, arguments: f"[TOOL_CALLS]{name}{arguments}",
    "mistral name and args": lambda name, arguments: f"[TOOL_CALLS]{name}[ARGS]{arguments}",
    "mistral with an id": lambda name, arguments: f"[TOOL_CALLS]{name}[CALL_ID]a1b2c3d4e[ARGS]{arguments}",
    "rehearsal": lambda name, arguments: f"{name}[ARGS]{arguments}",
    "rehearsal, spaced": lambda name, arguments: f"{name}[ARGS] {arguments}",
    "function tag": lambda name, arguments: f"<function={name}>{arguments}</function>",
    "function tag, encoded twice": lambda name, arguments: (
        f"<function_call>{call(name, twice(arguments))}</function_call>"
    ),
    "invoke tag": lambda name, arguments: f'<invoke name="{name}">{arguments}</invoke>',
    "longcat": lambda name, arguments: f"<longcat_tool_call>\n{call(name, arguments)}\n</longcat_tool_call>",
    "dots": lambda name, arguments: f"<dots_function_call>{call(name, arguments)}</dots_function_call>",
    "nemotron v2": lambda name, arguments: f"<TOOLCALL>[{call(name, arguments)}]</TOOLCALL>",
    "jamba": lambda name, arguments: f"<tool_calls>[\n{call(name, arguments)}\n]</tool_calls>",
    "minimax m1": lambda name, arguments: f"<tool_calls>\n{call(name, arguments)}\n</tool_calls>",
    "horizon": lambda name, arguments: (
        f"<ifm|tool_calls><ifm|tool_call>{call(name, arguments)}</ifm|tool_call></ifm|tool_calls>"
    ),
    "granite": lambda name, arguments: f"<|tool_call|>[{call(name, arguments)}]",
    "granite 20b": lambda name, arguments: f"<function_call> {call(name, arguments)}",
    "phi": lambda name, arguments: f"<|tool_call|>[{call(name, arguments)}]<|/tool_call|>",
    "phi's word": lambda name, arguments: f"functools[{call(name, arguments)}]",
    "deepseek v3": lambda name, arguments: (
        f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n"
        f"```json\n{arguments}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
    ),
    "deepseek v3.1": lambda name, arguments: (
        f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{arguments}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
    ),
    "kimi": lambda name, arguments: (
        f"<|tool_calls_section_begin|><|tool_call_begin|>{name}:0<|tool_call_argument_begin|>{arguments}"
        "<|tool_call_end|><|tool_calls_section_end|>"
    ),
    "kimi, the opener lost": lambda name, arguments: (
        f"functions.{name}:12<|tool_call_argument_begin|>{arguments}<|tool_call_end|>"
    ),
    "harmony": lambda name, arguments: (
        f"{HARMONY}<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{arguments}<|call|>"
    ),
    "harmony, recipient first": lambda name, arguments: (
        f"{HARMONY} to=functions.{name}<|channel|>commentary<|message|>{arguments}<|call|>"
    ),
    "gigachat": lambda name, arguments: f"<|message_sep|>\n\nfunction call<|role_sep|>\n{call(name, arguments)}",
    "gigachat's token": lambda name, arguments: f"<|function_call|>{call(name, arguments)}</s>",
    "inkling": lambda name, arguments: (
        f"<|content_invoke_tool_json|>{keyed('name', 'args', name, arguments)}<|end_message|>"
    ),
    "command r7b": lambda name, arguments: (
        '<|START_ACTION|>[\n    {"tool_call_id": "0", '
        f'"tool_name": "{name}", "parameters": {arguments}}}\n]<|END_ACTION|>'
    ),
    "functionary v2": lambda name, arguments: f"<|recipient|>{name}\n<|content|>{arguments}<|stop|>",
    "functionary v3.2": lambda name, arguments: f">>>{name}\n{arguments}",
    "plamo": lambda name, arguments: (
        f"{PLAMO('begin_tool_requests')}{PLAMO('begin_tool_request')}{PLAMO('begin_tool_name')}{name}"
        f"{PLAMO('end_tool_name')}{PLAMO('begin_tool_arguments')}{PLAMO('constrain')}json{PLAMO('msg')}{arguments}"
        f"{PLAMO('end_tool_arguments')}{PLAMO('end_tool_request')}{PLAMO('end_tool_requests')}"
    ),
    "llama's token": lambda name, arguments: f"<|python_tag|>{keyed('name', 'parameters', name, arguments)}<|eom_id|>",
    "liquid with a list": lambda name, arguments: f"<|tool_call_start|>[{call(name, arguments)}]<|tool_call_end|>",
    "tool use": lambda name, arguments: (
        f"<tool_use>\n<name>{name}</name>\n<arguments>{arguments}</arguments>\n</tool_use>"
    ),
    "flowers": lambda name, arguments: f"✿FUNCTION✿: {name}\n✿ARGS✿: {arguments}\n✿RESULT✿",
    "a fence that says so": lambda name, arguments: f"```tool_call\n{call(name, arguments)}\n```",
    "a fence that names the tool": lambda name, arguments: f"```tool {name}\n{arguments}\n```",
}
# Words that are a call only at the beginning of a line.
LINES: dict[str, Form] = {
    "react": lambda name, arguments: f"Action: {name}\nAction Input: {arguments}",
    "react, fenced": lambda name, arguments: f"Action: {name}\nAction Input: ```json\n{arguments}\n```",
}
# Names that are a call only where an answer begins with them, and have arguments.
FIRST: dict[str, Form] = {
    "functionary v3.2, its mark in the prompt": lambda name, arguments: f"{name}\n{arguments}",
    "glm short": lambda name, arguments: f"{name}/{arguments}",
    "a message whose header has begun": lambda name, arguments: (
        f" to={name}<|channel|>commentary<|message|>{arguments}<|call|>"
    ),
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
    "fenced, never closed": lambda name, arguments: f"```json\n{call(name, arguments)}",
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
ANYWHERE = EXPLICIT | LINES | LOOSE
each_form = pytest.mark.parametrize("form", ANYWHERE.values(), ids=ANYWHERE)


@pytest.mark.parametrize("name", sample([*ANYWHERE, *FIRST], 0.5))
@examples(12)
@given(arguments=OBJECTS, style=STYLES)
def test_any_arguments_are_recovered_exactly(name: str, arguments: dict[str, Json], style: Style) -> None:
    assume(arguments or name not in FIRST)
    written = style.print(arguments)

    rescued = rescue((ANYWHERE | FIRST)[name]("get_weather", written), NAMES)

    assert [(found.call.tool, found.call.arguments) for found in rescued.calls] == [("get_weather", written)]
    assert json.loads(rescued.calls[0].call.arguments) == arguments
    assert (rescued.calls[0].repairs, rescued.calls[0].open) == ((), False)
    assert (rescued.text, rescued.reasoning, rescued.broken) == ("", "", False)


@folded
@each_form
def test_the_text_before_a_call_is_kept(form: Form) -> None:
    rescued = rescue(f"Let me look.\n\n  {form('write_file', '{}')}", NAMES)

    assert [found.call.tool for found in rescued.calls] == ["write_file"]
    assert rescued.text == "Let me look."


@folded
@pytest.mark.parametrize("form", EXPLICIT.values(), ids=EXPLICIT)
def test_the_text_around_a_call_in_markup_is_kept_on_separate_lines(form: Form) -> None:
    rescued = rescue(
        f"One. {form('write_file', '{}')} \n Two. {form('nonsense', '{}')}\nThree.</s>\n", (*NAMES, "nonsense")
    )

    assert [found.call.tool for found in rescued.calls] == ["write_file", "nonsense"]
    assert rescued.text == "One.\nTwo.\nThree."


@folded
@pytest.mark.parametrize("form", LOOSE.values(), ids=LOOSE)
def test_bare_json_followed_by_text_is_not_a_call(form: Form) -> None:
    text = f"It would say:\n{form('write_file', '{}')}\nThat is all."

    rescued = rescue(text, NAMES)

    assert (rescued.text, rescued.calls) == (text.replace("\n</tool_call><|im_end|>", "\n"), ())


@folded
@each_form
def test_a_call_reports_its_position_and_form(form: Form) -> None:
    written = form("write_file", '{"a": 1}')

    found = rescue(f"Hm. \n{written}", NAMES).calls[0]

    assert found.start == 5
    assert 5 < found.end <= 5 + len(written)
    assert re.fullmatch("(fenced-)?(json|named|tags|function-tag|message|rehearsal)", found.form)
    assert found.form.startswith("fenced-") == written.startswith("```")
    assert found.explicit == (form not in LOOSE.values())


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
    "deepseek v3": (EXPLICIT["deepseek v3"], "", "\n", ""),
    "deepseek v3.1": (EXPLICIT["deepseek v3.1"], "", "", ""),
    "kimi": (EXPLICIT["kimi"], "", "", ""),
    "harmony": (EXPLICIT["harmony"], "", "", ""),
    "granite": (call, "<|tool_call|>[", ", ", "]"),
    "granite 20b": (EXPLICIT["granite 20b"], "", " ", ""),
    "phi's word": (call, "functools[", ", ", "]"),
    "inkling": (EXPLICIT["inkling"], "", "<|message_model|>", ""),
    "command r7b": (call, "<|START_ACTION|>[", ",\n", "]<|END_ACTION|>"),
    "functionary v3.2": (EXPLICIT["functionary v3.2"], "", "\n", ""),
    "llama": (call, "<|python_tag|>", "; ", "<|eom_id|>"),
    "minimax m1": (call, "<tool_calls>\n", "\n", "\n</tool_calls>"),
    "flowers": (EXPLICIT["flowers"], "", "\n", ""),
    "react": (LINES["react"], "", "\n", ""),
    "bare lines": (call, "", "\n", ""),
    "bare list": (call, "[", ",\n", "]"),
    "fenced list": (call, "```json\n[", ",\n", "]\n```"),
    "fenced lines": (call, "```json\n", "\n", "\n```"),
    "fences": (LOOSE["fenced"], "", "\n\n", ""),
    "fenced hermes": (EXPLICIT["hermes"], "```\n", "\n", "\n```"),
    "one message": (LOOSE["envelope of one"], '{"tool_calls": [', ", ", "]}"),
}


@pytest.mark.parametrize("name", sample([*SEVERAL], 0.5))
@examples(12)
@given(calls=CALLS, style=STYLES)
def test_several_calls_are_recovered_in_order(
    name: str, calls: list[tuple[str, dict[str, Json]]], style: Style
) -> None:
    form, opening, between, closing = SEVERAL[name]
    written = [(name, style.print(arguments)) for name, arguments in calls]

    rescued = rescue(opening + between.join(form(*one) for one in written) + closing, NAMES)

    assert [(found.call.tool, found.call.arguments) for found in rescued.calls] == written
    assert rescued.text == ""


KEYS = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_.-]{0,12}", fullmatch=True)
TagForm = Callable[[str, dict[str, str]], str]
M3 = "]<]minimax[>["


def tagged(begins: str, parameter: str, ends: str, name: str, arguments: dict[str, str]) -> str:
    """A call with its name at `%n`, and each parameter with its key at `%k` and its value at `%v`."""
    printed = (parameter.replace("%k", key).replace("%v", value) for key, value in arguments.items())
    return begins.replace("%n", name) + "".join(printed) + ends.replace("%n", name)


def invoked(mark: str, wrapper: str, parameter: str = "", between: str = "\n") -> TagForm:
    """The invoke tags that begin with `mark` in a wrapper."""
    return partial(
        tagged,
        f'<{mark}{wrapper}>{between}<{mark}invoke name="%n">{between}',
        f'<{mark}parameter name="%k"{parameter}>%v</{mark}parameter>{between}',
        f"</{mark}invoke>{between}</{mark}{wrapper}>",
    )


def paired(mark: str, between: str, begins: str, ends: str) -> TagForm:
    """A name, and pairs of keys and values."""
    pair = f"<{mark}arg_key>%k</{mark}arg_key>{between}<{mark}arg_value>%v</{mark}arg_value>{between}"
    return partial(tagged, begins, pair, ends)


CODER = "<parameter=%k>\n%v\n</parameter>\n"
# Each with the tag that closes a value, and whether a line break at the ends of a value belongs to the form.
TAGS: dict[str, tuple[TagForm, str, bool]] = {
    "qwen": (
        partial(tagged, "<tool_call>\n<function=%n>\n", CODER, "</function>\n</tool_call>"),
        "parameter", False,
    ),
    "qwen, in a row": (
        partial(tagged, "<tool_call><function=%n>", CODER, "</function></tool_call>"), "parameter", False,
    ),
    "qwen, no opener": (partial(tagged, "<function=%n>\n", CODER, "</function>\n</tool_call>"), "parameter", False),
    "mimo": (
        partial(tagged, "<tool_call><function=%n>", "<parameter=%k>%v</parameter>", "</function></tool_call>"),
        "parameter", True,
    ),
    "seed": (
        partial(tagged, "<seed:tool_call>\n<function=%n>\n", CODER, "</function>\n</seed:tool_call>"),
        "parameter", False,
    ),
    "claude": (invoked("", "function_calls"), "parameter", True),
    "claude, no wrapper": (
        partial(tagged, '<invoke name="%n">', '<parameter name="%k">%v</parameter>', "</invoke>"), "parameter", True,
    ),
    "minimax m2": (
        partial(
            tagged, '<minimax:tool_call>\n<invoke name="%n">\n', '<parameter name="%k">%v</parameter>\n',
            "</invoke>\n</minimax:tool_call>",
        ),
        "parameter", True,
    ),
    "dots": (invoked("", "dots_function_call", between=""), "parameter", True),
    "step": (
        partial(
            tagged, '<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="%n">',
            '<steptml:parameter name="%k">%v</steptml:parameter>',
            "</steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>",
        ),
        "parameter", True,
    ),
    "muse": (
        partial(
            tagged, '<|start|>assistant to=%n<|message|><atem:function_calls>\n<atem:invoke name="%n">\n',
            '<atem:parameter name="%k">%v</atem:parameter>\n', "</atem:invoke>\n</atem:function_calls><|eom|>",
        ),
        "parameter", True,
    ),
    "beam": (
        partial(
            tagged, "<|start|>assistant to=%n<|channel|>analysis <|constrain|>xml<|message|>",
            '<rfl:parameter name="%k">\n%v\n</rfl:parameter>', "<|call|>",
        ),
        "parameter", False,
    ),
    "deepseek v3.2": (invoked("｜DSML｜", "function_calls", ' string="true"'), "parameter", True),
    "deepseek v4": (invoked("｜DSML｜", "tool_calls", ' string="true"'), "parameter", True),
    "deepseek v4.1": (invoked("｜DSML｜ ", "calls", ' string="true"'), "parameter", True),
    "glm": (paired("", "\n", "<tool_call>%n\n", "</tool_call>"), "arg_value", False),
    "glm, in a row": (paired("", "", "<tool_call>%n", "</tool_call>"), "arg_value", False),
    "glm, another opener": (paired("", "\n", "<user>%n\n", "</user>"), "arg_value", False),
    "hunyuan": (
        paired("", "\n", "<tool_calls><tool_call>%n<tool_sep>\n", "</tool_call></tool_calls>"), "arg_value", False,
    ),
    "horizon": (
        paired("ifm|", "", "<ifm|tool_calls><ifm|tool_call>%n", "</ifm|tool_call></ifm|tool_calls>"),
        "arg_value", False,
    ),
    "minimax m3": (
        partial(
            tagged, f'{M3}<tool_call>\n{M3}<invoke name="%n">', f"{M3}<%k>%v{M3}</%k>",
            f"{M3}</invoke>\n{M3}</tool_call>",
        ),
        "%k", False,
    ),
    "minicpm, CDATA": (
        partial(tagged, '<function name="%n">', '<param name="%k"><![CDATA[%v]]></param>', "</function>"), "]]", True,
    ),
    "minicpm, the space lost": (
        partial(tagged, '<functionname="%n">', '<paramname="%k">%v</param>', "</function>"), "param", True,
    ),
    "kimi k3": (
        partial(
            tagged, '<|open|>tools<|sep|><|open|>call tool="%n" index="1"<|sep|>',
            '<|open|>argument key="%k" type="string"<|sep|>%v<|close|>argument<|sep|>',
            "<|close|>call<|sep|><|close|>tools<|sep|>",
        ),
        "<|close|>argument<|sep|", True,
    ),
    "a tag for each": (partial(tagged, "<%n>\n", "<%k>\n%v\n</%k>\n", "</%n>"), "%k", False),
    "tool use": (
        partial(
            tagged, "<tool_use>\n<name>%n</name>\n<arguments>\n", "<%k>%v</%k>\n", "</arguments>\n</tool_use>"
        ),
        "%k", True,
    ),
}  # fmt: skip
# Markup that may end a value whose own closing tag is missing, or text in its place with tags of other names.
VALUES_IN_TAGS = TEXTS | st.text("ab \n<>&\"'{}[]`\\é😀", max_size=12)


@pytest.mark.parametrize(("form", "closer", "framed"), TAGS.values(), ids=TAGS)
@examples(25)
@given(arguments=st.dictionaries(KEYS, VALUES_IN_TAGS, max_size=3))
def test_values_in_tags_are_recovered_as_strings(
    form: TagForm, closer: str, framed: bool, arguments: dict[str, str]
) -> None:
    # Models confuse the two names, so either of them closes a value.
    closers = ("</param>", "</parameter>") if closer == "param" else (f"{closer.replace('%k', '{}')}>",)
    assume(not any(end.format(key) in value for key, value in arguments.items() for end in closers))
    assume(arguments or "<user>" not in form("", {}))  # `<user>name</user>` is something else
    assume(not framed or not any(value[:1] == "\n" or value[-1:] == "\n" for value in arguments.values()))
    written = form("write_file", arguments)

    rescued = rescue(f"Now.\n{written}", NAMES)

    assert [(found.call.tool, found.call.args()) for found in rescued.calls] == [("write_file", arguments)]
    assert rescued.calls[0].untyped == (set() if '="true"' in written or '="string"' in written else arguments.keys())
    assert rescued.calls[0].repairs == ()
    # A value in which another call begins and does not end may have been cut after that one's end.
    begun = any(opener in value for value in arguments.values() for opener in ("<function=", "<invoke", "<tool_call>"))
    assert begun or not rescued.calls[0].open
    assert (rescued.text, rescued.broken) == ("Now.", False)


INNER = "<parameter=x>\n1\n</parameter>\n<tool_call>\n<function=delete>\n{}\n"


@pytest.mark.parametrize("value", [INNER, f"```xml\n{INNER}```\nso.", f"say {INNER}", INNER.replace("\n", "")])
@pytest.mark.parametrize("opening", ["<tool_call>\n<function=write_file>\n", "<function=write_file>\n"])
def test_values_may_contain_tags_of_the_same_kind(opening: str, value: str) -> None:
    rescued = rescue(f"{opening}<parameter=text>\n{value}\n</parameter>\n</function>\n</tool_call>", NAMES)

    assert [found.call.args() for found in rescued.calls] == [{"text": value}]


CALL_INSIDE = "<tool_call>\n<function=read>\n<parameter=path>\na\n</parameter>\n</function>\n</tool_call>"
PAIR_INSIDE = "<tool_call>read\n<arg_key>path</arg_key>\n<arg_value>a</arg_value>\n</tool_call>"
INSIDE_TAGS = {
    "qwen": ("<function=write_file>\n", "<parameter=%k>\n%v\n</parameter>\n", "</function>", CALL_INSIDE),
    "qwen, other line breaks": (
        "<function=write_file>\r\n", "<parameter=%k>\r\n%v\r\n</parameter>\r\n", "</function>", CALL_INSIDE,
    ),
    "invoke": (
        '<invoke name="write_file">', '<parameter name="%k">%v</parameter>', "</invoke>",
        '<invoke name="read"><parameter name="path">a</parameter></invoke>',
    ),
    "a name space": (
        '<m:invoke name="write_file">', '<m:parameter name="%k">%v</m:parameter>', "</m:invoke>",
        '<m:invoke name="read"><m:parameter name="path">a</m:parameter></m:invoke>',
    ),
    "glm": (
        "<tool_call>write_file\n", "<arg_key>%k</arg_key>\n<arg_value>%v</arg_value>\n", "</tool_call>", PAIR_INSIDE,
    ),
    "glm, nothing but a pair": (
        "<tool_call>write_file", "<arg_key>%k</arg_key><arg_value>%v</arg_value>", "</tool_call>",
        "<arg_key>path</arg_key><arg_value>a</arg_value>",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("begin", "pair", "end", "inner"), INSIDE_TAGS.values(), ids=INSIDE_TAGS)
@pytest.mark.parametrize("around", ["%s", "%s and %s", "Write:\n\n%s\n\nNot <parameter=x>.</parameter>"])
def test_a_value_may_contain_a_whole_call_of_the_same_form(
    begin: str, pair: str, end: str, inner: str, around: str
) -> None:
    arguments = {"text": around.replace("%s", inner), "path": "b"}
    pairs = "".join(pair.replace("%k", key).replace("%v", value) for key, value in arguments.items())

    rescued = rescue(begin + pairs + end, NAMES)

    assert [(found.call.args(), found.open) for found in rescued.calls] == [(arguments, False)]
    assert rescued.text == ""


@pytest.mark.parametrize(("begin", "pair", "end", "inner"), INSIDE_TAGS.values(), ids=INSIDE_TAGS)
def test_a_value_cut_off_after_an_inner_call_is_open(begin: str, pair: str, end: str, inner: str) -> None:
    cut = begin + pair.replace("%k", "text").partition("%v")[0] + inner

    assert all(found.open for found in rescue(cut, NAMES).calls), end


def test_a_qwen_coder_value_on_one_line_keeps_its_spaces() -> None:
    rescued = rescue("<function=write_file><parameter=text> a\n\n b </parameter></function>", NAMES)

    assert rescued.calls[0].call.args() == {"text": " a\n\n b "}


IDENTIFIERS = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,12}", fullmatch=True)
CODE_VALUES: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(IDENTIFIERS, inner, max_size=3),
    max_leaves=6,
)
"""Values whose keys are names, as they are where they are written without quotes."""
PYTHONIC: dict[str, str] = {
    "liquid": "<|tool_call_start|>[%s]<|tool_call_end|>",
    "liquid, never closed": "<|tool_call_start|>[%s]",
    "olmo": "<function_calls>%s</function_calls>",
    "llama": "[%s]",
    "llama between tokens": "<|python_start|>[%s]<|python_end|>",
    "llama's own tools": "<|python_tag|>%s<|eom_id|>",
    "raven": "Call: %s<bot_end>",
}
each_pythonic = pytest.mark.parametrize("form", PYTHONIC.values(), ids=PYTHONIC)


def as_code(name: str, arguments: Mapping[str, Json], literal: Callable[[Json], str]) -> str:
    return f"{name}({', '.join(f'{key}={literal(value)}' for key, value in arguments.items())})"


def single_quoted(text: str) -> str:
    for character, escaped in {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r"}.items():
        text = text.replace(character, escaped)
    return f"'{text}'"


def python(value: Json) -> str:
    """A value as Python writes it, in single quotes."""
    match value:
        case str():
            return single_quoted(value)
        case list():
            return f"[{', '.join(map(python, value))}]"
        case Mapping():
            return f"{{{', '.join(f'{single_quoted(key)}: {python(inner)}' for key, inner in value.items())}}}"
        case _:
            return repr(value)


@each_pythonic
@pytest.mark.parametrize("literal", [python, write], ids=["literals of Python", "literals of JSON"])
@examples(25)
@given(arguments=st.dictionaries(IDENTIFIERS, CODE_VALUES, max_size=3))
def test_arguments_in_code_are_recovered(form: str, literal: Callable[[Json], str], arguments: dict[str, Json]) -> None:
    rescued = rescue(form.replace("%s", as_code("get_weather", arguments, literal)), NAMES)

    assert [(found.call.tool, found.call.args()) for found in rescued.calls] == [("get_weather", arguments)]
    assert (rescued.calls[0].positional, rescued.calls[0].repairs, rescued.calls[0].open) == (0, (), False)
    assert (rescued.text, rescued.broken) == ("", False)


@pytest.mark.parametrize(
    ("form", "between"),
    [
        (PYTHONIC["liquid"], ", "),
        (PYTHONIC["olmo"], "\n"),
        (PYTHONIC["llama"], ", "),
        (PYTHONIC["llama"], ",\n    "),
        (PYTHONIC["llama between tokens"], ","),
        (PYTHONIC["raven"], "; "),
    ],
)
@examples(12)
@given(
    calls=st.lists(
        st.tuples(st.sampled_from(NAMES), st.dictionaries(IDENTIFIERS, CODE_VALUES, max_size=2)), min_size=1, max_size=3
    )
)
def test_several_calls_in_code_are_recovered(form: str, between: str, calls: list[tuple[str, dict[str, Json]]]) -> None:
    written = between.join(as_code(name, arguments, python) for name, arguments in calls)

    rescued = rescue(form.replace("%s", written), NAMES)

    assert [(found.call.tool, found.call.args()) for found in rescued.calls] == calls
    assert rescued.text == ""


GEMMA = {
    "gemma": ("<|tool_call>call:%s<tool_call|>", '<|"|>'),
    "gemma, never closed": ("<|tool_call>call:%s", '<|"|>'),
    "functiongemma": ("<start_function_call>call:%s<end_function_call>", "<escape>"),
}


def gemma(value: Json, quote: str) -> str:
    """A value as Gemma writes it: bare keys, and nothing escaped between its quotes."""
    match value:
        case str():
            return f"{quote}{value}{quote}"
        case list():
            return f"[{','.join(gemma(item, quote) for item in value)}]"
        case Mapping():
            return f"{{{','.join(f'{key}:{gemma(inner, quote)}' for key, inner in value.items())}}}"
        case _:
            return write(value)


@pytest.mark.parametrize(("form", "quote"), GEMMA.values(), ids=GEMMA)
@examples(40)
@given(arguments=st.dictionaries(IDENTIFIERS, CODE_VALUES, max_size=3))
def test_values_between_gemmas_quotes_are_recovered(form: str, quote: str, arguments: dict[str, Json]) -> None:
    written = gemma(arguments, quote)

    rescued = rescue(form.replace("%s", f"write_file{written}"), NAMES)

    assert [(found.call.tool, found.call.args()) for found in rescued.calls] == [("write_file", arguments)]
    assert (rescued.calls[0].open, rescued.text, rescued.broken) == (False, "", False)


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
def test_a_call_keeps_its_id(text: str, identity: str) -> None:
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
def test_a_call_without_arguments_gets_an_empty_object(arguments: str) -> None:
    rescued = rescue(f'<tool_call>{{"name": "respond"{arguments}}}</tool_call>', NAMES)

    assert [found.call for found in rescued.calls] == [ToolCall("respond", "{}")]


def test_numbers_keep_their_digits() -> None:
    arguments = '{"a": 1.0, "b": 123456789012345678901234567890, "c": 1e2, "d": -0.0, "a": 2.50}'

    assert rescue(f"[TOOL_CALLS]respond{arguments}", NAMES).calls[0].call.arguments == arguments


@pytest.mark.parametrize("said", ["functions.write_file", "Write_File", "default_api.WRITE_FILE"])
def test_bare_json_gets_the_offered_spelling_of_its_tool(said: str) -> None:
    assert rescue(call(said, "{}"), NAMES).calls[0].call.tool == "write_file"


def test_bare_json_after_a_long_text_is_not_a_call() -> None:
    story = "It was a dark and stormy night. " * 13
    loose = '\n{"name": "respond", "arguments": {}}'

    assert rescue(story[:399] + loose, NAMES).calls != ()
    assert rescue(story + loose, NAMES).calls == ()


def test_bare_json_at_the_end_is_a_call_if_a_call_in_markup_precedes_it() -> None:
    story = "It was a dark and stormy night. " * 13

    rescued = rescue(f'{story}\nrespond[ARGS]{{}}\n{{"name": "respond", "arguments": {{}}}}', NAMES)

    assert [found.form for found in rescued.calls] == ["rehearsal", "json"]


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [("", " Done.", 1), ("", ".", 1), ("I look: ", ".", 1), ("I look: ", " Done then.", 0), ("", "\nDone.", 0)],
)
def test_a_call_without_markup_is_recovered_if_little_text_follows_on_its_line(
    before: str, after: str, found: int
) -> None:
    text = f'{before}{{"name": "get_weather", "arguments": {{"city": "Oslo"}}}}{after}'

    assert len(rescue(text, ("get_weather",)).calls) == found
