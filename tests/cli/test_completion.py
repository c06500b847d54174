"""Shell completion: it can be installed, and it completes commands and options."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.processes import environment

_NAMED_SHELL = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
"""typer then takes the shell's name, in place of looking at the process that started it."""


def forge_proxy(*words: str, **env: str) -> str:
    """What the installed command prints; `python -m` has another name, for which nothing is completed."""
    program = Path(sys.executable).with_name("forge-proxy")
    done = subprocess.run(
        [program, *words], env=environment(env), capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout


@pytest.mark.parametrize(
    ("shell", "file"),
    [
        ("bash", ".bash_completions/forge-proxy.sh"),
        ("zsh", ".zfunc/_forge-proxy"),
        ("fish", ".config/fish/completions/forge-proxy.fish"),
    ],
)
def test_completion_is_installed_for_each_shell(shell: str, file: str, tmp_path: Path) -> None:
    forge_proxy("--install-completion", shell, HOME=str(tmp_path), **_NAMED_SHELL)

    assert "_FORGE_PROXY_COMPLETE" in (tmp_path / file).read_text()


@pytest.mark.parametrize(
    ("words", "completed"),
    [("forge-proxy ser", "serve"), ("forge-proxy budget s", "show set"), ("forge-proxy serve --gg", "--gguf")],
)
def test_commands_and_options_are_completed(words: str, completed: str) -> None:
    env = {"_FORGE_PROXY_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}

    assert forge_proxy(**env).split() == completed.split()
