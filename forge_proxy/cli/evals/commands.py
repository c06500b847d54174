"""`forge-proxy eval`: run, batch, report, compare, list."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from forge_proxy.cli.options import (
    BackendKind,
    BackendUrl,
    ConfigFile,
    Context,
    Gguf,
    LlamaServer,
    Model,
    collect_overrides,
)
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.evals.record import Strategy

DEFAULT_FILE = Path("evals.jsonl")
_RUNS, _QUICK_RUNS = 10, 25
_WITH_QUICK = ("quick", "runs", "seed", "out", "verbose")
"""The options that `--quick` can be combined with."""

evals = typer.Typer(name="eval", no_args_is_help=True, help="Measure a model: with guardrails, and without.")

Surfaces = Annotated[
    list[str] | None,
    typer.Option("--surface", help="runner (the daemon's own loop) or proxy (a client's loop). Repeatable."),
]
Clients = Annotated[
    list[str] | None,
    typer.Option(
        "--client",
        help="The client on the proxy surface: scenario, text, terminal, reprompting or required. Repeatable.",
    ),
]
Ablations = Annotated[
    list[str] | None,
    typer.Option("--ablation", help="A preset (see 'forge-proxy eval list'), or all. Repeatable."),
]
Scenarios = Annotated[list[str] | None, typer.Option("--scenario", help="Only this scenario. Repeatable.")]
Tags = Annotated[list[str] | None, typer.Option("--tags", help="Only scenarios with this tag. Repeatable.")]
Runs = Annotated[int, typer.Option("--runs", min=1, help="Runs of each scenario under each preset.")]
Tasks = Annotated[int | None, typer.Option("--tasks", min=1, help="Only the first N of the selected scenarios.")]
Models = Annotated[list[str] | None, typer.Option("--model", help="Only this model. Repeatable.")]
Stream = Annotated[bool, typer.Option("--stream", help="Stream the responses.")]
Think = Annotated[
    bool | None, typer.Option("--think/--no-think", help="Switch reasoning on or off; otherwise the model decides.")
]
AnyTool = Annotated[
    bool,
    typer.Option("--any-tool", help="Require a tool call in each request (tool_choice: required)."),
]
Compaction = Annotated[Strategy, typer.Option("--compact-strategy", help="How long histories are compacted.")]
Budget = Annotated[
    int | None, typer.Option("--budget", min=256, help="Tokens of context of a run, instead of the scenarios' own.")
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the first run; each later run has the next one.")]
Temperature = Annotated[float | None, typer.Option("--temperature", min=0, help="Temperature of all requests.")]
MaxTokens = Annotated[int | None, typer.Option("--max-tokens", min=1, help="Maximum tokens of a response.")]
Parallel = Annotated[
    int | None,
    typer.Option("--parallel", min=1, help="Runs at a time; otherwise one for each slot of the model server."),
]
Out = Annotated[
    Path | None, typer.Option("--out", help=f"Results file; an existing one is continued ({DEFAULT_FILE}).")
]
Verbose = Annotated[bool, typer.Option("--verbose", help="Print each run on stderr, also on a terminal.")]
ListOnly = Annotated[
    bool, typer.Option("--list-only", help="Print two short lines for each configuration instead of a table.")
]


Includes = Annotated[
    bool, typer.Option("--include-partial", help="Include configurations whose runs are not complete.")
]


@evals.command()
def run(
    context: typer.Context,
    config: ConfigFile = None, backend: BackendKind = None, backend_url: BackendUrl = None, gguf: Gguf = None,
    model: Model = None, llama_server: LlamaServer = None, ctx: Context = None,
    surface: Surfaces = None, ablation: Ablations = None, scenario: Scenarios = None, tags: Tags = None,
    client: Clients = None, tasks: Tasks = None,
    runs: Annotated[
        int | None, typer.Option("--runs", min=1, help="Runs of each scenario under each preset (10; with --quick 25).")
    ] = None,
    stream: Stream = False, think: Think = None, compact_strategy: Compaction = "tiered",
    budget: Budget = None, seed: Seed = 0, temperature: Temperature = None, max_tokens: MaxTokens = None,
    any_tool: AnyTool = False,
    parallel: Parallel = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help=f"Results file; an existing one is continued ({DEFAULT_FILE}; none with --quick)."),
    ] = None,
    verbose: Verbose = False, list_only: ListOnly = False,
    probe: Annotated[
        bool, typer.Option("--probe", help="Only print how much context the model has, and how many slots.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="The embedded test model, bare and reforged, in under three minutes.")
    ] = False,
) -> None:  # fmt: skip
    """Run scenarios on one model. Runs that are already in the results file are not repeated."""
    from forge_proxy.cli.evals import run as running  # the help text needs no web server
    from forge_proxy.evals.clients import select_clients
    from forge_proxy.settings import load

    if quick:
        _reject_other_options(context)
        running.run_quick(out, runs=runs or _QUICK_RUNS, seed=seed, verbose=verbose)
        return
    overrides = collect_overrides(
        kind=backend, url=backend_url, gguf=gguf, model=model, llama_server=llama_server, context=ctx
    )
    evaluated = running.EvaluatedModel(running.with_thinking(load(config, overrides), think), think, any_tool)
    if probe:
        running.run_probe(evaluated.settings)
        return
    plan = running.build_plan(
        surface, ablation, scenario, tags, tasks, clients=select_clients(client or ()), runs=runs or _RUNS,
        stream=stream, temperature=temperature, seed=seed, max_tokens=max_tokens, strategy=compact_strategy,
        budget=budget, parallel=parallel, verbose=verbose,
    )  # fmt: skip
    running.run_all([evaluated], plan, out or DEFAULT_FILE, list_only=list_only)


def _reject_other_options(context: typer.Context) -> None:
    """Raise `InvalidRequest` for options that `--quick` sets itself."""
    given = [
        (option.secondary_opts if context.params[name] is False else option.opts)[0]
        for option in context.command.params
        if (name := option.name or "") in context.params
        and name not in _WITH_QUICK
        and (source := context.get_parameter_source(name)) is not None
        and source.name != "DEFAULT"
    ]
    if given:
        raise InvalidRequest("--quick", f"it sets these itself; remove {', '.join(given)}")


@evals.command()
def batch(
    names: Annotated[list[str], typer.Argument(help="Configurations, built in or of --config.")],
    config: Annotated[Path | None, typer.Option("--config", help="YAML file with configurations under evals.")] = None,
    models: Annotated[Path | None, typer.Option("--models", help="Folder with GGUF files, served in turn.")] = None,
    surface: Surfaces = None, ablation: Ablations = None, scenario: Scenarios = None, tags: Tags = None,
    runs: Runs = _RUNS, stream: Stream = False, compact_strategy: Compaction = "tiered",
    budget: Budget = None, seed: Seed = 0, temperature: Temperature = None, max_tokens: MaxTokens = None,
    parallel: Parallel = None, out: Out = None, verbose: Verbose = False, list_only: ListOnly = False,
) -> None:  # fmt: skip
    """Run scenarios on one model after the other.

    Built in: all, ollama, llamaserver, llamaserver-native, llamaserver-prompt, llamafile, anthropic, anthropic-any,
    haiku, sonnet, opus, haiku-any, sonnet-any, opus-any.
    """
    from forge_proxy.cli.evals import batch as batches  # the help text needs no web server
    from forge_proxy.cli.evals import run as running

    evaluated = batches.find_models(names, batches.read_batch(config), models)
    plan = running.build_plan(
        surface, ablation, scenario, tags, runs=runs, stream=stream, temperature=temperature, seed=seed,
        max_tokens=max_tokens, strategy=compact_strategy, budget=budget, parallel=parallel, verbose=verbose,
    )  # fmt: skip
    running.run_all(evaluated, plan, out or DEFAULT_FILE, list_only=list_only)


@evals.command()
def report(
    files: Annotated[list[Path] | None, typer.Argument(help=f"Results files ({DEFAULT_FILE}).")] = None,
    list_only: ListOnly = False, include_partial: Includes = False,
    surface: Surfaces = None, ablation: Ablations = None, scenario: Scenarios = None, tags: Tags = None,
    model: Models = None,
    progress: Annotated[bool, typer.Option("--progress", help="Only print each configuration's progress.")] = False,
    html: Annotated[Path | None, typer.Option("--html", help="Write a self-contained HTML page.")] = None,
    markdown: Annotated[Path | None, typer.Option("--markdown", help="Write Markdown.")] = None,
    price: Annotated[
        str | None, typer.Option(metavar="READ/WRITTEN", help="Price of a million input and output tokens: 1/5.")
    ] = None,
) -> None:  # fmt: skip
    """Print results, and write them as HTML or Markdown."""
    from forge_proxy.cli.evals.formatting import check_choice, check_outputs, presets_of, show_report, write_report
    from forge_proxy.evals.metrics import Price
    from forge_proxy.evals.reports.lines import RunFilter, build_lines
    from forge_proxy.evals.results import read_results

    try:
        priced = Price.parse(price) if price is not None else None
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--price") from error
    choice = RunFilter(
        presets_of(ablation),
        surface or (),
        model or (),
        scenario or (),
        tags or (),
        include_partial or progress,
        priced,
    )
    files = files or [DEFAULT_FILE]
    check_outputs(files, (html, markdown))
    records = read_results(files)
    check_choice(choice, records)
    lines = build_lines(records, choice)
    show_report(lines, list_only=list_only, progress=progress)
    write_report(lines, html, markdown)


@evals.command()
def compare(
    first: Annotated[str, typer.Argument(metavar="A", help="A preset, model, surface or key; or a results file.")],
    second: Annotated[str, typer.Argument(metavar="B", help="The same.")],
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help=f"The results file that has the presets or models ({DEFAULT_FILE})."),
    ] = None,
    results: Annotated[Path | None, typer.Option("--results", help="The same as FILE.")] = None,
    surface: Surfaces = None, ablation: Ablations = None, scenario: Scenarios = None, tags: Tags = None,
    model: Models = None,
) -> None:  # fmt: skip
    """Compare two configurations run for run: differences with intervals, and McNemar's test."""
    from forge_proxy.cli.evals.formatting import presets_of, results_file, show_comparison
    from forge_proxy.evals.reports.lines import RunFilter

    where = results_file((first, second), file, results) or DEFAULT_FILE
    choice = RunFilter(presets_of(ablation), surface or (), model or (), scenario or (), tags or (), partial=True)
    show_comparison(first, second, where, choice)


@evals.command("list")
def list_scenarios(
    scenario: Scenarios = None, tags: Tags = None,
    list_only: Annotated[bool, typer.Option("--list-only", help="Only the names of the scenarios.")] = False,
) -> None:  # fmt: skip
    """List the scenarios and the presets."""
    from forge_proxy.cli.evals.formatting import show_scenarios
    from forge_proxy.evals.scenarios import select_scenarios

    show_scenarios(select_scenarios(scenario or (), tags or ()), list_only=list_only)
