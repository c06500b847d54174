"""`forge-proxy logs`: the events of a running daemon, as they happen."""

from __future__ import annotations

import json as jsonlib
import os
import sys
from typing import Annotated, Any

import typer

from forge_proxy.cli.admin import Key, Url
from forge_proxy.client.remote import DEFAULT_URL, AdminClient, SentEvent

_NOTICES = ("gap", "dropped", "stopping")


def logs(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print new events until the daemon stops.")] = False,
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=0, max=10_000, help="The number of stored events to print first.")
    ] = 100,
    event: Annotated[
        list[str] | None, typer.Option("--event", help="Only events with this name, such as retried. Repeatable.")
    ] = None,
    model: Annotated[str | None, typer.Option("--model", help="Only events of this model.")] = None,
    client: Annotated[
        str | None, typer.Option("--client", help="Only requests with this key label, or from this program.")
    ] = None,
    request: Annotated[
        str | None, typer.Option("--request", metavar="ID", help="Only the request with this x-request-id.")
    ] = None,
    level: Annotated[
        str | None, typer.Option("--level", help="Only this level and above: info, warning, error.")
    ] = None,
    url: Url = DEFAULT_URL,
    key: Key = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print JSON lines. Default if the output is not a terminal.")
    ] = False,
) -> None:
    """Print the latest events of a running daemon, and with --follow each new one."""
    chosen = {"event": event, "model": model, "client": client, "request_id": request, "level": level}
    query: dict[str, Any] = {name: value for name, value in chosen.items() if value}
    query |= {"last": lines, "follow": follow}
    events = AdminClient(url, key).events("events", _is_end, query, _report_loss, reconnects=follow)
    as_json = json or not sys.stdout.isatty()
    try:
        for sent in events:
            if sent.type in _NOTICES:
                print(f"forge-proxy: {sent.data['message']}", file=sys.stderr)
            elif as_json:
                print(jsonlib.dumps(sent.data), flush=True)
            else:
                _print_readable(sent.data)
    except KeyboardInterrupt:
        raise typer.Exit from None
    except BrokenPipeError:  # the program that reads the output has ended, such as `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _is_end(event: SentEvent) -> bool:
    return event.type == "stopping"


def _report_loss() -> None:
    print("forge-proxy: the connection to the daemon was lost; reconnecting", file=sys.stderr)


def _print_readable(data: dict[str, Any]) -> None:
    from rich.console import Console

    from forge_proxy.cli.log_lines import render_event

    Console(highlight=False, soft_wrap=True).print(render_event(data))
