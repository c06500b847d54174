"""Commands that show and change a running daemon, one per admin API route except sampling and plain-text responses.

The commands for runs are in `cli/runs.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from json import loads
from typing import Annotated, Any

import typer

from forge_proxy.cli.formatting import budget_words, preview_rows, show, show_rows, status_rows, tier_words
from forge_proxy.client.remote import DEFAULT_URL, AdminClient
from forge_proxy.core.budget import MAX_TOKENS, MIN_TOKENS
from forge_proxy.core.guardrails.policy import SWITCHES
from forge_proxy.core.jsontypes import Json, is_list, is_object

Url = Annotated[str, typer.Option("--url", envvar="FORGE_PROXY_URL", help="Address of the daemon.")]
Key = Annotated[
    str | None, typer.Option("--key", envvar="FORGE_PROXY_KEY", show_envvar=True, help="One of server.admin_keys.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the daemon's response as JSON.")]

# Options of a subcommand; if omitted, the options of its group or their environment variables apply.
OwnUrl = Annotated[str | None, typer.Option("--url", help="Address of the daemon.")]
OwnKey = Annotated[str | None, typer.Option("--key", help="One of server.admin_keys.")]

_BOOLEANS: dict[str, Any] = {"on": True, "true": True, "off": False, "false": False}


@dataclass(frozen=True, slots=True)
class CommandOptions:
    """Options that apply to all commands of a group."""

    url: str
    key: str | None
    as_json: bool

    @property
    def remote(self) -> AdminClient:
        """The client of the daemon."""
        return AdminClient(self.url, self.key)


def list_by_default(group: typer.Typer, show_list: Callable[[CommandOptions], None]) -> None:
    """Give a group the options of all its commands. Without a command it lists."""

    @group.callback(invoke_without_command=True)
    def read_options(  # pyright: ignore[reportUnusedFunction]
        context: typer.Context, url: Url = DEFAULT_URL, key: Key = None, json: AsJson = False
    ) -> None:
        context.obj = CommandOptions(url, key, json)
        if context.invoked_subcommand is None:
            show_list(context.obj)


def add_admin_commands(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(status)
    app.command()(models)
    app.command()(tiers)
    app.command()(reload)
    for group in (budget, backend, guardrails, compaction):
        app.add_typer(group)


def status(url: Url = DEFAULT_URL, key: Key = None, json: AsJson = False) -> None:
    """Show a running daemon: backend, budget, queue, guardrails, hardware."""
    response = AdminClient(url, key).admin("GET", "status")
    if json:
        show(response, as_json=True)
    else:
        show_rows(status_rows(response))


def models(url: Url = DEFAULT_URL, key: Key = None, json: AsJson = False) -> None:
    """List the models of a running daemon, each with its budget."""
    response = AdminClient(url, key).admin("GET", "models")
    if json:
        show(response, as_json=True)
    else:
        show_rows([(model["id"], budget_words(model["budget"])) for model in response["data"]])


def tiers(url: Url = DEFAULT_URL, key: Key = None, json: AsJson = False) -> None:
    """List the tiers of a running daemon, each with the model that it resolves to."""
    response = AdminClient(url, key).admin("GET", "tiers")
    if json:
        show(response, as_json=True)
    else:
        show_rows([(tier["name"], tier_words(tier)) for tier in response["data"]])


def reload(url: Url = DEFAULT_URL, key: Key = None, json: AsJson = False) -> None:
    """Reload the settings of a running daemon."""
    show(AdminClient(url, key).admin("POST", "reload"), as_json=json)


budget = typer.Typer(name="budget", help="The context budget of requests: show, set.")
backend = typer.Typer(name="backend", help="The model server: show, start, stop, restart, model, logs.")
compaction = typer.Typer(name="compaction", help="Compaction of long histories: show, set, preview.")
guardrails = typer.Typer(name="guardrails", help="The guardrails: show, set.")


@budget.callback(invoke_without_command=True)
@backend.callback(invoke_without_command=True)
@guardrails.callback(invoke_without_command=True)
@compaction.callback(invoke_without_command=True)
def _show(  # pyright: ignore[reportUnusedFunction]
    context: typer.Context, url: Url = DEFAULT_URL, key: Key = None, json: AsJson = False
) -> None:
    context.obj = CommandOptions(url, key, json)
    if context.invoked_subcommand is None:
        show(AdminClient(url, key).admin("GET", str(context.info_name)), as_json=json)


@budget.command("show")
@backend.command("show")
@guardrails.command("show")
@compaction.command("show")
def _show_it(  # pyright: ignore[reportUnusedFunction]
    context: typer.Context, url: OwnUrl = None, key: OwnKey = None, json: AsJson = False
) -> None:
    """Show the current values; the default command."""
    assert context.parent is not None  # noqa: S101  # it is in a group
    options = inherit_options(context, url, key, json)
    show(options.remote.admin("GET", str(context.parent.info_name)), as_json=options.as_json)


@budget.command("set")
def set_budget(
    context: typer.Context,
    mode: Annotated[str, typer.Argument(help="The mode: backend, manual, forge-full or forge-fast.")],
    tokens: Annotated[
        int | None, typer.Option("--tokens", help="The number of tokens; only for the mode manual.")
    ] = None,
    overflow: Annotated[
        str | None, typer.Option("--overflow", help="What to do with longer prompts: reject, forward or compact.")
    ] = None,
    url: OwnUrl = None,
    key: OwnKey = None,
    json: AsJson = False,
) -> None:
    """Switch to another budget; running requests finish with the old one."""
    options = inherit_options(context, url, key, json)
    change = {"mode": mode, "tokens": tokens, "overflow": overflow}
    body = {name: value for name, value in change.items() if value is not None}
    show(options.remote.admin("PUT", "budget", body), as_json=options.as_json)


@backend.command()
def start(context: typer.Context, url: OwnUrl = None, key: OwnKey = None, json: AsJson = False) -> None:
    """Start the model server."""
    _do(inherit_options(context, url, key, json), "start")


@backend.command()
def stop(context: typer.Context, url: OwnUrl = None, key: OwnKey = None, json: AsJson = False) -> None:
    """Stop the model server once its running requests have finished."""
    _do(inherit_options(context, url, key, json), "stop")


@backend.command()
def restart(context: typer.Context, url: OwnUrl = None, key: OwnKey = None, json: AsJson = False) -> None:
    """Restart the model server; new requests wait meanwhile."""
    _do(inherit_options(context, url, key, json), "restart")


@backend.command()
def model(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="A name in the catalog.")],
    url: OwnUrl = None,
    key: OwnKey = None,
    json: AsJson = False,
) -> None:
    """Serve another model."""
    _do(inherit_options(context, url, key, json), "model", {"model": name})


@backend.command()
def logs(
    context: typer.Context,
    lines: Annotated[int, typer.Option("--lines", "-n", help="The number of lines.")] = 100,
    url: OwnUrl = None,
    key: OwnKey = None,
    json: AsJson = False,
) -> None:
    """Show the latest log lines of the model server."""
    options = inherit_options(context, url, key, json)
    response = options.remote.admin("GET", "backend/logs", lines=lines)
    if options.as_json:
        show(response, as_json=True)
    else:
        print("\n".join(response["lines"]))


@guardrails.command("set")
def set_guardrails(
    context: typer.Context,
    changes: Annotated[
        list[str], typer.Argument(help="Settings, such as rescue=off, max_retries=1 or text_responses=accept.")
    ],
    url: OwnUrl = None,
    key: OwnKey = None,
    json: AsJson = False,
) -> None:
    """Change guardrails, from the next request on."""
    options = inherit_options(context, url, key, json)
    body: dict[str, Any] = {}
    for name, word in map(_parse_change, changes):
        value = _BOOLEANS.get(word, word)
        switch = name.removeprefix("enabled.")  # the API's errors name it so
        if switch in SWITCHES:
            body.setdefault("enabled", {})[switch] = value
        else:
            body[name] = value
    show(options.remote.admin("PATCH", "guardrails", body), as_json=options.as_json)


@compaction.command("set")
def set_compaction(
    context: typer.Context,
    changes: Annotated[
        list[str], typer.Argument(help="Settings, such as strategy=sliding, threshold=0.6 or keep_recent=3.")
    ],
    url: OwnUrl = None,
    key: OwnKey = None,
    json: AsJson = False,
) -> None:
    """Change settings of compaction, from the next request on."""
    options = inherit_options(context, url, key, json)
    policy = options.remote.admin("GET", "compaction")["policy"]
    show(
        options.remote.admin("PUT", "compaction", {**policy, **dict(map(_parse_change, changes))}),
        as_json=options.as_json,
    )


@compaction.command()
def preview(
    context: typer.Context,
    file: Annotated[
        typer.FileText, typer.Argument(help="JSON file with a chat completion request, or its messages; - is stdin.")
    ],
    budget_tokens: Annotated[
        int | None,
        typer.Option("--budget", min=MIN_TOKENS, max=MAX_TOKENS, help="Tokens, instead of the model's budget."),
    ] = None,
    url: OwnUrl = None,
    key: OwnKey = None,
    json: AsJson = False,
) -> None:
    """Show what each phase of compaction would remove from a history, and why."""
    options = inherit_options(context, url, key, json)
    body = preview_body(file.read(), budget_tokens)
    response = options.remote.admin("POST", "compaction/preview", body)
    if options.as_json:
        show(response, as_json=True)
    else:
        show_rows(preview_rows(response))


def preview_body(text: str, budget_tokens: int | None) -> dict[str, Any]:
    """Build the request body of a compaction preview from a recorded request. Raises `typer.BadParameter`."""
    try:
        recorded: Json = loads(text)
    except ValueError as exc:
        raise typer.BadParameter(f"not JSON: {exc}") from exc
    recorded = {"messages": recorded} if is_list(recorded) else recorded
    if not is_object(recorded) or "messages" not in recorded:
        raise typer.BadParameter("expected a chat completion request with messages, or a list of messages")
    body: dict[str, Any] = {name: recorded[name] for name in ("messages", "tools", "model") if recorded.get(name)}
    return body if budget_tokens is None else {**body, "budget_tokens": budget_tokens}


def _parse_change(change: str) -> tuple[str, str]:
    name, separator, value = change.partition("=")
    if not separator:
        raise typer.BadParameter(f"{change}: expected NAME=VALUE")
    return name, value


def inherit_options(context: typer.Context, url: str | None, key: str | None, as_json: bool) -> CommandOptions:
    """Return the options of a subcommand; omitted ones are taken from its group."""
    group: CommandOptions = context.obj
    return CommandOptions(url or group.url, key or group.key, as_json or group.as_json)


def _do(options: CommandOptions, action: str, body: dict[str, Any] | None = None) -> None:
    show(options.remote.admin("POST", f"backend/{action}", body), as_json=options.as_json)
