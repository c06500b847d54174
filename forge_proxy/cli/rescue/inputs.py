"""Reads the inputs of `forge-proxy rescue`: the text of a model, and the tools that were offered to the model."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import NoReturn

from forge_proxy.cli.rescue import InputError
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.guardrails import GuardPolicy, Turn, open_turn
from forge_proxy.core.jsontypes import DECODER, Json, JsonObject, is_list, is_object, kind_of
from forge_proxy.wire.clients.chat_completions.request import decode_request

_EXAMPLE = '[{"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}]'
_SHAPES = f"a list of tools, such as {_EXAMPLE}, or a recorded chat request with 'tools'"
_RELEVANT_FIELDS = ("tools", "tool_choice", "parallel_tool_calls", "max_tokens", "max_completion_tokens", "n")
"""Fields of a recorded request that affect how its response is judged."""
_SCHEMA_KEYS = ("parameters", "input_schema", "inputSchema")
"""Names of the schema in lists of tools, including those of other APIs."""


def read_text(file: Path | None) -> str:
    """Read the text from a file; None and `-` mean stdin. Raises `InputError`."""
    if file is not None and file != Path("-"):
        return _decode(_read_bytes(file), str(file))
    if sys.stdin.isatty():
        print("forge-proxy: reading the model's text from the terminal; end it with Ctrl-D", file=sys.stderr)
    return _decode(sys.stdin.buffer.read(), "stdin")


def read_turn(file: Path | None) -> Turn:
    """Open the turn of a request that offers the tools in a file, with the default policy. Raises `InputError`."""
    if file is None:
        raise InputError(
            f"--tools FILE is missing; it names a JSON file with the tools that were offered to the model: {_SHAPES}"
        )
    return open_rescue_turn(_parse(_decode(_read_bytes(file), str(file)), file), file)


def open_rescue_turn(written: Json, file: Path) -> Turn:
    """Open the turn of a request that offers these tools, which were read from a file. Raises `InputError`."""
    tools = written.get("tools") if is_object(written) else written
    if not is_list(tools):
        where, got = (f"{file}: tools", "no list of tools") if is_object(written) else (str(file), kind_of(written))
        raise InputError(f"{where}: expected {_SHAPES}; got {got}")
    given: JsonObject = written if is_object(written) else {}
    body: dict[str, Json] = {key: given[key] for key in _RELEVANT_FIELDS if key in given}
    body["tools"] = [_to_request_tool(tool) for tool in tools]
    body["messages"] = [{"role": "user", "content": "-"}]
    try:
        request = decode_request(body)
    except InvalidRequest as error:
        raise InputError(f"{file}: {_path_in_file(error.at, tools, whole=is_list(written))}: {error.why}") from error
    policy = GuardPolicy()
    turn = open_turn(request, policy, request_id="rescue", nudge_text=True)
    if turn is None:
        _refuse_unguarded(file, tools)
    return turn


def _read_bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(f"{file}: {error.strerror or error}") from error


def _decode(data: bytes, where: str) -> str:
    try:
        return data.decode("utf-8-sig")  # without the byte order mark of some editors
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{where}: not UTF-8: byte {data[error.start]:#04x} at offset {error.start} (line {line}); save it as UTF-8"
        ) from error


def _parse(text: str, file: Path) -> Json:
    try:
        return DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{file}:{error.lineno}:{error.colno}: not JSON: {error.msg}; expected {_SHAPES}") from error
    except (ValueError, RecursionError) as error:  # NaN, an endless number, endless brackets
        raise InputError(f"{file}: invalid JSON: {error}") from error


def _to_request_tool(tool: Json) -> Json:
    """Return a tool in the form of a request: a bare function is wrapped."""
    if not is_object(tool) or not _is_bare(tool):
        return tool
    function: dict[str, Json] = {key: tool[key] for key in ("name", "description") if key in tool}
    function["parameters"] = next((tool[key] for key in _SCHEMA_KEYS if key in tool), None)
    return {"type": "function", "function": function}


def _is_bare(tool: Json) -> bool:
    """Return whether a tool is a bare function, without the wrapper of a request."""
    return is_object(tool) and "function" not in tool and tool.get("type") in (None, "function")


def _path_in_file(at: str, listed: list[Json], *, whole: bool) -> str:
    """Convert a path in the request to the path in the file from which it was made."""
    number = at.removeprefix("tools[").partition("]")[0] if at.startswith("tools[") else ""
    if number.isdecimal() and _is_bare(listed[int(number)]):
        at = at.replace(".function", "", 1)
    return at.removeprefix("tools") if whole else at


def _refuse_unguarded(file: Path, listed: list[Json]) -> NoReturn:
    """Raise `InputError` with the reason why the daemon would not guard such a request."""
    other = next((i for i, tool in enumerate(listed) if is_object(tool) and tool.get("type") != "function"), None)
    if not listed:
        why = "it offers no tools"
    elif other is not None and not _is_bare(listed[other]):
        why = f"the type of tool {other} is not 'function'"
    else:
        why = "its tool_choice forbids calls"
    raise InputError(f"{file}: {why}, so the daemon would forward every response unchanged")
