"""A small eval of the test model on a real llama.cpp by command: both surfaces, resumed, reported."""

from __future__ import annotations

from pathlib import Path

from forge_proxy.evals.results import read_results
from tests.fakes.processes import command

WORDS = (
    "eval", "run", "--backend", "embedded", "--scenario", "quick_two_step", "--scenario", "quick_no_tool",
    "--surface", "runner", "--surface", "proxy", "--ablation", "bare", "--ablation", "reforged",
    "--temperature", "1", "--max-tokens", "200",
)  # fmt: skip


def test_a_model_is_measured_on_both_surfaces_and_the_series_is_resumed(tmp_path: Path) -> None:
    file = str(tmp_path / "evals.jsonl")

    first = command(*WORDS, "--runs", "2", "--out", file)
    before = read_results([Path(file)])
    second = command(*WORDS, "--runs", "3", "--out", file)
    after = read_results([Path(file)])

    assert (first.code, second.code) == (0, 0), first.err + second.err
    assert (len(before), len(after)) == (2 * 2 * 2 * 2, 2 * 2 * 2 * 3)
    assert after[: len(before)] == before  # not repeated
    assert f"24 runs are in {file}" in second.out
    assert {(run.config.surface, run.config.ablation) for run in after} == {
        ("runner", "bare"), ("runner", "reforged"), ("proxy", "bare"), ("proxy", "reforged"),
    }  # fmt: skip
    assert all(run.iterations >= 1 and run.input_tokens for run in after)
    assert {run.config.model for run in after} == {"tiny-tools"}


def test_the_context_of_a_model_is_probed() -> None:
    said = command("eval", "run", "--backend", "embedded", "--probe")

    assert said.code == 0
    assert "2048 tokens" in said.out
    assert "tiny-tools" in said.out
