"""`forge-proxy eval run`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

import typer
from typing_extensions import Unpack

from forge_proxy.api.config import ServerConfig
from forge_proxy.backends.config import BackendConfig
from forge_proxy.cli.evals.run_all import EvalOptions, EvalPlan, EvalResults, EvaluatedModel, run_models
from forge_proxy.cli.evals.session import open_session
from forge_proxy.cli.formatting import show_rows
from forge_proxy.core.budget import BudgetPolicy
from forge_proxy.core.guardrails import GuardPolicy
from forge_proxy.core.rates import PairedRuns
from forge_proxy.core.sampling import SamplingPolicy
from forge_proxy.evals.ablation import select_presets, select_surfaces
from forge_proxy.evals.record import RunRecord
from forge_proxy.evals.reports.lines import build_lines
from forge_proxy.evals.reports.table import list_report, text_report
from forge_proxy.evals.results import ResultsFile
from forge_proxy.evals.scenarios import ALL, select_scenarios
from forge_proxy.settings import Settings
from forge_proxy.telemetry.config import LogConfig

_QUICK_SECONDS = 150.0
"""Seconds after which no further run starts, so that slow machines stay within the promised three minutes."""
_QUICK_TOKENS = 200


def with_thinking(settings: Settings, think: bool | None) -> Settings:
    """Return the settings with reasoning switched on or off; unchanged for None."""
    if think is None:
        return settings
    word = "on" if think else "off"
    backend = settings.backend
    changed = {
        "llama_cpp": backend.llama_cpp.model_copy(update={"think": word}),
        "ollama": backend.ollama.model_copy(update={"think": word}),
    }
    return settings.model_copy(update={"backend": backend.model_copy(update=changed)})


def build_plan(
    surfaces: Sequence[str] | None,
    ablations: Sequence[str] | None,
    scenarios: Sequence[str] | None,
    tags: Sequence[str] | None,
    **how: Unpack[EvalOptions],
) -> EvalPlan:
    """Build the plan of the command-line options. Raises `InvalidRequest`."""
    cells = select_presets(ablations or ["reforged"], select_surfaces(surfaces or ["runner"]))
    return EvalPlan(cells, select_scenarios(scenarios or (), tags or ()), **how)


def run_all(models: Sequence[EvaluatedModel], plan: EvalPlan, out: Path, *, list_only: bool) -> None:
    """Run the plan and print the results. Raises `ForgeError`, and `Exit` if a model failed."""
    made = _make(models, plan, out)
    lines = build_lines(made.records)
    print(list_report(lines) if list_only else text_report(lines))
    if made.records:
        print(f"\n{len(made.records)} runs are in {out}")
    for name, fault in made.failed.items():
        print(f"forge-proxy: {name}: {fault}", file=sys.stderr)
    if made.failed:
        raise typer.Exit(1)


def _make(models: Sequence[EvaluatedModel], plan: EvalPlan, out: Path | None) -> EvalResults:
    """Run the plan, and store the runs in a file if `out` is set. Raises `ForgeError`, and `Exit` after Ctrl-C."""
    file = ResultsFile(out) if out else None
    try:
        return asyncio.run(run_models(models, plan, file))
    except KeyboardInterrupt:
        kept = f"the finished runs are in {out}; the same command continues" if out else "no run was saved"
        print(f"stopped: {kept}", file=sys.stderr)
        raise typer.Exit(130) from None
    finally:
        if file is not None:
            file.close()


def run_probe(settings: Settings) -> None:
    """Print the context window and the slots of the model."""

    async def look() -> list[tuple[str, str]]:
        async with open_session(settings, ()) as session:
            tokens = "not reported" if session.window is None else f"{session.window} tokens"
            return [
                ("backend", session.kind),
                ("model", session.model),
                ("context", f"{tokens} ({session.reason})"),
                ("slots", "not reported" if session.slots is None else str(session.slots)),
            ]

    show_rows(asyncio.run(look()))


def quick_settings() -> Settings:
    """Return settings for the embedded test model. The environment is not read: it is meant for the daemon."""
    return Settings.model_construct(
        server=ServerConfig(),
        backend=BackendConfig(kind="embedded"),
        models={},
        budget=BudgetPolicy(),
        sampling=SamplingPolicy(),
        guardrails=GuardPolicy(),
        log=LogConfig(),
    )


def quick_plan(runs: int, *, seed: int = 0, verbose: bool = False) -> EvalPlan:
    """Return a plan of the quick scenarios with both presets on both surfaces, the proxy with two kinds of client."""
    return EvalPlan(
        select_presets(["bare", "reforged"], ["runner", "proxy"]),
        [scenario for scenario in ALL if scenario.quick],
        runs,
        clients=("text", "terminal"),
        temperature=1.0,
        seed=seed,
        max_tokens=_QUICK_TOKENS,
        seconds=_QUICK_SECONDS,
        verbose=verbose,
    )


def run_quick(out: Path | None, *, runs: int, seed: int, verbose: bool) -> None:
    """Measure the test model with and without guardrails, and print the difference. Raises `ForgeError`."""
    made = _make([EvaluatedModel(quick_settings())], quick_plan(runs, seed=seed, verbose=verbose), out)
    print(text_report(build_lines(made.records)))
    print()
    for surface, client in (("runner", "scenario"), ("proxy", "text"), ("proxy", "terminal")):
        chosen = [one for one in made.records if (one.config.surface, one.config.client) == (surface, client)]
        print(_describe_effect(surface if client == "scenario" else f"{surface}, {client} client", chosen))
    if out is None:
        print("\nThe runs were not saved; --out FILE saves them for eval report and eval compare.")


def _describe_effect(surface: str, records: Sequence[RunRecord]) -> str:
    """Return a sentence about the effect of the guardrails."""
    right = {(record.config.ablation, record.scenario, record.run): record.is_correct for record in records}
    pairs = PairedRuns.count(
        (right["bare", name, run], right["reforged", name, run])
        for preset, name, run in right
        if preset == "bare" and ("reforged", name, run) in right
    )
    interval = pairs.interval
    if pairs.difference is None or interval is None:
        return f"{surface}: no runs"
    return (
        f"{surface}: guardrails change the score by {100 * pairs.difference:+.0f} points "
        f"({100 * interval.low:+.0f} to {100 * interval.high:+.0f}, 95 %). Of {pairs.total} runs made both ways "
        f"with the same seed, {pairs.second} succeed only with them, {pairs.first} only without "
        f"(McNemar p = {pairs.p:.2g})."
    )
