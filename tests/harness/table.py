"""The results as Markdown tables, and the document that contains them."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence

import forge_proxy
from tests.harness.cell import LONGER, NOT_SERVED, SECONDS
from tests.harness.fault import Fault
from tests.harness.faults import FAULTS, GROUPS
from tests.harness.results import Result, Results

_HEAD = """\
# Real clients, mistaken models

What `make harness` found with forge-proxy {version} (commit {commits}), Python {python} and {node}; run
{dates}. Written by `make harness ARGS="--write docs/harness.md"`.

Each client from PyPI or npm does one task by itself: read a file and write another with its own tools, and say that it
is done (aider, which offers no tools, edits one file; instructor makes two extractions; mini-swe-agent has only a
shell). The task is done when its effects are there: the file, both results in what the model was sent, the answer on
the screen. The bare SDKs run in the plain loop of their documentation, which stops at a call it cannot run. The model
and its server are scripted. The first answer at each point of the conversation, the last one included, has the fault
that heads the column; some faults are habits of a server and are in every answer.

When it is retried with any correction, the model does the right thing: this shows what clients and proxy do about
faults, not how well models take correction. Each cell is *without the proxy* → *through it*:

- `done`: the task was done.
- `silent`: it was not, and the client ended without an error, as if it were.
- `error`: it was not, and the client ended with an error.
- `hangs`: the client had not ended after {seconds:.0f} seconds.
- `not served`: not tried without the proxy, since the scripted server speaks chat completions only (Codex and Claude
  Code speak other APIs).
- *Worse* is done → not done, error → silent, an end → hangs, and {longer:.0f} seconds more than without the proxy.
- `–`: the client gives no occasion for the mistake. An empty cell was not run.

Versions: {versions}.

"""


def render_groups(clients: Sequence[str], faults: Iterable[Fault], results: Results, absent: Mapping[str, str]) -> str:
    """Return a table for each group that has some of these faults."""
    names = [fault.name for fault in faults]
    tables = {group: [fault.name for fault in of_group if fault.name in names] for group, of_group in GROUPS.items()}
    return "\n\n".join(
        f"## {group.capitalize()}\n\n{render(clients, columns, results, absent)}"
        for group, columns in tables.items()
        if columns
    )


def list_worse(results: Iterable[Result]) -> str:
    """Return the cells that were worse through the daemon."""
    worse = [result for result in results if result.worse]
    lines = [f"- {cell.client}, {cell.mistake}: {cell.worse}; {cell.lacks or 'done'}." for cell in worse]
    return "\n".join(
        ["Worse than without the proxy:", "", *lines, ""] if worse else ["Worse than without the proxy: none."]
    )


def render(clients: Sequence[str], mistakes: Sequence[str], results: Results, absent: Mapping[str, str]) -> str:
    """Return the table. `absent` has the reasons of clients that could not be installed; cells that were not run are
    empty.
    """
    lines = [_row(["client", *mistakes]), _row(["---"] * (1 + len(mistakes)))]
    for client in clients:
        if not any(FAULTS[mistake].concerns(client) for mistake in mistakes):
            continue
        if client in absent:
            fields = ["not installed", *[""] * (len(mistakes) - 1)]
        else:
            fields = [str(results.get((client, mistake), "")) for mistake in mistakes]
        lines.append(_row([client, *fields]))
    return "\n".join(lines)


def document(clients: Sequence[str], results: Results, absent: Mapping[str, str], node: str) -> str:
    """Return the document: what was run and when, the tables, their totals, and the failures."""
    cells = [results[client, fault] for client in clients for fault in FAULTS if (client, fault) in results]
    dates = sorted({cell.date for cell in cells})
    head = _HEAD.format(
        version=forge_proxy.__version__,
        commits=", ".join(sorted({cell.commit for cell in cells if cell.commit})) or "unknown",
        python=platform.python_version(),
        node=node,
        dates=f"on {dates[0]}" if len(dates) == 1 else f"between {dates[0]} and {dates[-1]}",
        versions=", ".join(dict.fromkeys(cell.version for cell in cells)),
        seconds=SECONDS,
        longer=LONGER,
    )
    occasions = [cell for cell in cells if str(cell) != "–"]
    sums = _sums(occasions)
    not_done = [cell for cell in occasions if cell.guarded != "done"]
    lines = [f"- {cell.client}, {cell.mistake}: {cell}; {cell.lacks}." for cell in not_done]
    lines += [f"- {client} could not be installed: {why}." for client, why in absent.items()]
    ends = ["## Not done through the proxy", "", *lines] if lines else []
    sections = _sections(clients, results, absent)
    return "\n".join([f"{head}{sums}", "", list_worse(cells).rstrip(), "", *sections, *ends]).rstrip() + "\n"


def _sums(cells: Sequence[Result]) -> str:
    """Return how many tasks were done; those that were not tried without the proxy are counted apart."""
    both = [cell for cell in cells if cell.direct != NOT_SERVED]
    direct, guarded = sum(cell.direct == "done" for cell in both), sum(cell.guarded == "done" for cell in both)
    only = [cell for cell in cells if cell.direct == NOT_SERVED]
    apart = f" Of {len(only)} tasks by other APIs, {sum(cell.guarded == 'done' for cell in only)} were done through it."
    return (
        f"Of {len(both)} tasks, {direct} were done without the proxy and {guarded} through it.{apart if only else ''}"
    )


def _sections(clients: Sequence[str], results: Results, absent: Mapping[str, str]) -> list[str]:
    """Return the description and the table of each group of faults."""
    lines: list[str] = []
    for group, faults in GROUPS.items():
        lines += [f"## {group.capitalize()}", "", *(f"- `{fault.name}`: {fault.sentence}." for fault in faults)]
        lines += ["", render(clients, [fault.name for fault in faults], results, absent), ""]
    return lines


def _row(fields: Sequence[str]) -> str:
    return f"| {' | '.join(fields)} |"
