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
from forge_proxy.cli.evals.run_all import EvalOptions, EvalPlan, EvalResults, EvaluatedModel, make_all
from forge_proxy.cli.evals.session import opened
from forge_proxy.cli.formatting import show_rows
from forge_proxy.core.budget import BudgetPolicy
from forge_proxy.core.guardrails import GuardPolicy
from forge_proxy.core.sampling import SamplingPolicy
from forge_proxy.evals.ablation import SURFACES, select_presets, select_surfaces
from forge_proxy.evals.rates import PairedRuns
from forge_proxy.evals.record import RunRecord
from forge_proxy.evals.reports.lines import build_lines
from forge_proxy.evals.reports.table import list_report, text_report
from forge_proxy.evals.results import ResultsFile
from forge_proxy.evals.scenarios import ALL, select_scenarios
from forge_proxy.settings import Settings
from forge_proxy.telemetry.config import LogConfig

_QUICK_SECONDS = 150.0
"""After which no more run is begun, on a machine that is slower than ours: three minutes are what was promised."""
_QUICK_TOKENS = 200


def thinking(settings: Settings, think: bool | None) -> Settings:
    """The settings, with thinking on or off where that is said."""
    if think is None:
        return settings
    word = "on" if think else "off"
    backend = settings.backend
    changed = {
        "llama_cpp": backend.llama_cpp.model_copy(update={"think": word}),
        "ollama": backend.ollama.model_copy(update={"think": word}),
    }
    return settings.model_copy(update={"backend": backend.model_copy(update=changed)})


def wish_of(
    surfaces: Sequence[str] | None,
    ablations: Sequence[str] | None,
    scenarios: Sequence[str] | None,
    tags: Sequence[str] | None,
    **how: Unpack[EvalOptions],
) -> EvalPlan:
    """What the options ask for. Raises `InvalidRequest`."""
    cells = select_presets(ablations or ["reforged"], select_surfaces(surfaces or ["runner"]))
    return EvalPlan(cells, select_scenarios(scenarios or (), tags or ()), **how)


def run_all(subjects: Sequence[EvaluatedModel], wish: EvalPlan, out: Path, *, list_only: bool) -> None:
    """Make the runs, and print what came of them. Raises `ForgeError`, and `Exit` where not all could be made."""
    made = _make(subjects, wish, out)
    lines = build_lines(made.records)
    print(list_report(lines) if list_only else text_report(lines))
    if made.records:
        print(f"\n{len(made.records)} runs are in {out}")
    for name, fault in made.failed.items():
        print(f"forge-proxy: {name}: {fault}", file=sys.stderr)
    if made.failed:
        raise typer.Exit(1)


def _make(subjects: Sequence[EvaluatedModel], wish: EvalPlan, out: Path | None) -> EvalResults:
    """Make the runs, kept in a file where one is named. Raises `ForgeError`, and `Exit` once Ctrl-C was pressed."""
    file = ResultsFile(out) if out else None
    try:
        return asyncio.run(make_all(subjects, wish, file))
    except KeyboardInterrupt:
        kept = f"what was run is in {out}, and the same command goes on from there" if out else "nothing was kept"
        print(f"stopped: {kept}", file=sys.stderr)
        raise typer.Exit(130) from None
    finally:
        if file is not None:
            file.close()


def run_probe(settings: Settings) -> None:
    """Print how much context the model has."""

    async def look() -> list[tuple[str, str]]:
        async with opened(settings, ()) as there:
            tokens = "not told" if there.window is None else f"{there.window} tokens"
            return [
                ("backend", there.kind),
                ("model", there.model),
                ("context", f"{tokens} ({there.because})"),
                ("slots", "not told" if there.slots is None else str(there.slots)),
            ]

    show_rows(asyncio.run(look()))


def quick_settings() -> Settings:
    """The embedded test model. Made in full: what the environment says is meant for the user's own daemon."""
    return Settings.model_construct(
        server=ServerConfig(),
        backend=BackendConfig(kind="embedded"),
        models={},
        budget=BudgetPolicy(),
        sampling=SamplingPolicy(),
        guardrails=GuardPolicy(),
        log=LogConfig(),
    )


def quick_wish(runs: int, *, seed: int = 0, verbose: bool = False) -> EvalPlan:
    """Bare and reforged, on both surfaces, in the scenarios that the test model understands."""
    return EvalPlan(
        select_presets(["bare", "reforged"], ["runner", "proxy"]),
        [scenario for scenario in ALL if scenario.quick],
        runs,
        temperature=1.0,
        seed=seed,
        max_tokens=_QUICK_TOKENS,
        seconds=_QUICK_SECONDS,
        verbose=verbose,
    )


def run_quick(out: Path | None, *, runs: int, seed: int, verbose: bool) -> None:
    """Measure the test model bare and reforged, and print what that shows. Raises `ForgeError`."""
    made = _make([EvaluatedModel(quick_settings())], quick_wish(runs, seed=seed, verbose=verbose), out)
    print(text_report(build_lines(made.records)))
    print()
    for surface in SURFACES:
        print(_in_words(surface, [record for record in made.records if record.config.surface == surface]))
    if out is None:
        print("\nThe runs were not kept; --out FILE keeps them, for eval report and eval compare.")


def _in_words(surface: str, records: Sequence[RunRecord]) -> str:
    """What the guardrails are worth."""
    right = {(one.config.ablation, one.scenario, one.run): one.is_correct for one in records}
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
