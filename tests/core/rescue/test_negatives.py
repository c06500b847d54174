"""Text that resembles a call stays text; a call in broken markup is distinguished from both."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from forge_proxy.core.rescue import PieceKind, RescueResult, StreamingParser, rescue
from tests.folding import folded
from tests.properties import LENGTHS, TEXTS, cut, examples

NAMES = ("get_weather", "write_file", "delete")
CALL = '{"name": "delete", "arguments": {"path": "/"}}'
BLOCK = f"<tool_call>{CALL}</tool_call>"
CODER = "<function=delete>\n<parameter=path>\n/\n</parameter>\n</function>"
ESCAPED = CALL.replace('"', '\\"')

DEFINITION = (
    '{"name": "delete", "description": "Deletes a file.", '
    '"parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}'
)

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
    "a block of a diff": f"```diff\n+ {BLOCK}\n```",
    "a template": "```jinja\n{% for c in calls %}\n<tool_call>\n{{ c | tojson }}\n</tool_call>\n{% endfor %}\n```",
    "steps": f"1. Write\n\n   ```json\n   {CALL}\n   ```\n\n2. Wait.",
    "a table": f"| form | text |\n|---|---|\n| hermes | `{BLOCK}` |\n| json | `{CALL}` |",
    "escaped markup": f"&lt;tool_call&gt;{CALL}&lt;/tool_call&gt;",
    "a fence of tildes": f"~~~\n{BLOCK}\n~~~",
    "a fence of tildes before more prose": f"Like this:\n~~~~xml\n{BLOCK}\n~~~\n{CODER}\n~~~~\nThat is all.",
    "indented": f"Write:\n\n    {BLOCK}\n\nThat is all.",
    "in html": f"<p>Write <code>{BLOCK}</code> or <pre class='x'>\n{CODER}\n</pre>.</p>",
    "a quotation": f"> {BLOCK}\n\nThat was my earlier call.",
    "a table in html": f"<table><tr><td>Hermes</td><td>{BLOCK}</td></tr></table>",
    "in a comment": f"<!-- {BLOCK} -->",
    "between quotes": f'Write "{BLOCK}", “{CODER}” or «{BLOCK}».',
    "a table without code": f"| form | text |\n|---|---|\n| hermes | {BLOCK} |\n| short | {BLOCK} | more |",
    "a string of a program": f'create(path="a.txt", text="""\n{BLOCK}\n{CODER}\n""")\n',
    "a list of functions": "There are:\n\nget_weather()\ndelete()",
    # inline code
    "inline json": f"Write `{CALL}`.",
    "inline json at the end": f"Write `{CALL}`",
    "inline markup": f"Write `{BLOCK}`.",
    "inline markup after other code": f"Write `x = {BLOCK}` there.",
    "inline markup in two backticks": f"Write ``{BLOCK}``.",
    "inline markup in three backticks": f"Write ```{BLOCK}``` there.",
    "inline opener": "The `<tool_call>` tag opens a call.",
    "inline rehearsal": "It prints `delete[ARGS]{}` then.",
    "inline tokens": "It ends with `<|im_end|>`, `</s>` or `</tool_call>`.",
    "inline thoughts": "Think between `<think>` and `</think>`.",
    "thoughts between quotes": "It does text.split(\"</think>\") and opens with '<think>' (<think>).",
    "tokens as words": "Tokens such as <think>, </think>, </s>, <|im_end|>; and </tool_call> end there.",
    # an opener in a sentence
    "a mention": "The <tool_call> tag opens a call.",
    "a mention at the beginning": "<tool_call> is how a call begins.",
    "a mention of Mistral's token": "The token [TOOL_CALLS] begins a call.",
    "a mention of the other token": "Between them stands [ARGS] then.",
    "a mention of a tag per tool": "The <delete> element takes a path.",
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
    "a result": '{"tool": "delete", "result": {"ok": true}}',
    "an error": '{"tool": "delete", "error": "no such file"}',
    "another first key": '{"thought": "so", "name": "delete", "arguments": {}}',
    "a list in a list": f"[[{CALL}]]",
    "an empty list": "[]",
    "an empty object": "{}",
    "an empty list of calls": '{"tool_calls": []}',
    "two keys that are names": '{"delete": {"path": "/"}, "get_weather": {}}',
    "a call inside other json": f'{{"type": "log",\n"entry":\n{CALL}\n}}',
    "a list of calls inside other json": f'{{"steps":\n[\n{CALL}\n]\n}}',
    "an envelope in an envelope": f'{{"type": "function", "function": {{"function": {CALL}}}}}',
    "arguments that are broken beyond repair": '{"name": "delete", "arguments": {the root}}',
    # definitions
    "a schema": '{"type": "object", "properties": {"name": {"type": "string"}}}',
    "the definition of a tool": DEFINITION,
    "a list of definitions": f"[{DEFINITION}, {DEFINITION}]",
    "a definition in a fence": f"I have this one:\n```json\n{DEFINITION}\n```",
    "the definition as it is sent": (
        '```json\n[{"type": "function", "function": {"name": "delete", "description": "", "parameters": {}}}]\n```'
    ),
    "the definition of another kind": (
        '{"name": "delete", "description": "d", "input_schema": {"type": "object", "properties": {}}}'
    ),
    # what the user wanted
    "a config": '```json\n{"name": "my-app", "version": "1.0.0", "scripts": {"delete": "rm -rf dist"}}\n```',
    "a record": '```json\n{"id": 7, "type": "user", "name": "delete", "input": "none", "role": "admin"}\n```',
    "a list of records": '[{"name": "Ada"}, {"name": "Bob", "tags": []}]',
    "code with an object": f"```js\nconst call = {CALL};\nsend(call);\n```",
    "code with a list": f"```python\ncalls = [\n    {CALL},\n]\n```",
    "yaml": "```yaml\nname: delete\narguments:\n  path: /\n```",
    # JSON in prose
    "json in the middle of a line": f"I would say {CALL}",
    "json in the middle of a sentence": f"I would say {CALL}, or perhaps not.",
    "json in quotes": f"Say '{CALL}'",
    "json in a quotation": f"> {CALL}",
    "json in a list": f"- {CALL}",
    "json in a tag": f"<pre>\n{CALL}\n</pre>",
    "json before more prose": f"{CALL}\nThat would delete everything.",
    "json before a sentence": f"{CALL} is what I would send, if only I were allowed to.",
    "json before a fence": f"{CALL}\n```\nrm -r /\n```",
    "json with words between": f"{CALL}\nor\n{CALL}\nwhat do you say?",
    "json before other json": f'{CALL}\n{{"name": "Ada"}}',
    # names
    "a name alone": "I will call delete now.",
    "a call in a sentence": 'You can call delete(path="/") to do so.',
    "a call between sentences": 'You can call\ndelete(path="/")\nto do so.',
    "a call before a sentence": 'delete(path="/")\nremoves everything.',
    "a call in a block": '```python\ndelete(path="/")\n```',
    "a call in a program": '```python\nimport os\nif delete(path="/"):\n    os.exit(1)\n```',
    "a call as a value": 'done = delete(path="/")',
    "a call at a prompt": '$ delete(path="/")',
    "a call in another language": "delete(path: string): void",
    "the definition of a function": 'def delete(path="/"):\n    ...',
    "a link": "See [delete(path)](https://example.org).",
    "an object after a name": 'The delete {"path": "/"} call is bad.',
    "an action in words": "Action: delete the file",
    "an action alone": "Action: delete",
    "an action in a block": '```\nAction: delete\nAction Input: {"path": "/"}\n```',
    "an unknown action": 'Action: other\nAction Input: {"path": "/"}',
    "a call of an unknown tool": 'other(path="/")',
    "a list of calls of unknown tools": '[other(path="/"), delete(path="/")]',
    "a rehearsal of an unknown tool": "other[ARGS]{}",
    "a rehearsal of a longer name": "do_delete[ARGS]{}, x.delete[ARGS]{}, x-delete[ARGS]{}",
    "a name with a number": "In the log: functions.delete:0 was called.",
    "a prompt of Python": "Type this:\n>>> delete\nand press return.",
}

ATTEMPTS = {
    "no name": '<tool_call>{"arguments": {}}</tool_call>',
    "no name, cut off": '<tool_call>{"arguments": {"path": "/"',
    "json that cannot be read": "<tool_call>{name delete}</tool_call>",
    "json that is cut off in a text": '<tool_call>{"name": "delete", "arguments": {"pa',
    "json that is cut off in the name": '<tool_call>\n{"name": "del',
    "arguments that would be lost": '<tool_call>{"name": "delete", "path": "/"}</tool_call>',
    "arguments that are a list": '<tool_call>{"name": "delete", "arguments": ["/"]}</tool_call>',
    "arguments that are words": '<tool_call>{"name": "delete", "arguments": "/ and all"}</tool_call>',
    "an empty list": "[TOOL_CALLS][]",
    "a list of names": '[TOOL_CALLS]["delete"]',
    "an empty message": '<tool_call>{"tool_calls": []}</tool_call>',
    "a rehearsal that is cut off": 'delete[ARGS]{"path": ',
    "a function tag that is cut off in a text": '<function=delete>{"path": "/',
    "a definition": f"<tool_call>{DEFINITION}</tool_call>",
    "code that is cut off in a text": '<|tool_call_start|>[delete(path="/',
    "a list of no calls": "<|tool_call_start|>[1, 2]<|tool_call_end|>",
    "a message that is cut off in a text": '<|channel|>commentary to=functions.delete<|message|>{"path": "/',
}


def is_only_text(rescued: RescueResult, text: str) -> bool:
    return (rescued.text, rescued.calls, rescued.reasoning, rescued.broken) == (text, (), "", False)


@folded
@pytest.mark.parametrize("text", SHOWN.values(), ids=SHOWN)
def test_displayed_and_mentioned_markup_stays_text(text: str) -> None:
    assert is_only_text(rescue(text, NAMES), text)


# What may still become a call until the answer ends is held to its end.
HELD = {
    "markup twice in a block",
    "arguments that are broken beyond repair",
    "json in a tag",
    "json before a fence",
    "json before other json",
    "a string of a program",
}


@folded
@pytest.mark.parametrize("text", [text for name, text in SHOWN.items() if name not in HELD])
def test_displayed_and_mentioned_markup_is_streamed(text: str) -> None:
    more = f"{text}\n\nNow, is there anything else that you would like to know about all of this?\n" + "Yes. " * 200
    scan = StreamingParser(NAMES)

    pieces = [piece for letter in more for piece in scan.feed(letter)] + scan.decide_postponed()

    assert "".join(piece.text for piece in pieces) == rescue(more, NAMES).text.rstrip()
    assert {piece.kind for piece in pieces} == {PieceKind.TEXT}


@pytest.mark.parametrize("text", ATTEMPTS.values(), ids=ATTEMPTS)
def test_an_unparsable_call_is_reported_as_broken(text: str) -> None:
    rescued = rescue(text, NAMES)

    assert (rescued.calls, rescued.broken) == ((), True)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("That is all.</tool_call>", "That is all."),
        ("That is all.<|im_end|>", "That is all."),
        ("<|assistant|>That is all.</s>", "That is all."),
        ("That is <|x|>all.<｜end▁of▁sentence｜>\n", "That is all.\n"),
    ],
)
def test_leaked_special_tokens_are_dropped(text: str, left: str) -> None:
    rescued = rescue(text, NAMES)

    assert (rescued.text, rescued.calls, rescued.broken) == (left, (), False)


DRAFTS = {
    "markup": BLOCK,
    "coder": CODER,
    "json": f"\n{CALL}\n",
    "fence": f"```json\n{CALL}\n```\n",
    "rehearsal": 'delete[ARGS]{"path": "/"}',
    "code": '[delete(path="/")]',
    "react": '\nAction: delete\nAction Input: {"path": "/"}\n',
    "opener": "<tool_call>",
    "open fence": "\n```\n",
    "backtick": "`",
}
THOUGHTS = {
    "tags": "<think>I could {} now.</think>\n\n",
    "the template's": "I could {} now.\n</think>\n\n",
    "mistral": "[THINK]I could {} now.[/THINK]",
    "harmony": "<|channel|>analysis<|message|>I could {} now.<|end|><|start|>assistant<|channel|>final<|message|>",
    "command": "<|START_THINKING|>I could {} now.<|END_THINKING|>",
    "gemma": "<|channel>thought\nI could {} now.<channel|>",
    "seed": "<seed:think>I could {} now.</seed:think>",
}
drafts = pytest.mark.parametrize("draft", DRAFTS.values(), ids=DRAFTS)
thoughts = pytest.mark.parametrize("thought", THOUGHTS.values(), ids=THOUGHTS)


@folded
@pytest.mark.parametrize("draft", [DRAFTS[name] for name in DRAFTS if name != "open fence"])
@thoughts
def test_a_draft_in_reasoning_before_an_answer_is_not_a_call(draft: str, thought: str) -> None:
    rescued = rescue(f"{thought.replace('{}', draft)}No need to.", NAMES)

    assert (rescued.text, rescued.calls, rescued.broken) == ("No need to.", (), False)
    assert rescued.reasoning == f"I could {draft} now."


@folded
@pytest.mark.parametrize("draft", [DRAFTS[name] for name in DRAFTS if name != "open fence"])
@thoughts
def test_a_draft_in_reasoning_before_a_call_is_not_a_call(draft: str, thought: str) -> None:
    rescued = rescue(
        f'{thought.replace("{}", draft)}<tool_call>{{"name": "get_weather", "arguments": {{}}}}</tool_call>', NAMES
    )

    assert [found.call.tool for found in rescued.calls] == ["get_weather"]
    assert (rescued.text, rescued.reasoning) == ("", f"I could {draft} now.")


@drafts
def test_unclosed_reasoning_contains_no_call(draft: str) -> None:
    rescued = rescue(f"<think>I could {draft} now.", NAMES)

    assert (rescued.text, rescued.calls, rescued.broken) == ("", (), False)


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name": "other", "arguments": {}}</tool_call>',
        "<tool_call><function=other></function></tool_call>",
        "<function=other>{}</function>",
        '[TOOL_CALLS][{"name": "other", "arguments": {}}]',
        "[TOOL_CALLS]other{}",
        "[TOOL_CALLS]other[ARGS]{}",
        '<invoke name="other"></invoke>',
        "<tool_call>other\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>",
        "<|tool_call>call:other{}<tool_call|>",
        "<|tool_call_start|>[other()]<|tool_call_end|>",
        "<|channel|>commentary to=functions.other<|message|>{}<|call|>",
        "<｜tool▁call▁begin｜>other<｜tool▁sep｜>{}<｜tool▁call▁end｜>",
    ],
)
def test_an_unknown_name_in_markup_is_a_call(text: str) -> None:
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
    "harmony": '<|channel|>commentary to=functions.write_file<|message|>{"text": "%s"}<|call|>',
    "deepseek": '<｜tool▁call▁begin｜>write_file<｜tool▁sep｜>{"text": "%s"}<｜tool▁call▁end｜>',
    "code": '<|tool_call_start|>[write_file(text="%s")]<|tool_call_end|>',
    "code without markup": '[write_file(text="%s")]',
}
TAGGED = {
    "qwen-coder": "<tool_call>\n<function=write_file>\n<parameter=text>\n%s\n</parameter>\n</function>\n</tool_call>",
    "invoke": (
        '<function_calls>\n<invoke name="write_file">\n<parameter name="text">\n%s\n</parameter>\n'
        "</invoke>\n</function_calls>"
    ),
    "glm": "<tool_call>write_file\n<arg_key>text</arg_key>\n<arg_value>%s</arg_value>\n</tool_call>",
    "gemma": '<|tool_call>call:write_file{text:<|"|>%s<|"|>}<tool_call|>',
    "deepseek": (
        '<｜DSML｜function_calls>\n<｜DSML｜invoke name="write_file">\n<｜DSML｜parameter name="text" string="true">%s'
        "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>"
    ),
    "tag per tool": "<write_file>\n<text>\n%s\n</text>\n</write_file>",
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
    "glm": "<tool_call>delete\n<arg_key>path</arg_key>\n<arg_value>/</arg_value>\n</tool_call>",
    "code": '\n[delete(path="/")]',
    "react": '\nAction: delete\nAction Input: {"path": "/"}',
    "message": "<|channel|>commentary to=functions.delete<|message|>{}<|call|>",
    "token": "<|im_end|>",
    "thought": "<think>x</think>",
    "end of thoughts": "x</think>",
    "quotes and braces": '"}]) {["',
}
inside = pytest.mark.parametrize("outer", INSIDE.values(), ids=INSIDE)
tagged = pytest.mark.parametrize("outer", TAGGED.values(), ids=TAGGED)
BOUNDED = [name for name in INSIDE if name not in ("harmony", "code without markup")]
bounded = pytest.mark.parametrize("outer", [INSIDE[name] for name in BOUNDED], ids=BOUNDED)
markup = pytest.mark.parametrize("inner", MARKUP.values(), ids=MARKUP)
FOREIGN = [name for name in MARKUP if name not in ("qwen-coder", "glm")]
"""Markup without the tags that close the values around it."""


def in_a_string(inner: str, outer: str) -> str:
    """`outer` with `inner` as a text inside it, escaped as often as it takes."""
    for _ in range(2 if '\\"' in outer else 1):
        inner = inner.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return outer.replace("%s", inner)


@folded
@inside
@markup
def test_markup_in_an_argument_is_part_of_the_argument(outer: str, inner: str) -> None:
    rescued = rescue(in_a_string(inner, outer), NAMES)

    assert [(found.call.tool, found.call.args()) for found in rescued.calls] == [("write_file", {"text": inner})]
    assert (rescued.text, rescued.reasoning, rescued.broken) == ("", "", False)


@folded
@tagged
@pytest.mark.parametrize("inner", [MARKUP[name] for name in FOREIGN], ids=FOREIGN)
def test_markup_in_a_value_between_tags_is_part_of_the_value(outer: str, inner: str) -> None:
    value = f"a {inner} b"

    rescued = rescue(outer.replace("%s", value), NAMES)

    assert [(found.call.tool, found.call.args()) for found in rescued.calls] == [("write_file", {"text": value})]
    assert (rescued.text, rescued.reasoning, rescued.broken) == ("", "", False)


@folded
@bounded
@markup
@pytest.mark.parametrize("lost", [2, 4, 12, 40])
def test_markup_in_an_argument_of_a_cut_call_is_not_a_call(outer: str, inner: str, lost: int) -> None:
    text = in_a_string(inner, outer)

    assert not any(found.call.tool == "delete" for found in rescue(text[:-lost], NAMES).calls)


@folded
@pytest.mark.parametrize("outer", [TAGGED[name] for name in TAGGED if name != "tag per tool"])
@markup
@pytest.mark.parametrize("lost", [2, 12, 40])
def test_markup_in_a_cut_value_between_tags_is_not_a_call(outer: str, inner: str, lost: int) -> None:
    text = outer.replace("%s", f"a {inner} b")

    assert not any(found.call.tool == "delete" for found in rescue(text[:-lost], NAMES).calls)


@folded
@inside
@markup
def test_markup_in_an_argument_of_a_repaired_call_is_part_of_the_argument(outer: str, inner: str) -> None:
    text = in_a_string(inner, outer).replace('{"text"', "{'text'").replace('"arguments"', "'arguments'")

    rescued = rescue(text, NAMES)

    assert [(found.call.tool, found.call.args()) for found in rescued.calls] == [("write_file", {"text": inner})]


@folded
@bounded
@markup
def test_markup_in_an_argument_of_an_unparsable_call_is_not_a_call(outer: str, inner: str) -> None:
    text = in_a_string(inner, outer).replace('"text":', '"text" is').replace("text=", "text is ")

    assert not any(found.call.tool == "delete" for found in rescue(text, NAMES).calls)


@folded
@inside
@markup
def test_markup_in_other_json_is_not_a_call(outer: str, inner: str) -> None:
    text = in_a_string(inner, outer.replace('"arguments"', '"options"'))

    assert not any(found.call.tool == "delete" for found in rescue(text, NAMES).calls)


@pytest.mark.parametrize(
    "text",
    [
        f"<tool_call>{{'name'}}</tool_call>\n{BLOCK}",
        f"<tool_call> is how it begins: {BLOCK}",
        f'<tool_call>{{"name": "write_file", "arguments": {{"a": }}}}</tool_call>\n{BLOCK}',
        f'{{"name": "delete", "arguments": {{"path": }}}}\n{BLOCK}',
        f"<tool_call>\n[TOOL_CALLS][{CALL}]",
        f"```json\n{{'name'}}\n```\n{BLOCK}",
        f"It`s `so`: {BLOCK}",
        f"Say `x`\n```py\nx = `1`\n```\n{BLOCK}",
    ],
)
def test_a_valid_call_after_a_broken_one_or_after_code_is_found(text: str) -> None:
    assert [(found.call.tool, found.call.args()) for found in rescue(text, NAMES).calls] == [("delete", {"path": "/"})]


def test_backticks_in_arguments_do_not_open_code_in_the_text() -> None:
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
    "a<b ",
    "x > 3, ",
    "[1] ",
    "(see above) ",
    "{",
    "}",
    '"name": ',
    '"Ada"',
    "# Title\n",
    "1. ",
    "http://example.org/?a=[b]&c={d} ",
)
LETTERS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="<`[]✿>"), max_size=6)
PROSE = st.lists(st.sampled_from(WORDS) | LETTERS, max_size=12).map("".join)
CODE = st.lists(st.sampled_from((*WORDS, "`code` ", "```json\n", "```\n")) | LETTERS, max_size=12).map("".join)


@examples(300)
@given(text=PROSE | CODE)
def test_prose_without_tool_names_and_markup_is_not_changed(text: str) -> None:
    assume(not any(name in text.casefold() for name in NAMES))

    assert is_only_text(rescue(text, NAMES), text)


@examples(150)
@given(text=PROSE, lengths=LENGTHS)
def test_prose_without_tool_names_and_markup_is_streamed_unchanged(text: str, lengths: list[int]) -> None:
    # An object, and words that announce a call, are buffered for a while.
    assume(not any(words in text for words in (*NAMES, "{", "Action:", "Call:", "call:", "TOOL_CALL")))
    scan = StreamingParser(NAMES)
    prose = f"Well, {text}\nThat is all."

    pieces = [given for piece in cut(prose, lengths) for given in scan.feed(piece)] + scan.decide_postponed()

    assert "".join(piece.text for piece in pieces) == prose
    assert not scan.has_buffered_text


@examples(200)
@given(text=TEXTS)
def test_without_tools_only_markup_is_a_call(text: str) -> None:
    rescued = rescue(text, ())

    assert all(found.explicit or found.form.startswith("fenced-") for found in rescued.calls)


@pytest.mark.parametrize(
    "text",
    ["Use </think> to end thoughts.", "The token <|im_end|> ends it.", "Write [/THINK] after it.", "A ] </s> b"],
)
def test_a_token_used_as_a_word_of_a_sentence_is_kept(text: str) -> None:
    assert rescue(text, NAMES) == RescueResult(text)


@pytest.mark.parametrize(
    "arguments",
    ["<parameter city>Oslo", " <arg_key>city<arg_value>Oslo", ' city="Oslo'],
    ids=["parameter", "key", "attribute"],
)
def test_a_call_whose_tags_cannot_be_read_stays_text_up_to_its_closer(arguments: str) -> None:
    text = f"<tool_call>get_weather{arguments}</tool_call> Done."

    rescued = rescue(text, ("get_weather",))

    assert (rescued.text, rescued.calls, rescued.broken) == (text, (), True)
