"""`forge-proxy batches`: files of requests that a running daemon processes in the background."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from forge_proxy.cli.admin import AsJson, CommandOptions, OwnKey, OwnUrl, inherit_options, list_by_default
from forge_proxy.cli.batch_files import digest_of, read_endpoint, save
from forge_proxy.cli.batch_progress import batch_rows, describe_counts, watch_batch
from forge_proxy.cli.formatting import show, show_rows
from forge_proxy.cli.run_rows import describe_time
from forge_proxy.core.errors import ForgeError

_ROUTE = "/v1/batches"
_DIGEST = "file_sha256"
"""The metadata by which `run` finds the batch of a file again."""
_RESUMABLE = ("validating", "in_progress", "finalizing", "completed")

batches = typer.Typer(
    name="batches",
    help="Files of requests that the daemon processes in the background: run, submit, list, show, cancel, output.",
)
BatchId = Annotated[
    str, typer.Argument(metavar="ID", help="The batch, as 'batches submit' and 'batches list' print it.")
]
InputFile = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="JSON Lines: custom_id, method, url and body of each request."),
]
Window = Annotated[
    str, typer.Option("--window", help="Time after which unfinished lines expire: 24h, or another from 1h to 7d.")
]


class BatchDidNotComplete(ForgeError):
    """The watched batch did not complete, or some of its lines failed."""


list_by_default(batches, lambda options: _list(options, 20))


@batches.command()
def run(
    context: typer.Context,
    file: InputFile,
    out: Annotated[
        Path | None, typer.Option("--out", help="File for the responses. Default: FILE with the suffix .out.jsonl.")
    ] = None,
    new: Annotated[bool, typer.Option("--new", help="Submit the file even if a batch of it exists.")] = False,
    window: Window = "24h",
    url: OwnUrl = None,
    key: OwnKey = None,
    json: AsJson = False,
) -> None:
    """Submit a file, show the progress, and download the responses. The same command resumes after Ctrl-C.

    Errors are written beside the responses, with .errors in the name. Exit code 1 if a line failed.
    """
    options = inherit_options(context, url, key, json)
    out = out or file.with_suffix(".out.jsonl")
    batch = None if new else _find(options, file)
    if batch is None:
        batch = _submit(options, file, window)
        print(f"forge-proxy: submitted {batch['id']}", file=sys.stderr)
    else:
        print(f"forge-proxy: resumed {batch['id']}; --new submits the file again", file=sys.stderr)
    try:
        batch = watch_batch(options.remote, batch["id"])
    except KeyboardInterrupt:
        again = f"'forge-proxy batches run {file}' shows it again, 'forge-proxy batches cancel {batch['id']}' ends it"
        print(f"\nforge-proxy: the batch continues; {again}", file=sys.stderr)
        raise typer.Exit(130) from None
    _download(options, batch, out)
    if options.as_json:
        show(batch, as_json=True)
    _report(batch, out)


@batches.command()
def submit(
    context: typer.Context,
    file: InputFile,
    window: Window = "24h",
    url: OwnUrl = None,
    key: OwnKey = None,
    json: AsJson = False,
) -> None:
    """Submit a file and print the id of its batch, which the daemon processes in the background."""
    options = inherit_options(context, url, key, json)
    batch = _submit(options, file, window)
    show(batch, as_json=True) if options.as_json else print(batch["id"])


@batches.command("list")
def list_batches(
    context: typer.Context,
    limit: Annotated[int, typer.Option("--limit", "-n", help="The number of batches.")] = 20,
    url: OwnUrl = None,
    key: OwnKey = None,
    json: AsJson = False,
) -> None:
    """List the batches, newest first."""
    _list(inherit_options(context, url, key, json), limit)


@batches.command("show")
def show_batch(
    context: typer.Context, batch_id: BatchId, url: OwnUrl = None, key: OwnKey = None, json: AsJson = False
) -> None:
    """Show a batch: its status, counts, rate and remaining time, and the errors in its file."""
    options = inherit_options(context, url, key, json)
    batch = options.remote.ask("GET", _path(batch_id))
    show(batch, as_json=True) if options.as_json else show_rows(batch_rows(batch))


@batches.command()
def cancel(
    context: typer.Context, batch_id: BatchId, url: OwnUrl = None, key: OwnKey = None, json: AsJson = False
) -> None:
    """Cancel a batch. Lines in flight finish, and the results of finished lines are delivered."""
    options = inherit_options(context, url, key, json)
    batch = options.remote.ask("POST", f"{_path(batch_id)}/cancel")
    show(batch, as_json=True) if options.as_json else print(batch["status"])


@batches.command()
def output(
    context: typer.Context,
    batch_id: BatchId,
    out: Annotated[Path | None, typer.Option("--out", help="The file to write. Default: stdout.")] = None,
    errors: Annotated[bool, typer.Option("--errors", help="Print the errors instead of the responses.")] = False,
    url: OwnUrl = None,
    key: OwnKey = None,
) -> None:
    """Print or save the responses of a batch that has ended."""
    options = inherit_options(context, url, key, False)
    batch = options.remote.ask("GET", _path(batch_id))
    file_id = batch["error_file_id" if errors else "output_file_id"]
    if file_id is None:
        raise BatchDidNotComplete(f"the batch is {batch['status']} and has no {'errors' if errors else 'responses'}")
    content = f"/v1/files/{file_id}/content"
    pieces = options.remote.download(content)
    if out is not None:
        save(pieces, out)
        return
    for piece in pieces:
        sys.stdout.buffer.write(piece)


def _list(options: CommandOptions, limit: int) -> None:
    response = options.remote.ask("GET", _ROUTE, None, {"limit": limit})
    if options.as_json:
        show(response, as_json=True)
        return
    if not response["data"]:
        print("no batches", file=sys.stderr)
    show_rows([
        (batch["id"], f"{batch['status']:<12}{describe_time(batch['created_at'])}  {describe_counts(batch)}")
        for batch in response["data"]
    ])  # fmt: skip


def _submit(options: CommandOptions, file: Path, window: str) -> dict[str, Any]:
    endpoint = read_endpoint(file)
    uploaded = options.remote.upload("/v1/files", file, {"purpose": "batch"})
    body = {
        "input_file_id": uploaded["id"],
        "endpoint": endpoint,
        "completion_window": window,
        "metadata": {_DIGEST: digest_of(file)},
    }
    return options.remote.ask("POST", _ROUTE, body)


def _find(options: CommandOptions, file: Path) -> dict[str, Any] | None:
    """Return the latest batch of the same file that may still deliver its responses."""
    endpoint, digest = read_endpoint(file), digest_of(file)
    query: dict[str, Any] = {"limit": 100}
    while True:
        page = options.remote.ask("GET", _ROUTE, None, query)
        for batch in page["data"]:
            metadata: dict[str, str] = batch["metadata"] or {}
            is_same = batch["endpoint"] == endpoint and metadata.get(_DIGEST) == digest
            if is_same and batch["status"] in _RESUMABLE:
                return batch
        if not page["has_more"]:
            return None
        query["after"] = page["last_id"]


def _download(options: CommandOptions, batch: dict[str, Any], out: Path) -> None:
    for name, target in (("output_file_id", out), ("error_file_id", _errors_file(out))):
        if batch[name] is not None:
            save(options.remote.download(f"/v1/files/{batch[name]}/content"), target)


def _report(batch: dict[str, Any], out: Path) -> None:
    """Print what was written. Raises `BatchDidNotComplete` if lines have no response."""
    counts = batch["request_counts"]
    if batch["output_file_id"] is not None:
        print(f"forge-proxy: {counts['completed']} responses in {out}", file=sys.stderr)
    if batch["errors"] is not None:
        first = batch["errors"]["data"][0]
        line = f"line {first['line']}: " if first["line"] else ""
        more = f" ({len(batch['errors']['data'])} faults; 'batches show {batch['id']}' lists them)"
        raise BatchDidNotComplete(f"the file was rejected: {line}{first['message']}{more}")
    if batch["error_file_id"] is not None:
        failed = f"{counts['failed']} of {counts['total']} requests failed"
        raise BatchDidNotComplete(f"the batch is {batch['status']}; {failed}: {_errors_file(out)}")
    if batch["status"] != "completed":
        raise BatchDidNotComplete(f"the batch is {batch['status']}")


def _errors_file(out: Path) -> Path:
    return out.with_name(f"{out.stem}.errors{out.suffix}")


def _path(batch_id: str) -> str:
    return f"{_ROUTE}/{quote(batch_id, safe='')}"
