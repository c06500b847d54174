"""`forge-proxy rescue`: output, exit codes, and errors for unusable input."""

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
"""Quotes that are not escaped, in more text than is mended where somebody waits."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with `tools.json`."""
    (tmp_path / "tools.json").write_text(json.dumps(TOOLS))
    return tmp_path


def rescue(folder: Path, said: str | bytes, *options: str) -> Ended:
    """What the command makes of a text on stdin."""
    stdin = said.encode() if isinstance(said, str) else said
    return command("rescue", "--tools", "tools.json", *options, cwd=folder, stdin=stdin)


def found(folder: Path, said: str, *options: str) -> Any:
    return json.loads(rescue(folder, said, "--json", *options).out)


def test_a_call_is_printed_with_its_format_position_and_repairs(folder: Path) -> None:
    ended = rescue(folder, f"Sure, I look.\n<tool_call>{PARIS[:-1]}</tool_call> Done.")

    assert ended.code == 0, ended.err
    assert ended.out.splitlines() == [
        "1 call found",
        "",
        "call 1: get_weather",
        "  form        json, in markup",
        "  at          2:1 (characters 14-104)",
        "  mended      brackets",
        "  arguments   {",
        '                "city": "Paris",',
        '                "days": 3',
        "              }",
        "  repaired    days: string → integer",
        "",
        "text        Sure, I look.",
        "            Done.",
        "thoughts    none",
        "verdict     hand out text and 1 call, outcome repaired",
    ]


def test_a_file_is_read_like_stdin(folder: Path) -> None:
    (folder / "said.txt").write_text(PARIS)

    ended = command("rescue", "said.txt", "--tools", "tools.json", cwd=folder)

    assert (ended.code, ended.out) == (0, rescue(folder, PARIS).out)


def test_an_invalid_call_is_printed_as_the_correction_to_the_model(folder: Path) -> None:
    ended = rescue(folder, '<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</tool_call>')

    assert ended.code == 1
    assert "  invalid     `days`: required, missing" in ended.out.splitlines()
    assert "ask the model again: arguments that break the tool's schema" in ended.out
    assert "and says    [ToolArgValidationError] Invalid arguments for get_weather: `days`: required" in ended.out


def test_a_call_that_cannot_be_read_is_an_exit_code(folder: Path) -> None:
    ended = rescue(folder, '<tool_call>{"name": "get_weather", "arguments": {"city": "Par')

    assert ended.code == 1
    assert "broken      a call was begun that cannot be read" in ended.out.splitlines()
    assert "reading     thorough" in ended.out


@pytest.mark.parametrize("said", ["", "It is sunny.", "\ufeff"])
def test_plain_text_is_not_an_error(folder: Path, said: str) -> None:
    ended = rescue(folder, said)

    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("no calls found\n")


def test_a_call_that_needs_the_thorough_parser_is_read_and_reported(folder: Path) -> None:
    said = found(
        folder, f'<tool_call>{{"name": "get_weather", "arguments": {{"city": "{LONG}", "days": 1}}}}</tool_call>'
    )

    assert said["reading"] == "thorough"
    assert said["calls"][0]["arguments"] == {"city": LONG, "days": 1}


def test_json_holds_everything(folder: Path) -> None:
    said = found(folder, f"<think>Hm.</think>It is:\n{PARIS}")

    assert said["text"] == "It is:"
    assert said["thoughts"] == "Hm."
    (call,) = said["calls"]
    assert (call["tool"], call["form"], call["explicit"]) == ("get_weather", "json", False)
    assert call["place"] == {"start": 25, "end": 25 + len(PARIS), "line": 2, "column": 1}
    assert (call["check"], call["marks"]) == ("repaired", ["days: string → integer"])
    assert said["verdict"]["does"] == "hand out"


def test_arguments_mapped_by_position_and_by_schema_are_reported(folder: Path) -> None:
    by_position = found(folder, 'get_weather("Paris", 3)')["calls"][0]
    tags = "<function=get_weather><parameter=city>3</parameter><parameter=days>3</parameter></function>"
    by_schema = found(folder, tags)["calls"][0]

    assert (by_position["by_position"], by_position["arguments"]) == (["city", "days"], {"city": "Paris", "days": 3})
    assert (by_schema["typed_by_schema"], by_schema["arguments"]) == (["city", "days"], {"city": "3", "days": 3})


def test_a_cut_response_is_judged_as_cut(folder: Path) -> None:
    said = found(folder, f"<tool_call>{PARIS[:-20]}", "--finish", "length")

    assert (said["calls"], said["broken"]) == ([], True)
    assert said["verdict"]["fault"] == "cut"


def test_a_recorded_request_counts_with_its_tool_choice(folder: Path) -> None:
    function = {"type": "function", "function": TOOLS[0]}
    request = {"messages": [], "model": 3, "tools": [function], "tool_choice": "required"}
    (folder / "tools.json").write_text(json.dumps(request))

    assert found(folder, "It is sunny.")["verdict"]["fault"] == "no_call"


def test_control_characters_do_not_reach_the_terminal(folder: Path) -> None:
    ended = rescue(folder, "\x1b[31mred\x07\u202e")

    assert r"text        \x1b[31mred\x07\u202e" in ended.out


def test_a_terminal_with_a_small_character_set_is_not_an_error(folder: Path) -> None:
    env = {"PYTHONIOENCODING": "ascii"}

    ended = command("rescue", "--tools", "tools.json", cwd=folder, stdin="Grüße 😀".encode(), env=env)

    assert (ended.code, ended.err) == (0, "")
    assert r"Gr\xfc\xdfe \U0001f600" in ended.out


def test_a_missing_option_is_named_with_an_example() -> None:
    ended = command("rescue", stdin=b"")

    assert ended.code == 2
    (fault,) = faults(ended)
    assert fault.startswith("--tools FILE is missing")
    assert '[{"name": "get_weather", "parameters": ' in fault


@pytest.mark.parametrize(
    ("tools", "said"),
    [
        ('[{"name": "f",\n "x": }]', "tools.json:2:7: not JSON: Expecting value"),
        ("[NaN]", "tools.json: not JSON that can be used: NaN"),
        ("[" * 100_000, "tools.json: not JSON that can be used: "),
        ("3", "tools.json: expected a list of tools, as "),
        ('{"tool": []}', "tools.json: tools: expected a list of tools, as "),
        ("[1]", "tools.json: [0]: expected an object, got integer"),
        ('[{"name": "f"}, {"name": 3}]', "tools.json: [1].name: expected a string, got integer"),
        ('[{"name": "f", "parameters": "x"}]', "tools.json: [0].parameters: expected a JSON Schema, got string"),
        ('{"tools": [{"type": "function"}]}', "tools.json: tools[0].name: required, but missing"),
        (
            '[{"type": "function", "function": {"name": ""}}]',
            "tools.json: [0].function.name: must not be empty",
        ),
        ('{"tools": [{"name": "f"}], "tool_choice": "so"}', "tools.json: tool_choice: expected none, auto"),
        ('{"tools": [{"name": "f"}], "tool_choice": "none"}', "tools.json: its tool_choice lets no function be called"),
        ("[]", "tools.json: it offers no tools, so the daemon would pass every answer on"),
        ('[{"type": "custom", "custom": {}}]', "tools.json: tool 0 is of a type other than 'function'"),
    ],
)
def test_the_error_for_unusable_tools_names_the_position(folder: Path, tools: str, said: str) -> None:
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
def test_a_file_that_cannot_be_read_is_named(folder: Path, words: list[str], stdin: bytes, said: str) -> None:
    ended = command("rescue", *words, cwd=folder, stdin=stdin)

    assert ended.code == 2
    (fault,) = faults(ended)
    assert fault.startswith(said)
