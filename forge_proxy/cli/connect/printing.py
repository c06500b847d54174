"""Prints the configuration of a client: files, variables, and what to enter in its settings."""

from __future__ import annotations

import shlex
import sys

from forge_proxy.cli.connect.setups import ClientSetup, SettingsDialog


def note(text: str) -> None:
    """Print a message for the user, not on stdout, which a shell may evaluate."""
    print(f"forge-proxy: {text}", file=sys.stderr)


def print_files(setup: ClientSetup) -> None:
    """Print the files of the client, each with its path if there is anything else on stdout."""
    from forge_proxy.cli.connect.text import as_text

    for file in setup.files:
        if len(setup.files) > 1 or setup.variables:
            print(f"# {file.path}")
        print(as_text(file), end="")
    if len(setup.files) == 1:
        note(f"this belongs in {setup.files[0].path}; --write merges it into that file")


def print_start(setup: ClientSetup) -> None:
    """Print the environment variables of the client, and the command that starts it."""
    for name, value in setup.variables.items():
        print(f"export {name}={shlex.quote(value)}")
    if setup.dialog:
        _print_dialog(setup.dialog, is_only=not setup.variables)
    if setup.run:
        note(f"then start it: {setup.run}")
    if setup.note:
        note(setup.note)


def _print_dialog(dialog: SettingsDialog, *, is_only: bool) -> None:
    """Print what to enter in the client: on stdout as comments, which a shell ignores."""
    note(f"no file is written: {dialog.reason}")
    print(f"# {'enter' if is_only else 'or enter'} in {dialog.place}:")
    for name, value in dialog.fields.items():
        print(f"#   {name}: {value}")
