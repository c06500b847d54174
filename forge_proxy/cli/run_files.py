"""What the `runs` commands send: submissions and outputs, read from files, stdin and arguments."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, cast

from forge_proxy.core.errors import ForgeError
from forge_proxy.core.jsontypes import DECODER, write

Outcome = Literal["output", "error", "unresolved"]


class NotASubmission(ForgeError):
    """What is to be submitted cannot be read."""


def read_submission_file(file: Path) -> dict[str, Any]:
    """The JSON object of a file; `-` is stdin. Raises `NotASubmission`."""
    name, said = _read(file)
    if not isinstance(said, dict):
        raise NotASubmission(f"{name}: expected an object with workflow and user_message")
    return said  # pyright: ignore[reportUnknownVariableType]


def read_outputs_file(file: Path) -> list[dict[str, Any]]:
    """The outputs of a file, which holds `{"outputs": […]}` or the list alone. Raises `NotASubmission`."""
    name, said = _read(file)
    if isinstance(said, dict):
        said = cast("dict[str, Any]", said).get("outputs")
    if not isinstance(said, list):
        raise NotASubmission(f'{name}: expected {{"outputs": [{{"tool_call_id": …, "output": …}}]}}')
    return said  # pyright: ignore[reportUnknownVariableType]


def parse_outputs(words: Iterable[str], outcome: Outcome) -> list[dict[str, Any]]:
    """Outputs written as CALL=VALUE: a value is sent as JSON if it is that, else as text. Raises `NotASubmission`."""
    outputs: list[dict[str, Any]] = []
    for word in words:
        call, separator, value = word.partition("=")
        if not call or not separator:
            raise NotASubmission(f"{word}: expected CALL=VALUE, with the id of a call as 'runs show' prints it")
        outputs.append({"tool_call_id": call, outcome: _json_or_text(value) if outcome == "output" else value})
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
        said: Any = DECODER.decode(text)
        write(said).encode()  # JSON can hold halves of characters, which no request can
    except OSError as exc:
        raise NotASubmission(f"{name}: {exc.strerror or exc}") from exc
    except (ValueError, RecursionError) as exc:
        raise NotASubmission(f"{name}: not JSON: {exc}") from exc
    return name, said
