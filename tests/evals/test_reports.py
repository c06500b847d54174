"""Reports contain the figures of the runs."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest

from forge_proxy.evals.record import RunRecord
from forge_proxy.evals.reports.comparison import compare_runs, comparison_report
from forge_proxy.evals.reports.lines import RunFilter, build_lines
from forge_proxy.evals.reports.markdown import markdown_report
from forge_proxy.evals.reports.page import html_report
from forge_proxy.evals.reports.table import list_report, progress_report, text_report
from tests.evals.records import configuration, record, unfinished


def runs() -> list[RunRecord]:
    """Twenty runs with all guardrails, of which 18 are right, and the same without any, of which 5 are."""
    out: list[RunRecord] = []
    for run in range(10):
        for scenario in ("one", "two"):
            out.append(record("reforged", scenario, run, planned=20, accuracy=not (scenario == "two" and run < 2)))
            is_right = scenario == "one" and run < 5
            out.append((record if is_right else unfinished)("bare", scenario, run, planned=20))
    return out


def test_the_table_holds_scores_and_intervals_the_best_first() -> None:
    rows = text_report(build_lines(runs())).splitlines()

    assert rows[2].split()[:10] == ["1", "tiny", "runner", "reforged", "20", "90", "%", "70–97", "90", "%"]
    assert rows[3].split()[:10] == ["2", "tiny", "runner", "bare", "20", "25", "%", "11–47", "100", "%"]
    assert [row.split() for row in rows[-2:]] == [["one", "100", "%", "50", "%"], ["two", "80", "%", "0", "%"]]


def test_the_list_is_for_narrow_screens() -> None:
    lines = list_report(build_lines(runs())).splitlines()

    assert lines[:2] == ["1. tiny, runner, reforged", "   90 % (70–97) of 20"]
    assert max(map(len, lines)) < 40


@pytest.mark.parametrize(
    ("some", "labels"),
    [
        ([{}, {"temperature": 0.0}], ["tiny", "tiny (temperature 0)"]),
        ([{"temperature": 0.0}, {"temperature": 0.7}], ["tiny (temperature 0)", "tiny (temperature 0.7)"]),
        ([{"seed": 0}, {"seed": 9}], ["tiny (seed 0)", "tiny (seed 9)"]),
        ([{}, {"max_tokens": 50}], ["tiny", "tiny (50 tokens a response)"]),
        ([{}, {"strategy": "sliding"}], ["tiny (compaction sliding)", "tiny (compaction tiered)"]),
        ([{}, {"budget_tokens": 900}], ["tiny", "tiny (budget 900)"]),
        ([{}, {"context": 2048}], ["tiny", "tiny (context 2048)"]),
        ([{}, {"backend": "ollama"}], ["tiny (on embedded)", "tiny (on ollama)"]),
        (
            [{"seed": 3}, {"seed": 3, "think": True}, {"seed": 4, "think": True}],
            ["tiny", "tiny (thinking, seed 3)", "tiny (thinking, seed 4)"],
        ),
        ([{"temperature": 0.0}, {"temperature": 0.0, "model": "large"}], ["large", "tiny"]),
        ([{"temperature": 0.0}, {"temperature": 0.0, "ablation": "bare"}], ["tiny", "tiny"]),
    ],
)
def test_a_label_tells_what_lines_differ_in(some: list[dict[str, Any]], labels: list[str]) -> None:
    lines = build_lines(record(config=configuration(**fields)) for fields in some)

    assert [line.label for line in lines] == labels
    for label in labels:
        for report in (text_report(lines), list_report(lines), markdown_report(lines), html_report(lines)):
            assert label in report


def test_a_partial_configuration_is_included_on_request() -> None:
    some = [*runs(), record("no_rescue", planned=2)]

    assert len(build_lines(some, RunFilter())) == 2
    assert len(build_lines(some, RunFilter(partial=True))) == 3
    progress = progress_report(build_lines(some, RunFilter(partial=True)))
    assert re.search(r"no_rescue +1/2 +1 to go", progress)
    assert re.search(r"bare +20/20 +complete", progress)


def test_what_is_reported_can_be_chosen() -> None:
    tagged = [record("bare", "one", tags=("plumbing", "stateful")), record("bare", "two", run=1, tags=("plumbing",))]

    def found(choice: RunFilter) -> list[str]:
        return [one.scenario for line in build_lines(tagged, choice) for one in line.records]

    assert found(RunFilter(tags=["plumbing"])) == ["one", "two"]
    assert found(RunFilter(tags=["stateful", "compaction"])) == ["one"]
    assert found(RunFilter(scenarios=["two"])) == ["two"]
    assert found(RunFilter(ablations=["reforged"])) == found(RunFilter(surfaces=["proxy"])) == []
    assert found(RunFilter(models=["huge"])) == []


def test_markdown_holds_the_same_figures() -> None:
    page = markdown_report(build_lines(runs()))

    assert "| 1 | tiny | runner | reforged | 20 | 90 % | 70–97 |" in page
    assert "| tiny | runner | bare | 20 | 90 % | 25 % | -65 | -83 to -35 | 0.00024 |" in page
    assert "| two | 80 % | 0 % |" in page


class Loads(HTMLParser):
    """What a page loads from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.found += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href", "data")]


def test_the_page_needs_nothing_but_itself() -> None:
    page = html_report(build_lines(runs()))

    loads = Loads()
    loads.feed(page)
    assert loads.found == []
    assert not {"script", "link", "img", "iframe"} & set(loads.tags)
    assert "url(" not in page
    assert "@import" not in page
    assert loads.tags.count("svg") == 3
    assert "prefers-color-scheme: dark" in page


def test_the_page_holds_the_figures() -> None:
    page = html_report(build_lines(runs()))

    assert "tiny · runner · reforged: 18 of 20, 90 % (70–97)" in page
    assert "tiny · runner · bare: -65 points (-83 to -35), p = 0.00024, 20 pairs" in page
    cell = '<td style="background:rgba(var(--heat),0.48)" title="8 of 10 (49–94)">80 %</td>'
    assert f'<th scope="row" class="word">two</th>{cell}' in page


def test_names_are_shown_as_they_are() -> None:
    odd = record(config=configuration(model="<b>|tiny"))

    assert "<b>" not in html_report(build_lines([odd]))
    assert "&lt;b>\\|tiny" in markdown_report(build_lines([odd]))


def test_a_line_break_in_a_name_tears_no_table() -> None:
    lines = build_lines([record(config=configuration(model="tiny\n\x1b[31mred"))])

    for report in (text_report(lines), markdown_report(lines), html_report(lines), list_report(lines)):
        assert "tiny��[31mred" in report
    assert len(text_report(lines).splitlines()) == 7


def test_labels_of_similar_file_names_differ_in_plots() -> None:
    files = [f"models/Some-Long-Model-Name-12B-Instruct-2512-{kind}.gguf" for kind in ("Q4_K_M", "Q8_0")]
    presets = ("reforged", "no_rescue")
    page = html_report(build_lines(record(config=configuration(one, model=file)) for file in files for one in presets))

    names = re.findall(r'class="name"[^>]*>([^<]*)<', page)
    assert len(set(names)) == 4
    assert max(map(len, names)) <= 50


def test_points_stand_where_their_figures_are() -> None:
    """Also where a preset gains more than guardrails usually cost."""
    ways = [*runs(), *(record("no_rescue", name, run, planned=20) for name in ("one", "two") for run in range(10))]
    lost = [unfinished("reforged", "one", run, config=configuration(model="odd")) for run in range(20)]
    gained = [record("bare", "one", run, config=configuration("bare", model="odd")) for run in range(20)]
    page = html_report(build_lines([*ways, *lost, *gained]))

    scores, worths = map(_Drawn, page.split("<svg")[1:3])
    assert scores.shown == pytest.approx(scores.told, abs=0.6)
    assert worths.shown == pytest.approx(worths.told, abs=0.6)
    assert {100.0, -65.0} <= set(worths.told)


class _Drawn:
    """Return the points of a plot with their intervals, as drawn and as in its tooltips."""

    def __init__(self, svg: str) -> None:
        marks = re.findall(r'class="mark" x="([\d.]+)"[^>]*>(-?\d+)', svg)
        (left, low), (right, high) = [(float(x), float(at)) for x, at in (marks[0], marks[-1])]
        rows = re.findall(
            r"<g><title>[^<]*?([+-]?\d+)(?: %| points) \(([+-]?\d+)(?:–| to )([+-]?\d+)\)[^<]*</title>.*?"
            r'x1="([\d.]+)"[^>]*x2="([\d.]+)".*?cx="([\d.]+)"',
            svg,
        )
        self.told = [float(figure) for row in rows for figure in row[:3]]
        at = [(float(row[5]), float(row[3]), float(row[4])) for row in rows]
        self.shown = [low + (x - left) / (right - left) * (high - low) for row in at for x in row]


def test_a_report_without_runs_states_this() -> None:
    assert text_report(build_lines([])).startswith("no runs to report")
    assert "0 runs" in html_report(build_lines([]))


def test_two_configurations_are_compared_run_for_run() -> None:
    every = runs()
    bare = [one for one in every if one.config.ablation == "bare"]
    whole = [one for one in every if one.config.ablation == "reforged"]

    rows = compare_runs(bare, [*whole, record("reforged", "three")])

    assert [(row.name, row.pairs.total, row.pairs.first, row.pairs.second) for row in rows] == [
        ("one", 10, 0, 5),
        ("two", 10, 0, 8),
        ("all", 20, 0, 13),
    ]
    assert compare_runs(bare, [record("reforged", "one", run=5, seed=0)]) == ()  # its data are other ones
    report = comparison_report(rows, "bare", "reforged").splitlines()
    assert report[:2] == ["A: bare", "B: reforged"]
    assert report[-1].split() == ["all", "20", "25", "%", "90", "%", "+65", "+35", "to", "+83", "0", "13", "0.00024"]
    assert comparison_report(compare_runs(bare, []), "a", "b").startswith("nothing to compare")
