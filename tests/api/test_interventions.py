"""How each rescue and repair is reported to the client and in the log, streamed and whole."""

from __future__ import annotations

import json
from urllib.parse import unquote

import pytest
from structlog.testing import capture_logs

from forge_proxy.api.outcome_headers import headers_as_text, outcome_headers
from forge_proxy.core.guardrails import Intervention, Outcome
from forge_proxy.core.guardrails.report import Report
from forge_proxy.engine.events import Event, RequestAnswered
from forge_proxy.telemetry.logs import LogObserver
from tests.api.test_mistakes import ASK, PARIS_TEXT, RIGHT, both
from tests.core.guardrails.schema.test_compiled import overlapping
from tests.fakes.records import make_record
from tests.fakes.says import Said
from tests.fakes.scripted import JsonDict, chat


def rescued(tool: str, detail: str = "json at 0") -> Intervention:
    return Intervention(Outcome.RESCUED, tool, detail)


def told(*marks: Intervention) -> str:
    """Return `x-forge-interventions` for these interventions."""
    return outcome_headers(Report(Outcome.RESCUED, interventions=marks))["x-forge-interventions"]


@both
async def test_form_position_and_repairs_are_reported(stream: bool) -> None:
    said = 'Sure.\n<tool_call>{"name": "Get_Weather", "arguments": {"city": "Paris", "days": "3",}}</tool_call>'

    answer = await chat([Said(text=said)], ASK, stream=stream)

    assert answer.marks == (
        "rescued Get_Weather: json at 6; repaired Get_Weather: broken: commas; "
        "repaired get_weather: name: Get_Weather -> get_weather; repaired get_weather: days: string -> integer"
    )
    assert answer.outcome == "repaired"


@both
@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (overlapping(40), "not checked, the alternatives in the schema multiply"),
        ({"type": "nonsense"}, "not checked, the schema cannot be used"),
        ({"properties": {"a": {"pattern": "("}}}, "patterns not checked"),
    ],
    ids=["too many alternatives", "no schema", "patterns"],
)
async def test_arguments_that_were_not_checked_are_reported(schema: JsonDict, why: str, stream: bool) -> None:
    heard: list[Event] = []
    tool: JsonDict = {"type": "function", "function": {"name": "get_weather", "parameters": schema}}
    said = Said(calls=(("get_weather", '{"a": 1}'),))

    answer = await chat([said], {**ASK, "tools": [tool]}, stream=stream, heard=heard)

    assert (answer.calls, answer.outcome) == ([("get_weather", {"a": 1})], "clean")
    assert answer.marks == f"unchecked get_weather: {why}"
    assert [event.report.descriptions for event in heard if isinstance(event, RequestAnswered)] == [(answer.marks,)]


@both
async def test_without_an_intervention_nothing_is_reported(stream: bool) -> None:
    answer = await chat([RIGHT], ASK, stream=stream)

    assert (answer.outcome, answer.marks) == ("clean", None)


@both
async def test_a_tool_name_outside_ascii_is_percent_encoded(stream: bool) -> None:
    tool: JsonDict = {"type": "function", "function": {"name": "météo;1%", "parameters": {"type": "object"}}}
    said = Said(text='<tool_call>{"name": "météo;1%", "arguments": {}}</tool_call>')

    answer = await chat([said], {**ASK, "tools": [tool]}, stream=stream)

    assert answer.marks == "rescued m%C3%A9t%C3%A9o%3B1%25: json at 0"
    assert unquote(answer.marks) == "rescued météo;1%: json at 0"


@both
async def test_values_of_arguments_are_never_reported(stream: bool) -> None:
    said = Said(text='{"name": "get_weather", "arguments": {"City": "s3cret", "days": "3", "more": "s3cret"}}')
    heard: list[Event] = []

    answer = await chat([said], ASK, stream=stream, heard=heard)

    assert answer.marks
    assert "s3cret" not in answer.marks
    assert "s3cret" not in repr(heard)


def test_a_long_list_of_interventions_is_truncated_and_counted() -> None:
    said = told(*(rescued(f"tool_{number}", "json at 0, and more words of this kind") for number in range(100)))

    assert len(said) <= 1024
    kept = said.split("; ")
    assert kept[0] == "rescued tool_0: json at 0, and more words of this kind"
    assert kept[-1] == f"and {100 - len(kept) + 1} more"


@pytest.mark.parametrize("name", ["x" * 100_000, "\N{PILE OF POO}" * 500, "a\r\nx-evil: 1", "\x00\x7f\x85", "\ud800"])
def test_any_tool_name_results_in_a_valid_header(name: str) -> None:
    said = told(rescued(name, f"name: {name} → get_weather"), rescued("get_weather"))

    assert len(said) <= 1024
    assert said.isascii()
    assert said.isprintable()
    assert said.endswith("; rescued get_weather: json at 0")


def test_the_comment_of_a_stream_equals_the_headers() -> None:
    report = Report(Outcome.RESCUED, 2, interventions=(rescued("get_weather"),), tokens=7)

    assert headers_as_text(outcome_headers(report)) == (
        "x-forge-outcome=rescued x-forge-attempts=2 x-forge-tokens-spent=7"
        " x-forge-interventions=rescued get_weather: json at 0 x-forge-marks=rescued get_weather: json at 0"
    )


async def test_the_log_has_the_same_interventions_unencoded() -> None:
    heard: list[Event] = []
    await chat(
        [Said(text=f'{{"name": "get_weather", "arguments": {PARIS_TEXT.replace("3", json.dumps("3"))}}}')],
        ASK,
        heard=heard,
    )

    with capture_logs() as lines:
        observer = LogObserver()
        for event in heard:
            observer(event)

    assert (
        lines[-1]["interventions"]
        == lines[-1]["done"]
        == ["rescued get_weather: json at 0", "repaired get_weather: days: string → integer"]
    )


def test_a_log_line_is_bounded() -> None:
    report = Report(Outcome.RESCUED, interventions=tuple(rescued("x" * 10_000) for _ in range(1000)))

    with capture_logs() as lines:
        LogObserver()(RequestAnswered(make_record(report), report))

    assert len(json.dumps(lines)) < 6000
    assert lines[0]["interventions"][-1].endswith(" more")
