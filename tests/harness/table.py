"""The table as Markdown, and the document that holds it."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence

import forge_proxy
from tests.harness.cell import SECONDS
from tests.harness.packages import NODE
from tests.harness.results import Results

_HEAD = """\
# Real clients, mistaken models

What `make harness` found with forge-proxy {version}, Python {python} and {node}; run {dates}.
Written by `make harness ARGS="--write docs/harness.md"`.

Each client from PyPI or npm does one task by itself: read a file and write another with its own tools, and say that it
is done (aider, which offers no tools, edits one file; instructor makes two extractions). The task is done when its
effects are there: the file, both results in what the model was sent, the answer on the screen. The bare SDKs run in the
plain loop of their documentation, which stops at a call it cannot run. The model is scripted. In its first answer at
each point of the conversation, the last one included, it makes the mistake that heads the column:

- `none`: no mistake; where the proxy offers its tool for answers in words, the last answer takes it. `plain answer`: no
  mistake either; the last answer is plain text, also when it is asked for again.
- `text`: it says what it will do in place of the call. `markup`: it writes the call as text, each time in another form.
- `unknown name`, `wrong type`, `no arguments`: it calls so. `broken JSON`: arguments or markup that cannot be mended.
- `repeated id`: every answer numbers its calls from the same id on, as some servers do.
- `empty`: it says nothing. `500`: the server fails.

Asked once more, whatever it is told, it does the right thing: this shows what clients and proxy do about mistakes, not
how well models take correction. Each cell is *without the proxy* → *through it*:

- `done`: the task was done.
- `silent`: it was not, and the client ended without an error, as if it were.
- `error`: it was not, and the client ended with an error.
- `hangs`: the client was not at its end after {seconds:.0f} seconds.
- `–`: the client gives no occasion for the mistake. An empty cell was not run.

Versions: {versions}.

"""


def render(clients: Sequence[str], mistakes: Sequence[str], results: Results, absent: Mapping[str, str]) -> str:
    """The table. `absent` has the reasons of those that could not be installed; what was not run is left empty."""
    lines = [_row(["client", *mistakes]), _row(["---"] * (1 + len(mistakes)))]
    for client in clients:
        if client in absent:
            fields = ["not installed", *[""] * (len(mistakes) - 1)]
        else:
            fields = [str(results.get((client, mistake), "")) for mistake in mistakes]
        lines.append(_row([client, *fields]))
    return "\n".join(lines)


def document(clients: Sequence[str], mistakes: Sequence[str], results: Results, absent: Mapping[str, str]) -> str:
    """What is written to a file: what was run when, the table, what it adds up to, and what did not go well."""
    cells = [results[client, mistake] for client in clients for mistake in mistakes if (client, mistake) in results]
    dates = sorted({cell.date for cell in cells})
    head = _HEAD.format(
        version=forge_proxy.__version__,
        python=platform.python_version(),
        node=NODE.version(),
        dates=f"on {dates[0]}" if len(dates) == 1 else f"between {dates[0]} and {dates[-1]}",
        versions=", ".join(dict.fromkeys(cell.version for cell in cells)),
        seconds=SECONDS,
    )
    occasions = [cell for cell in cells if str(cell) != "–"]
    direct = sum(cell.direct == "done" for cell in occasions)
    guarded = sum(cell.guarded == "done" for cell in occasions)
    lines = ["", "", f"Of {len(occasions)} tasks, {direct} were done without the proxy and {guarded} through it."]
    not_done = [cell for cell in occasions if cell.guarded != "done"]
    lines += ["", *(f"- {cell.client}, {cell.mistake}, through the proxy: {cell.lacks}." for cell in not_done)]
    lines += [f"- {client} could not be installed: {why}." for client, why in absent.items()]
    return head + render(clients, mistakes, results, absent) + "\n".join(lines).rstrip() + "\n"


def _row(fields: Sequence[str]) -> str:
    return f"| {' | '.join(fields)} |"
