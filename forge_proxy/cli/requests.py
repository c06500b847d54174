"""`forge-proxy requests` and `forge-proxy ledger`: the records that a running daemon has stored of its requests."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from forge_proxy.cli.admin import AsJson, CommandOptions, Key, OwnKey, OwnUrl, Url, inherit_options, list_by_default
from forge_proxy.cli.formatting import show, show_rows
from forge_proxy.cli.request_rows import answer_rows, ledger_table, markdown_table, request_line, request_rows
from forge_proxy.client.remote import DEFAULT_URL, AdminClient
from forge_proxy.core.errors import ForgeError

_SECONDS = {"h": 3600, "d": 86400, "w": 604800}
_Id = Annotated[str, typer.Argument(metavar="ID", help="The number of a request, or its x-request-id.")]
_PERIOD = re.compile(r"([1-9]\d{0,4})([hdw])", re.ASCII)

requests = typer.Typer(
    name="requests", help="Finished requests that the daemon has stored: list, show, replay, export."
)


class InvalidPeriod(ForgeError):
    """The value of an option is not a period."""

    def __init__(self, given: str) -> None:
        super().__init__(f"--since {given}: expected a number of hours, days or weeks, such as 24h, 7d or 4w")


list_by_default(requests, lambda options: _list(options, {}))


@requests.command(name="list")
def list_requests(
    context: typer.Context,
    limit: Annotated[int, typer.Option(min=1, max=200, help="The largest number of requests.")] = 20,
    result: Annotated[str | None, typer.Option(help="Only requests with this result, such as retried.")] = None,
    model: Annotated[str | None, typer.Option(help="Only requests to this model.")] = None,
    fault: Annotated[str | None, typer.Option(help="Only requests with an attempt that had this fault.")] = None,
    client: Annotated[str | None, typer.Option(help="Only requests with this key label.")] = None,
    url: OwnUrl = None,
    key: OwnKey = None,
    json: AsJson = False,
) -> None:
    """List the finished requests, newest first."""
    chosen = {"limit": limit, "result": result, "model": model, "fault": fault, "client": client}
    query = {name: value for name, value in chosen.items() if value is not None}
    _list(inherit_options(context, url, key, json), query)


@requests.command(name="show")
def show_request(
    context: typer.Context,
    request: _Id,
    url: OwnUrl = None,
    key: OwnKey = None,
    json: AsJson = False,
) -> None:
    """Show a finished request with each of its attempts."""
    options = inherit_options(context, url, key, json)
    response = options.remote.admin("GET", f"requests/{_quote(request)}")
    if options.as_json:
        show(response, as_json=True)
    else:
        show_rows(request_rows(response))


@requests.command()
def replay(
    context: typer.Context,
    request: _Id,
    guardrails: Annotated[
        str | None, typer.Option(help="The guardrails that stay on, such as rescue,retry; or off.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Send it to this model instead.")] = None,
    temperature: Annotated[float | None, typer.Option(help="Use this temperature instead.")] = None,
    seed: Annotated[int | None, typer.Option(help="Use this seed instead.")] = None,
    max_tokens: Annotated[int | None, typer.Option("--max-tokens", help="Use this token limit instead.")] = None,
    url: OwnUrl = None,
    key: OwnKey = None,
    json: AsJson = False,
) -> None:
    """Send a stored request again, and show both responses. Requires store.content: on."""
    options = inherit_options(context, url, key, json)
    sampling = {"temperature": temperature, "seed": seed, "max_tokens": max_tokens}
    changes = {"guardrails": guardrails, "model": model, "sampling": _without_none(sampling)}
    response = options.remote.admin("POST", f"requests/{_quote(request)}/replay", _without_none(changes))
    if options.as_json:
        show(response, as_json=True)
        return
    for name in ("original", "replay"):
        print(f"=== {name}")
        show_rows(answer_rows(response[name]))


@requests.command()
def export(
    context: typer.Context,
    request: _Id,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The file to write. Default: stdout.")] = None,
    url: OwnUrl = None,
    key: OwnKey = None,
) -> None:
    """Write a stored request as golden cases, which `forge-proxy rescue` reads. Requires store.content: on."""
    options = inherit_options(context, url, key, as_json=False)
    content = b"".join(options.remote.download(f"/admin/v1/requests/{_quote(request)}/export"))
    if output is None:
        sys.stdout.buffer.write(content)
    else:
        output.write_bytes(content)


def ledger(
    since: Annotated[str, typer.Option(help="The period: hours, days or weeks, such as 24h, 7d or 4w.")] = "7d",
    model: Annotated[str | None, typer.Option(help="Only this model.")] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")] = False,
    url: Url = DEFAULT_URL,
    key: Key = None,
    json: AsJson = False,
) -> None:
    """Show the faults per model and tool, how they were resolved, and the effect of the guardrails."""
    query: dict[str, Any] = {"since": max(0.0, time.time() - _read_period(since))}
    if model is not None:
        query["model"] = model
    response = AdminClient(url, key).admin("GET", "ledger", **query)
    if json:
        show(response, as_json=True)
        return
    print(response["summary"])
    for alert in response["alerts"]:
        print(f"Got worse: {alert['summary']}")
    table = ledger_table(response)
    if table:
        print()
        print("\n".join(markdown_table(table) if markdown else _columns(table)))


def _quote(request: str) -> str:
    return quote(request, safe="")


def _without_none(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _list(options: CommandOptions, query: dict[str, Any]) -> None:
    response = options.remote.admin("GET", "requests", **query)
    if options.as_json:
        show(response, as_json=True)
    else:
        show_rows([(str(request["number"]), request_line(request)) for request in response["data"]])


def _columns(table: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[at]) for row in table) for at in range(len(table[0]))]
    return ["  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip() for row in table]


def _read_period(text: str) -> float:
    """Return the length of a period in seconds, such as of `7d`. Raises `InvalidPeriod`."""
    found = _PERIOD.fullmatch(text)
    if found is None:
        raise InvalidPeriod(text)
    return int(found[1]) * _SECONDS[found[2]]
