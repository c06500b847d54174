"""Reads the input of the `runs` commands, submissions and outputs, from files, stdin and arguments."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, cast

from forge_proxy.core.errors import ForgeError
from forge_proxy.core.jsontypes import DECODER, write

OutputKind = Literal["output", "error", "unresolved"]


class NotASubmission(ForgeError):
    """The input of a `runs` command is invalid."""


def read_submission_file(file: Path) -> dict[str, Any]:
    """Read the JSON object of a file; `-` is stdin. Raises `NotASubmission`."""
    name, content = _read(file)
    if not isinstance(content, dict):
        raise NotASubmission(f"{name}: expected an object with workflow and user_message")
    return content  # pyright: ignore[reportUnknownVariableType]


def read_outputs_file(file: Path) -> list[dict[str, Any]]:
    """Read the outputs of a file, which contains `{"outputs": […]}` or only the list. Raises `NotASubmission`."""
    name, content = _read(file)
    if isinstance(content, dict):
        content = cast("dict[str, Any]", content).get("outputs")
    if not isinstance(content, list):
        raise NotASubmission(f'{name}: expected {{"outputs": [{{"tool_call_id": …, "output": …}}]}}')
    return content  # pyright: ignore[reportUnknownVariableType]


def parse_outputs(words: Iterable[str], kind: OutputKind) -> list[dict[str, Any]]:
    """Parse outputs given as CALL=VALUE. A value is sent as JSON if it is valid JSON, else as text.

    Raises `NotASubmission`.
    """
    outputs: list[dict[str, Any]] = []
    for word in words:
        call, separator, value = word.partition("=")
        if not call or not separator:
            raise NotASubmission(f"{word}: expected CALL=VALUE, with the id of a call as 'runs show' prints it")
        outputs.append({"tool_call_id": call, kind: _json_or_text(value) if kind == "output" else value})
    return outputs


def _json_or_text(value: str) -> Any:
    try:
        return DECODER.decode(value)
    except (ValueError, RecursionError):
        return value


def _read(file: Path) -> tuple[str, Any]:
    name = "stdin" if str(file) == "-" else str(file)
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
        content: Any = DECODER.decode(text)
        write(content).encode()  # JSON may contain lone surrogates, which UTF-8 cannot encode
    except OSError as exc:
        raise NotASubmission(f"{name}: {exc.strerror or exc}") from exc
    except (ValueError, RecursionError) as exc:
        raise NotASubmission(f"{name}: not JSON: {exc}") from exc
    return name, content
