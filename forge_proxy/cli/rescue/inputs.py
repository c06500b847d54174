"""What `forge-proxy rescue` is given: the text, and the tools that were offered to the model that wrote it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import NoReturn

from forge_proxy.cli.rescue import InputError
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.guardrails import GuardPolicy, Turn, open_turn
from forge_proxy.core.guardrails.text_history import TextResponseHistory
from forge_proxy.core.jsontypes import DECODER, Json, JsonObject, is_list, is_object, kind_of
from forge_proxy.wire.clients.chat_completions.request import decode_request

_EXAMPLE = '[{"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}]'
_SHAPES = f"a list of tools, as {_EXAMPLE}, or a recorded chat request, which has them under 'tools'"
_THAT_COUNT = ("tools", "tool_choice", "parallel_tool_calls", "max_tokens", "max_completion_tokens", "n")
"""What of a recorded request bears on how its answer is judged."""
_SCHEMA_KEYS = ("parameters", "input_schema", "inputSchema")
"""How lists of tools spell it that are not made for this API."""


def read_text(file: Path | None) -> str:
    """The text in a file, or on stdin for None and `-`. Raises `InputError`."""
    if file is not None and file != Path("-"):
        return _decoded(_bytes_of(file), str(file))
    if sys.stdin.isatty():
        print("forge-proxy: reading the model's text from here; end it with Ctrl-D", file=sys.stderr)
    return _decoded(sys.stdin.buffer.read(), "stdin")


def read_turn(file: Path | None) -> Turn:
    """The turn of a request that offers the tools in a file, with the daemon's default policy. Raises `InputError`."""
    if file is None:
        raise InputError(f"--tools FILE is missing: the tools that were offered to the model, as JSON: {_SHAPES}")
    written = _parsed(_decoded(_bytes_of(file), str(file)), file)
    listed = written.get("tools") if is_object(written) else written
    if not is_list(listed):
        where, got = (f"{file}: tools", "no list of tools") if is_object(written) else (str(file), kind_of(written))
        raise InputError(f"{where}: expected {_SHAPES}; got {got}")
    given: JsonObject = written if is_object(written) else {}
    body: dict[str, Json] = {key: given[key] for key in _THAT_COUNT if key in given}
    body["tools"] = [_as_offered(tool) for tool in listed]
    body["messages"] = [{"role": "user", "content": "-"}]
    try:
        request = decode_request(body)
    except InvalidRequest as error:
        raise InputError(f"{file}: {_place_in(error.at, listed, whole=is_list(written))}: {error.why}") from error
    policy = GuardPolicy()
    nudge_text = TextResponseHistory().should_nudge(policy, "")
    turn = open_turn(request, policy, request_id="rescue", nudge_text=nudge_text)
    if turn is None:
        _refuse_unguarded(file, listed)
    return turn


def _bytes_of(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(f"{file}: {error.strerror or error}") from error


def _decoded(data: bytes, where: str) -> str:
    try:
        return data.decode("utf-8-sig")  # the mark that some editors put first is none of the text
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{where}: not UTF-8: byte {data[error.start]:#04x} at offset {error.start} (line {line}); save it as UTF-8"
        ) from error


def _parsed(text: str, file: Path) -> Json:
    try:
        return DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{file}:{error.lineno}:{error.colno}: not JSON: {error.msg}; expected {_SHAPES}") from error
    except (ValueError, RecursionError) as error:  # NaN, a number without end, brackets without end
        raise InputError(f"{file}: not JSON that can be used: {error}") from error


def _as_offered(tool: Json) -> Json:
    """A tool as a request offers it: one that is only a function gets what belongs around it."""
    if not is_object(tool) or not _is_bare(tool):
        return tool
    function: dict[str, Json] = {key: tool[key] for key in ("name", "description") if key in tool}
    function["parameters"] = next((tool[key] for key in _SCHEMA_KEYS if key in tool), None)
    return {"type": "function", "function": function}


def _is_bare(tool: Json) -> bool:
    """Whether a tool is only a function, without what a request has around it."""
    return is_object(tool) and "function" not in tool and tool.get("type") in (None, "function")


def _place_in(at: str, listed: list[Json], *, whole: bool) -> str:
    """The place in the file that is meant by a place in the request that was made of it."""
    number = at.removeprefix("tools[").partition("]")[0] if at.startswith("tools[") else ""
    if number.isdecimal() and _is_bare(listed[int(number)]):
        at = at.replace(".function", "", 1)
    return at.removeprefix("tools") if whole else at


def _refuse_unguarded(file: Path, listed: list[Json]) -> NoReturn:
    """Say why the daemon would leave the answer to such a request alone."""
    other = next((i for i, tool in enumerate(listed) if is_object(tool) and tool.get("type") != "function"), None)
    if not listed:
        why = "it offers no tools"
    elif other is not None and not _is_bare(listed[other]):
        why = f"tool {other} is of a type other than 'function'"
    else:
        why = "its tool_choice lets no function be called"
    raise InputError(f"{file}: {why}, so the daemon would pass every answer on as it is")
