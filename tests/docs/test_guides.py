"""The guides are correct: their Python examples print what the guides show, and their commands and settings exist."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from forge_proxy.backends.llama_server.programs import TINY_MODEL
from forge_proxy.cli.app import app
from forge_proxy.settings import load
from tests.docs.guides import GUIDES, ROOT, blocks, printed_by, silent_prints
from tests.fakes.llama_cpp import llama_cpp
from tests.fakes.processes import messages_server, model_server, ollama_server

NAMES = ["user-guide", "model-guide", "backend-setup"]
each = pytest.mark.parametrize("name", NAMES)


def text_of(name: str) -> str:
    return (GUIDES / f"{name}.md").read_text()


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Generator[dict[str, str]]:
    """Fakes for the servers and files that the guides name."""
    model = tmp_path_factory.mktemp("models") / "your-model.gguf"
    model.write_bytes(TINY_MODEL.read_bytes())
    with (
        llama_cpp("its-own") as llama,
        ollama_server("qwen3:8b") as ollama,
        model_server() as other,
        messages_server() as anthropic,
    ):
        yield {
            "http://127.0.0.1:8080": llama,
            "http://127.0.0.1:11434": ollama.url,
            "http://127.0.0.1:8000": other.url,
            "models/your-model.gguf": str(model),
            'backend="anthropic"': f'backend="anthropic", url="{anthropic.url}"',
            "your-key": "its-own",
            '"claude-opus-5"': '"says"',
        }


@each
def test_the_python_examples_print_what_they_say(
    name: str, stand_ins: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("XDG_STATE_HOME", "/nonexistent")
    examples = blocks(text_of(name), "python")
    namespace: dict[str, Any] = {"__name__": name}
    assert examples

    for example in examples:
        run = example
        for named, stand_in in stand_ins.items():
            run = run.replace(named, stand_in)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(run, f"{name}.md", "exec"), namespace)  # that is the test
        assert printed.getvalue() == printed_by(example), example
        assert not silent_prints(example)


@each
def test_the_commands_are_ones_that_there_are(name: str) -> None:
    group = typer.main.get_command(app)
    lines = [line for block in blocks(text_of(name), "sh") for line in block.replace("\\\n", " ").splitlines()]
    ours = [words for line in lines if (words := shlex.split(line, comments=True)) and words[0] == "forge-proxy"]

    for _, *words in ours:
        command: Any = group
        context = command.make_context("forge-proxy", [*words], resilient_parsing=False)
        while hasattr(command, "resolve_command"):
            _, command, words = command.resolve_command(context, words)
            context = command.make_context(command.name, [*words], parent=context)


@each
def test_the_settings_are_ones_that_there_are(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in [variable for variable in os.environ if variable.startswith("FORGE_PROXY_")]:
        monkeypatch.delenv(variable)

    for number, block in enumerate(blocks(text_of(name), "yaml")):
        file = tmp_path / f"{number}.yaml"
        file.write_text(block)
        load(file, {})


@each
def test_what_is_linked_to_is_there(name: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text_of(name)):
        assert (GUIDES / target).exists(), target
