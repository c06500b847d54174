"""The `forge-proxy rescue` command: its output, its exit codes and its errors for unusable inputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.processes import Ended, command
from tests.system.test_settings import faults

PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
}
TOOLS: list[Any] = [{"name": "get_weather", "parameters": PARAMETERS}, {"name": "read_file"}]
PARIS = '{"name": "get_weather", "arguments": {"city": "Paris", "days": "3"}}'
LONG = 'He said "so" and went. ' * 3000
"""Unescaped quotes in more text than the fast parser repairs."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with `tools.json`."""
    (tmp_path / "tools.json").write_text(json.dumps(TOOLS))
    return tmp_path


def rescue(folder: Path, said: str | bytes, *options: str) -> Ended:
    """Run the command with a text on stdin."""
    stdin = said.encode() if isinstance(said, str) else said
    return command("rescue", "--tools", "tools.json", *options, cwd=folder, stdin=stdin)


def found(folder: Path, said: str, *options: str) -> Any:
    return json.loads(rescue(folder, said, "--json", *options).out)


def test_a_call_is_printed_with_its_form_position_and_repairs(folder: Path) -> None:
    ended = rescue(folder, f"Sure, I look.\n<tool_call>{PARIS[:-1]}</tool_call> Done.")

    assert ended.code == 0, ended.err
    assert ended.out.splitlines() == [
        "1 call found",
        "",
        "call 1: get_weather",
        "  form        json, in markup",
        "  at          2:1 (characters 14-104)",
        "  syntax      repaired: brackets",
        "  arguments   {",
        '                "city": "Paris",',
        '                "days": 3',
        "              }",
        "  repaired    days: string → integer",
        "",
        "text        Sure, I look.",
        "            Done.",
        "reasoning   none",
        "verdict     deliver text and 1 call, outcome repaired",
    ]


def test_a_file_gives_the_same_output_as_stdin(folder: Path) -> None:
    (folder / "said.txt").write_text(PARIS)

    ended = command("rescue", "said.txt", "--tools", "tools.json", cwd=folder)

    assert (ended.code, ended.out) == (0, rescue(folder, PARIS).out)


def test_an_invalid_call_is_printed_with_the_correction(folder: Path) -> None:
    ended = rescue(folder, '<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</tool_call>')

    assert ended.code == 1
    assert "  invalid     `days`: required, missing" in ended.out.splitlines()
    assert "retry: arguments that violate the tool's schema" in ended.out
    assert "correction  [ToolArgValidationError] Invalid arguments for get_weather: `days`: required" in ended.out


def test_a_call_that_cannot_be_parsed_exits_with_1(folder: Path) -> None:
    ended = rescue(folder, '<tool_call>{"name": "get_weather", "arguments": {"city": "Par')

    assert ended.code == 1
    assert "broken      a call cannot be parsed" in ended.out.splitlines()
    assert "parser      thorough" in ended.out


@pytest.mark.parametrize("said", ["", "It is sunny.", "\ufeff"])
def test_plain_text_exits_with_0(folder: Path, said: str) -> None:
    ended = rescue(folder, said)

    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("no calls found\n")


def test_a_call_that_only_the_thorough_parser_finds_is_marked(folder: Path) -> None:
    said = found(
        folder, f'<tool_call>{{"name": "get_weather", "arguments": {{"city": "{LONG}", "days": 1}}}}</tool_call>'
    )

    assert said["parser"] == "thorough"
    assert said["calls"][0]["arguments"] == {"city": LONG, "days": 1}


def test_json_contains_all_findings(folder: Path) -> None:
    said = found(folder, f"<think>Hm.</think>It is:\n{PARIS}")

    assert said["text"] == "It is:"
    assert said["reasoning"] == "Hm."
    (call,) = said["calls"]
    assert (call["tool"], call["form"], call["explicit"]) == ("get_weather", "json", False)
    assert call["place"] == {"start": 25, "end": 25 + len(PARIS), "line": 2, "column": 1}
    assert (call["check"], call["interventions"]) == ("repaired", ["days: string → integer"])
    assert said["verdict"]["action"] == "deliver"


@pytest.mark.parametrize(
    ("text", "action", "former_action"),
    [(PARIS, "deliver", "hand out"), ("<tool_call>{", "retry", "ask again")],
)
def test_json_has_renamed_fields_by_their_former_names_too(
    folder: Path, text: str, action: str, former_action: str
) -> None:
    said = found(folder, f"<think>Hm.</think>{text}")

    verdict, calls = said["verdict"], said["calls"]
    assert (said["reading"], said["thoughts"]) == (said["parser"], said["reasoning"])
    assert (verdict["action"], verdict["does"], verdict["in_words"]) == (action, former_action, verdict["summary"])
    assert verdict.get("says") == verdict.get("corrections")
    assert [(call["said"], call["in_thoughts"], call["marks"]) for call in calls] == [
        (call["written_name"], call["in_reasoning"], call["interventions"]) for call in calls
    ]


def test_json_has_the_reason_of_a_rejected_candidate_by_both_names(folder: Path) -> None:
    (rejected,) = found(folder, f"Use {PARIS} here.")["not_calls"]

    assert rejected["description"].startswith("a call of get_weather")
    assert (rejected["what"], rejected["why"]) == (rejected["description"], rejected["reason"])


def test_positional_and_raw_arguments_are_listed(folder: Path) -> None:
    by_position = found(folder, 'get_weather("Paris", 3)')["calls"][0]
    tags = "<function=get_weather><parameter=city>3</parameter><parameter=days>3</parameter></function>"
    by_schema = found(folder, tags)["calls"][0]

    assert (by_position["by_position"], by_position["arguments"]) == (["city", "days"], {"city": "Paris", "days": 3})
    assert (by_schema["typed_by_schema"], by_schema["arguments"]) == (["city", "days"], {"city": "3", "days": 3})


def test_a_cut_response_is_judged_as_cut(folder: Path) -> None:
    said = found(folder, f"<tool_call>{PARIS[:-20]}", "--finish", "length")

    assert (said["calls"], said["broken"]) == ([], True)
    assert said["verdict"]["fault"] == "cut"


def test_the_tool_choice_of_a_recorded_request_applies(folder: Path) -> None:
    function = {"type": "function", "function": TOOLS[0]}
    request = {"messages": [], "model": 3, "tools": [function], "tool_choice": "required"}
    (folder / "tools.json").write_text(json.dumps(request))

    assert found(folder, "It is sunny.")["verdict"]["fault"] == "no_call"


def test_unprintable_characters_are_escaped(folder: Path) -> None:
    ended = rescue(folder, "\x1b[31mred\x07\u202e")

    assert r"text        \x1b[31mred\x07\u202e" in ended.out


def test_characters_outside_the_terminals_encoding_are_escaped(folder: Path) -> None:
    env = {"PYTHONIOENCODING": "ascii"}

    ended = command("rescue", "--tools", "tools.json", cwd=folder, stdin="Grüße 😀".encode(), env=env)

    assert (ended.code, ended.err) == (0, "")
    assert r"Gr\xfc\xdfe \U0001f600" in ended.out


def test_a_missing_option_is_reported_with_an_example() -> None:
    ended = command("rescue", stdin=b"")

    assert ended.code == 2
    (fault,) = faults(ended)
    assert fault.startswith("--tools FILE is missing")
    assert '[{"name": "get_weather", "parameters": ' in fault


@pytest.mark.parametrize(
    ("tools", "said"),
    [
        ('[{"name": "f",\n "x": }]', "tools.json:2:7: not JSON: Expecting value"),
        ("[NaN]", "tools.json: invalid JSON: NaN"),
        ("[" * 100_000, "tools.json: invalid JSON: "),
        ("3", "tools.json: expected a list of tools, such as "),
        ('{"tool": []}', "tools.json: tools: expected a list of tools, such as "),
        ("[1]", "tools.json: [0]: expected an object, got integer"),
        ('[{"name": "f"}, {"name": 3}]', "tools.json: [1].name: expected a string, got integer"),
        ('[{"name": "f", "parameters": "x"}]', "tools.json: [0].parameters: expected a JSON Schema, got string"),
        ('{"tools": [{"type": "function"}]}', "tools.json: tools[0].name: required, but missing"),
        (
            '[{"type": "function", "function": {"name": ""}}]',
            "tools.json: [0].function.name: must not be empty",
        ),
        ('{"tools": [{"name": "f"}], "tool_choice": "so"}', "tools.json: tool_choice: expected none, auto"),
        ('{"tools": [{"name": "f"}], "tool_choice": "none"}', "tools.json: its tool_choice forbids calls"),
        ("[]", "tools.json: it offers no tools, so the daemon would forward every response"),
        ('[{"type": "custom", "custom": {}}]', "tools.json: the type of tool 0 is not 'function'"),
    ],
)
def test_unusable_tools_are_an_error_with_the_position(folder: Path, tools: str, said: str) -> None:
    (folder / "tools.json").write_text(tools)

    ended = rescue(folder, "")

    assert ended.code == 2
    (fault,) = faults(ended)
    assert fault.startswith(said)


@pytest.mark.parametrize(
    ("words", "stdin", "said"),
    [
        (["--tools", "no.json"], b"", "no.json: No such file or directory"),
        (["no.txt", "--tools", "tools.json"], b"", "no.txt: No such file or directory"),
        ([".", "--tools", "tools.json"], b"", ".: Is a directory"),
        (["--tools", "tools.json"], b"a\n\xff", "stdin: not UTF-8: byte 0xff at offset 2 (line 2)"),
        (["-", "--tools", "tools.json"], b"\xff", "stdin: not UTF-8: byte 0xff at offset 0 (line 1)"),
    ],
)
def test_an_unreadable_file_is_an_error_with_its_name(folder: Path, words: list[str], stdin: bytes, said: str) -> None:
    ended = command("rescue", *words, cwd=folder, stdin=stdin)

    assert ended.code == 2
    (fault,) = faults(ended)
    assert fault.startswith(said)


OWN = Path(__file__).parents[1] / "templates" / "own"


def test_the_form_that_a_template_shows_is_printed(folder: Path) -> None:
    ended = command("rescue", "--template", str(OWN / "names-and-objects.jinja"), cwd=folder)

    assert (ended.code, ended.err) == (0, "")
    assert ended.out == ('template    \'<|acts|><|act|>tools/NAME#N<|with|>{"KEY": "VALUE"}<|done|><|/acts|>\'\n')


def test_the_form_that_a_template_shows_is_printed_as_json(folder: Path) -> None:
    ended = command("rescue", "--json", "--template", str(OWN / "names-and-objects.jinja"), cwd=folder)

    assert json.loads(ended.out)["form"]["call_closes"] == "<|done|>"


def test_a_call_in_the_form_of_a_template_is_found(folder: Path) -> None:
    said = '<|acts|><|act|>tools/get_weather#1<|with|>{"city": "Paris", "days": 3}<|done|><|/acts|>'

    ended = rescue(folder, said, "--template", str(OWN / "names-and-objects.jinja"))

    assert ended.code == 0, ended.out
    assert "  form        template, in markup" in ended.out.splitlines()
    assert found(folder, said)["calls"] == []


def test_a_template_that_is_not_understood_is_reported_and_changes_nothing(folder: Path) -> None:
    (folder / "t.jinja").write_text("{{ messages[0].content }}")

    alone = command("rescue", "--template", "t.jinja", cwd=folder)
    with_text = rescue(folder, PARIS, "--template", "t.jinja")

    assert (alone.code, alone.out) == (1, "template    not learned: the template does not render calls\n")
    assert with_text.out == rescue(folder, PARIS).out


def test_a_file_without_a_template_is_an_error(folder: Path) -> None:
    ended = command("rescue", "--template", "tools.json", cwd=folder)

    assert ended.code != 0
    assert "tools.json: " in ended.err
