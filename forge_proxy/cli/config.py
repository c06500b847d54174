"""`forge-proxy config`: shows the effective settings and their schema, and checks a settings file."""

from __future__ import annotations

import json as jsonlib
from typing import Annotated

import typer

from forge_proxy.cli.admin import Key, Url
from forge_proxy.cli.options import ConfigFile, settings_file
from forge_proxy.client.remote import DEFAULT_URL, AdminClient
from forge_proxy.settings import load
from forge_proxy.settings.schema import render_schema

config = typer.Typer(name="config", no_args_is_help=True, help="The settings: show, schema, check.")


@config.command("show")
def show_settings(
    file: ConfigFile = None,
    live: Annotated[
        bool, typer.Option("--live", help="Show the settings of the running daemon, including changes.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    url: Url = DEFAULT_URL,
    key: Key = None,
) -> None:
    """Show all settings from file and environment, with secrets masked."""
    from forge_proxy.settings.masking import mask_secrets

    settings = (
        AdminClient(url, key).admin("GET", "config") if live else dict(mask_secrets(load(settings_file(file), {})))
    )
    if json:
        print(jsonlib.dumps(settings, indent=2))
    else:
        import yaml

        print(yaml.safe_dump(settings, sort_keys=False, allow_unicode=True), end="")


@config.command()
def schema() -> None:
    """Print the JSON Schema of the settings file, for editors."""
    print(render_schema(), end="")


@config.command()
def check(file: ConfigFile = None) -> None:
    """Check the settings as `serve` does. Prints one line per fault; exit code 2 if there is any."""
    from forge_proxy.settings.startup_checks import refuse_unusable  # local import: --help does not need the web server

    path = settings_file(file)
    refuse_unusable(load(path, {}))
    print(f"{path or 'the environment'}: the settings are valid")
