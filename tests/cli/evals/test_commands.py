"""The `forge-proxy eval` commands over existing results."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from forge_proxy.cli.app import app
from forge_proxy.core.errors import ForgeError
from forge_proxy.evals.scenarios import ALL
from tests.evals.records import configuration, record, unfinished
from tests.fakes.processes import ROOT


def typed(*words: str) -> str:
    """What is printed."""
    done = CliRunner().invoke(app, ["eval", *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Two models, of which one was run in two ways."""
    file = tmp_path / "evals.jsonl"
    runs = [record("reforged", run=run) for run in range(2)] + [unfinished("bare", run=run) for run in range(2)]
    runs += [record(run=run, config=configuration(model="large", temperature=0.0), planned=9) for run in range(2)]
    file.write_text("".join(f"{run.model_dump_json()}\n" for run in runs))
    return file


def test_scenarios_are_listed() -> None:
    assert typed("list", "--list-only").split() == [one.name for one in ALL]
    assert typed("list", "--list-only", "--tags", "plumbing", "--tags", "stateful").split() == [
        one.name for one in ALL if {"plumbing", "stateful"} & one.tags
    ]
    assert typed("list").splitlines()[0].split("  ")[-1] == "task"
    assert len(re.split(r"  +", typed("list").splitlines()[1])) == 4  # no column without a title


def test_presets_are_listed_like_in_the_guide() -> None:
    def off(rows: list[str], between: str) -> dict[str, str]:
        cells = [[cell.strip(" `") for cell in re.split(between, row)] for row in rows]
        return {row[-3]: row[-1].partition(":")[0].partition(";")[0] for row in cells}

    guide = (ROOT / "docs" / "evals.md").read_text().partition("| preset | surface | what is off |\n")[2]
    told = [row.removesuffix(" |") for row in guide.partition("\n\n")[0].splitlines()[1:]]
    listed = typed("list").partition("what is off\n")[2].splitlines()[1:]

    # The guide also has the presets of guardrails that this version lacks.
    assert off(listed, r"  +").items() <= off(told, r"\|").items()
    assert off(listed, r"  +")["bare"] == "all of it"


def test_results_are_printed_and_written(results: Path, tmp_path: Path) -> None:
    assert typed("report", str(results), "--ablation", "all") == typed("report", str(results))
    assert typed("report", str(results), "--scenario", "basic_2step").startswith("no runs to report")
    page, text = tmp_path / "out" / "evals.html", tmp_path / "evals.md"

    said = typed("report", str(results), "--html", str(page), "--markdown", str(text))

    assert "large" not in said  # of which seven runs are missing
    assert f"wrote {page}" in said
    assert page.read_text().startswith("<!doctype html>")
    assert text.read_text().startswith("# Eval results")


@pytest.mark.parametrize("option", ["--markdown", "--html"])
def test_a_report_never_replaces_runs(option: str, results: Path, tmp_path: Path) -> None:
    other, same = tmp_path / "other.jsonl", tmp_path / "same.jsonl"
    other.write_bytes(results.read_bytes())
    same.symlink_to(results)

    for out in (results, same, other, tmp_path / "out" / ".." / results.name):
        before = results.read_bytes()
        with pytest.raises(ForgeError, match="choose another file for the report"):
            CliRunner().invoke(app, ["eval", "report", str(results), option, str(out)], catch_exceptions=False)
        assert results.read_bytes() == other.read_bytes() == before


def test_an_unreachable_server_leaves_files_unchanged(tmp_path: Path) -> None:
    new, mine = tmp_path / "evals.jsonl", tmp_path / "mine.json"
    mine.write_text('{"my": "json"}')

    for out, told in ((new, "127.0.0.1"), (mine, r"mine\.json, line 1: not a run of an eval")):
        words = ["eval", "run", "--backend-url", "http://127.0.0.1:1", "--out", str(out)]
        with pytest.raises(ForgeError, match=told):
            CliRunner().invoke(app, words, catch_exceptions=False)

    assert (new.exists(), mine.read_text()) == (False, '{"my": "json"}')


def test_partial_results_are_reported_on_request(results: Path) -> None:
    assert "large" in typed("report", str(results), "--include-partial")
    assert "7 to go" in typed("report", str(results), "--progress")
    assert typed("report", str(results), "--list-only", "--ablation", "bare").splitlines() == [
        "1. tiny, runner, bare",
        "   0 % (0–66) of 2",
    ]


def test_two_presets_are_compared(results: Path) -> None:
    said = typed("compare", "bare", "reforged", "--model", "tiny", "--results", str(results)).splitlines()

    assert said[0] == "A: tiny, runner, bare"
    assert said[-1].split()[:6] == ["all", "2", "0", "%", "100", "%"]


def test_the_results_file_comes_last_or_as_an_option(results: Path) -> None:
    named = typed("compare", "bare", "reforged", "--model", "tiny", "--results", str(results))

    assert typed("compare", "bare", "reforged", str(results), "--model", "tiny") == named


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["{file}", "bare", "reforged"], "FILE: no results file reforged; the order is: eval compare A B {file}"),
        (
            ["bare", "reforged", "{file}", "--results", "{file}"],
            "--results: FILE is set already ({file}); remove one",
        ),
        (["bare", "reforged", "nowhere.jsonl"], "nowhere.jsonl: "),
    ],
)
def test_a_misplaced_results_file_is_an_error(words: list[str], said: str, results: Path) -> None:
    with pytest.raises(ForgeError) as caught:
        typed("compare", *(word.format(file=results) for word in words))

    assert str(caught.value).startswith(said.format(file=results))


def test_two_files_are_compared(results: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    other.write_text(unfinished("reforged", run=1).model_dump_json() + "\n")

    said = typed("compare", str(results), str(other), "--model", "tiny", "--ablation", "reforged").splitlines()

    assert said[0] == f"A: tiny, runner, reforged, from {results}"
    assert said[-1].split()[:6] == ["all", "1", "100", "%", "0", "%"]


def test_configurations_that_differ_in_one_number_are_compared_by_key(tmp_path: Path) -> None:
    cold, warm = configuration(temperature=0.0), configuration(temperature=1.0)
    file = tmp_path / "evals.jsonl"
    runs = [record(config=cold), record(run=1, config=cold), unfinished(config=warm), record(run=1, config=warm)]
    file.write_text("".join(f"{run.model_dump_json()}\n" for run in runs))

    with pytest.raises(ForgeError, match="matches 2 configurations: ") as refused:
        typed("compare", "reforged", "bare", "--results", str(file))
    first, second = re.findall(r"([0-9a-f]{10}) \(", str(refused.value))

    said = typed("compare", first, second, "--results", str(file)).splitlines()
    assert f"{first} (tiny (temperature 0), runner, reforged)" in str(refused.value)
    assert "use its key instead of reforged" in str(refused.value)
    assert said[:2] == ["A: tiny (temperature 0), runner, reforged", "B: tiny (temperature 1), runner, reforged"]
    assert said[-1].split()[:6] == ["all", "2", "100", "%", "50", "%"]
    by_label = typed("compare", "tiny (temperature 0)", "tiny (temperature 1)", "--results", str(file))
    assert by_label.splitlines() == said


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["compare", "bare", "huge"], "B: no runs of 'huge'"),
        (["compare", "bare", "reforged"], "B: reforged matches 2 configurations: "),
        (["report", "nowhere.jsonl"], "nowhere.jsonl: No such file"),
        (["report", "--scenario", "basic_2stp"], "scenario: there is no 'basic_2stp'; did you mean basic_2step"),
        (["report", "--scenario", "oen"], "scenario: there is no 'oen'; did you mean one"),
        (["report", "--ablation", "bear"], "ablation: there is no 'bear'; did you mean bare?"),
        (["report", "--tags", "quik"], "tags: there is no 'quik'; did you mean quick"),
        (["report", "--surface", "poxy"], "surface: there is no 'poxy'; did you mean proxy"),
        (["report", "--model", "huge"], "model: there is no 'huge'; available: tiny, large"),
        (["compare", "bare", "reforged", "--scenario", "oen"], "scenario: there is no 'oen'; did you mean one"),
        (["run", "--scenario", "basic_2stp"], "scenario: there is no 'basic_2stp'; did you mean basic_2step"),
        (["run", "--quick", "--ablation", "bare"], "it sets these itself; remove --ablation"),
        (["run", "--quick", "--temperature", "0", "--probe"], "remove --temperature, --probe"),
        (["run", "--quick", "--ctx", "512", "--no-think"], "it sets these itself; remove --ctx, --no-think"),
        (["run", "--ablation", "bear"], "ablation: no preset 'bear'"),
        (["run", "--surface", "proxy", "--ablation", "no_steps"], "no_steps changes nothing on the surface proxy"),
    ],
)
def test_unknown_names_are_errors_with_suggestions(words: list[str], told: str, results: Path) -> None:
    beside = {"compare": ["--results", str(results)], "report": [str(results)]}.get(words[0], [])

    with pytest.raises(ForgeError, match=told):
        CliRunner().invoke(app, ["eval", *words, *beside], catch_exceptions=False)


def test_every_record_is_one_line_of_json(results: Path) -> None:
    lines = [json.loads(line) for line in results.read_text().splitlines()]

    assert {line["config"]["ablation"] for line in lines} == {"reforged", "bare"}
