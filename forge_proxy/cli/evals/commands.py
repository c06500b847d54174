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

SurfacesOption = Annotated[
    list[str] | None,
    typer.Option("--surface", help="The measured loop: runner (the daemon's) or proxy (a client's). Repeatable."),
]
ClientsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--client",
        help="The client on the proxy surface: scenario, text, terminal, reprompting or required. Repeatable.",
    ),
]
AblationsOption = Annotated[
    list[str] | None,
    typer.Option("--ablation", help="A preset (see 'forge-proxy eval list'), or all. Repeatable."),
]
ScenariosOption = Annotated[list[str] | None, typer.Option("--scenario", help="Only this scenario. Repeatable.")]
TagsOption = Annotated[list[str] | None, typer.Option("--tags", help="Only scenarios with this tag. Repeatable.")]
RunsOption = Annotated[int, typer.Option("--runs", min=1, help="Runs of each scenario under each preset.")]
ModelsOption = Annotated[list[str] | None, typer.Option("--model", help="Only this model. Repeatable.")]
StreamOption = Annotated[bool, typer.Option("--stream", help="Stream the responses.")]
ThinkOption = Annotated[
    bool | None, typer.Option("--think/--no-think", help="Switch reasoning on or off; otherwise the model decides.")
]
AnyToolOption = Annotated[
    bool,
    typer.Option("--any-tool", help="Require a tool call in each request (tool_choice: required)."),
]
CompactionOption = Annotated[
    Strategy, typer.Option("--compact-strategy", help="The strategy that compacts long histories.")
]
BudgetOption = Annotated[
    int | None, typer.Option("--budget", min=256, help="Tokens of context of a run, instead of the scenarios' own.")
]
SeedOption = Annotated[int, typer.Option("--seed", help="Seed of the first run; each later run has the next one.")]
TemperatureOption = Annotated[float | None, typer.Option("--temperature", min=0, help="Temperature of all requests.")]
MaxTokensOption = Annotated[int | None, typer.Option("--max-tokens", min=1, help="Maximum tokens of a response.")]
ParallelOption = Annotated[
    int | None,
    typer.Option("--parallel", min=1, help="Runs at a time; otherwise one for each slot of the model server."),
]
OutOption = Annotated[
    Path | None, typer.Option("--out", help=f"Results file; an existing one is continued ({DEFAULT_FILE}).")
]
VerboseOption = Annotated[bool, typer.Option("--verbose", help="Print each run on stderr, also on a terminal.")]
ListOnlyOption = Annotated[
    bool, typer.Option("--list-only", help="Print two short lines for each configuration instead of a table.")
]


IncludesOption = Annotated[
    bool, typer.Option("--include-partial", help="Include configurations whose runs are not complete.")
]


@evals.command()
def run(
    context: typer.Context,
    config: ConfigFile = None, backend: BackendKind = None, backend_url: BackendUrl = None, gguf: Gguf = None,
    model: Model = None, llama_server: LlamaServer = None, ctx: Context = None,
    surface: SurfacesOption = None, ablation: AblationsOption = None,
    scenario: ScenariosOption = None, tags: TagsOption = None,
    client: ClientsOption = None,
    runs: Annotated[
        int | None, typer.Option("--runs", min=1, help="Runs of each scenario under each preset (10; with --quick 25).")
    ] = None,
    stream: StreamOption = False, think: ThinkOption = None, compact_strategy: CompactionOption = "tiered",
    budget: BudgetOption = None, seed: SeedOption = 0,
    temperature: TemperatureOption = None, max_tokens: MaxTokensOption = None,
    any_tool: AnyToolOption = False,
    parallel: ParallelOption = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help=f"Results file; an existing one is continued ({DEFAULT_FILE}; none with --quick)."),
    ] = None,
    verbose: VerboseOption = False, list_only: ListOnlyOption = False,
    probe: Annotated[
        bool, typer.Option("--probe", help="Only print how much context the model has, and how many slots.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Compare bare and reforged on the embedded test model (three minutes).")
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
        surface, ablation, scenario, tags, clients=select_clients(client or ()), runs=runs or _RUNS,
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
    surface: SurfacesOption = None, ablation: AblationsOption = None,
    scenario: ScenariosOption = None, tags: TagsOption = None,
    runs: RunsOption = _RUNS, stream: StreamOption = False, compact_strategy: CompactionOption = "tiered",
    budget: BudgetOption = None, seed: SeedOption = 0,
    temperature: TemperatureOption = None, max_tokens: MaxTokensOption = None,
    parallel: ParallelOption = None, out: OutOption = None,
    verbose: VerboseOption = False, list_only: ListOnlyOption = False,
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
    list_only: ListOnlyOption = False, include_partial: IncludesOption = False,
    surface: SurfacesOption = None, ablation: AblationsOption = None,
    scenario: ScenariosOption = None, tags: TagsOption = None,
    model: ModelsOption = None,
    progress: Annotated[bool, typer.Option("--progress", help="Only print each configuration's progress.")] = False,
    html: Annotated[Path | None, typer.Option("--html", help="Write a self-contained HTML page.")] = None,
    markdown: Annotated[Path | None, typer.Option("--markdown", help="Write Markdown.")] = None,
    price: Annotated[
        str | None, typer.Option(metavar="INPUT/OUTPUT", help="Prices of a million tokens, such as 1/5.")
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
    surface: SurfacesOption = None, ablation: AblationsOption = None,
    scenario: ScenariosOption = None, tags: TagsOption = None,
    model: ModelsOption = None,
) -> None:  # fmt: skip
    """Compare two configurations run for run: differences with intervals, and McNemar's test."""
    from forge_proxy.cli.evals.formatting import presets_of, results_file, show_comparison
    from forge_proxy.evals.reports.lines import RunFilter

    where = results_file((first, second), file, results) or DEFAULT_FILE
    choice = RunFilter(presets_of(ablation), surface or (), model or (), scenario or (), tags or (), partial=True)
    show_comparison(first, second, where, choice)


@evals.command("list")
def list_scenarios(
    scenario: ScenariosOption = None, tags: TagsOption = None,
    list_only: Annotated[bool, typer.Option("--list-only", help="Print only the names of the scenarios.")] = False,
) -> None:  # fmt: skip
    """List the scenarios and the presets."""
    from forge_proxy.cli.evals.formatting import show_scenarios
    from forge_proxy.evals.scenarios import select_scenarios

    show_scenarios(select_scenarios(scenario or (), tags or ()), list_only=list_only)
