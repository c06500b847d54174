"""Records of runs that never were."""

from __future__ import annotations

from typing import Any

from forge_proxy.evals.record import EvalConfiguration, RunRecord


def configuration(ablation: str = "reforged", **fields: Any) -> EvalConfiguration:
    """A configuration."""
    usual: dict[str, Any] = {"model": "tiny", "backend": "embedded", "ablation": ablation}
    return EvalConfiguration(**{**usual, **fields})


def record(ablation: str = "reforged", scenario: str = "one", run: int = 0, **fields: Any) -> RunRecord:
    """Return the record of a correct run with some fields changed."""
    usual: dict[str, Any] = {
        "config": configuration(ablation),
        "scenario": scenario,
        "run": run,
        "planned": 2,
        "seed": run,
        "completeness": True,
        "accuracy": True,
        "iterations": 2,
        "ideal": 2,
        "seconds": 0.5,
    }
    return RunRecord(**{**usual, **fields})


def unfinished(ablation: str = "reforged", scenario: str = "one", run: int = 0, **fields: Any) -> RunRecord:
    """A run that came to no terminal tool."""
    return record(ablation, scenario, run, completeness=False, accuracy=None, error="ToolCallError", **fields)
