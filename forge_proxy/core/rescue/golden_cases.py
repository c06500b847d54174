"""Golden cases: texts of models, each with what the rescue parser makes of it, in files that people read and edit.

`tests/core/rescue` has a file for each model family, `forge-proxy rescue` analyzes such files, and the daemon exports
stored requests in this format:

    # A comment.
    tools: read_file, write_file
    request: {"tools": [...]}            optional: the request that offered them, for `forge-proxy rescue`

    === title of a case
    --- said
    The text as the model wrote it. A line that looks like a heading of this format begins with a backslash.
    --- calls                            a line for each call, and below it how it was parsed:
    read_file {"path": "a"}
      json; mended commas, quotes; raw path; unnamed 1; id c1; cut off
    --- text                             the remaining text; omitted if it is empty
    --- thought                          the same for the reasoning
    --- broken                           a call was begun that cannot be parsed; the text is not compared
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from forge_proxy.core.errors import ForgeError
from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object, write
from forge_proxy.core.rescue.rescue import RecoveredCall, rescue

_PARTS = ("said", "calls", "text", "thought", "broken")
_HEADING = re.compile(r"^(\\*)(?=(?:===|---) )", re.MULTILINE)
_ESCAPED = re.compile(r"^\\(\\*(?:===|---) )", re.MULTILINE)
_PLAIN_NAME = re.compile(r"[^\s,\[\]\"#]+")
_CALL = re.compile(r"^(\S.*)\n  (.*)$", re.MULTILINE)


class InvalidGoldenFile(ForgeError):
    """A file does not have the format of golden cases."""


@dataclass(frozen=True, slots=True)
class GoldenCase:
    """One text, and what the rescue parser makes of it."""

    title: str
    tools: tuple[str, ...]
    said: str
    calls: tuple[str, ...]
    """Each call on one line, with how it was parsed."""
    text: str = ""
    thought: str = ""
    is_broken: bool = False

    @classmethod
    def of(cls, title: str, said: str, tools: Sequence[str]) -> GoldenCase:
        """Return the case of a text as it is parsed now. What no file can contain is replaced before."""
        said = said.replace("\r\n", "\n").replace("\r", "\n").encode(errors="replace").decode()
        found = rescue(said, tools)
        text = "" if found.broken else found.text
        calls = tuple(map(describe_recovered, found.calls))
        return cls(" ".join(title.split()), tuple(tools), said, calls, text, found.reasoning, found.broken)


@dataclass(frozen=True, slots=True)
class GoldenFile:
    """The cases of a file. `request` is the one that offered the tools, if the file has it."""

    cases: tuple[GoldenCase, ...]
    request: JsonObject | None = None


def describe_recovered(found: RecoveredCall) -> str:
    """Return a call and how it was parsed, on one line."""
    notes = [found.form]
    notes += ["mended " + ", ".join(found.repairs)] if found.repairs else []
    notes += ["raw " + ", ".join(sorted(found.untyped))] if found.untyped else []
    notes += [f"unnamed {found.positional}"] if found.positional else []
    notes += [f"id {found.call.id}"] if found.call.id else []
    notes += ["cut off"] if found.open else []
    return f"{_write_name(found.call.tool)} {write(found.call.args())} {_in_one_line('; '.join(notes))}"


def is_golden_file(text: str) -> bool:
    """Whether a text looks like a file of golden cases."""
    return re.search(r"^tools: .+$", text.partition("\n=== ")[0], re.MULTILINE) is not None and "\n=== " in text


def read_golden_file(text: str) -> GoldenFile:
    """Read the cases of a file. Raises `InvalidGoldenFile`."""
    head, *cases = re.split(r"^=== ", text, flags=re.MULTILINE)
    tools = re.search(r"^tools: (.+)$", head, re.MULTILINE)
    if tools is None:
        raise InvalidGoldenFile("expected a line such as `tools: read_file, write_file` before the first case")
    names = _read_names(tools[1])
    request = re.search(r"^request: (.+)$", head, re.MULTILINE)
    last = len(cases) - 1
    # The line before the next case belongs to neither.
    found = tuple(
        _read_case(case if place == last else case.removesuffix("\n"), names) for place, case in enumerate(cases)
    )
    return GoldenFile(found, _read_request(request[1]) if request else None)


def write_golden_file(comments: Iterable[str], file: GoldenFile) -> str:
    """Return the text of a file of cases with the same tools."""
    head = [f"# {' '.join(comment.split())}\n" for comment in comments]
    head.append(f"tools: {_write_names(file.cases[0].tools)}\n")
    if file.request is not None:
        head.append(f"request: {json.dumps(file.request)}\n")
    return "".join(head) + "".join(f"\n=== {_write_case(case)}" for case in file.cases)


def _read_case(case: str, tools: tuple[str, ...]) -> GoldenCase:
    title, _, rest = case.partition("\n")
    pieces = re.split(r"^--- (\w+)\n", rest, flags=re.MULTILINE)
    parts = {
        name: _ESCAPED.sub(r"\1", body.removesuffix("\n"))
        for name, body in zip(pieces[1::2], pieces[2::2], strict=True)
    }
    if unknown := parts.keys() - set(_PARTS):
        raise InvalidGoldenFile(f"case {title!r}: no part is called {min(unknown)}; expected {', '.join(_PARTS)}")
    if "said" not in parts:
        raise InvalidGoldenFile(f"case {title!r}: the part `--- said` is missing")
    calls = tuple(
        f"{_read_call(found[1], title)} {found[2].strip()}" for found in _CALL.finditer(parts.get("calls", ""))
    )
    is_broken = "broken" in parts
    text = "" if is_broken else parts.get("text", "")
    return GoldenCase(title, tools, parts["said"], calls, text, parts.get("thought", ""), is_broken)


def _write_case(case: GoldenCase) -> str:
    lines = [f"{case.title}\n", _write_part("said", case.said)]
    if case.calls:
        calls = (_split_call(call) for call in case.calls)
        lines.append(_write_part("calls", "\n".join(f"{call}\n  {how}" for call, how in calls)))
    lines += [_write_part("text", case.text)] if case.text else []
    lines += [_write_part("thought", case.thought)] if case.thought else []
    lines += ["--- broken\n"] if case.is_broken else []
    return "".join(lines)


def _write_part(name: str, body: str) -> str:
    return f"--- {name}\n" + _HEADING.sub(r"\\\1", body) + "\n"


def _read_call(line: str, title: str) -> str:
    """Return a call with its arguments as `describe_recovered` writes them."""
    try:
        name, end = _read_name(line)
        return f"{_write_name(name)} {write(json.loads(line[end:]))}"
    except ValueError as error:
        raise InvalidGoldenFile(f"case {title!r}: expected a call such as `read_file {{...}}`: {line[:80]}") from error


def _split_call(call: str) -> tuple[str, str]:
    """Return a described call without how it was parsed, and that."""
    _, start = _read_name(call)
    _, end = json.JSONDecoder().raw_decode(call, start + 1)
    return call[:end], call[end + 1 :]


def _read_name(line: str) -> tuple[str, int]:
    """Return the name at the beginning of a call, and the index after it."""
    if line.startswith('"'):
        name, end = json.JSONDecoder().raw_decode(line)
        return str(name), end
    name, _, _ = line.partition(" ")
    return name, len(name)


def _write_name(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else json.dumps(name)


def _read_names(line: str) -> tuple[str, ...]:
    if not line.startswith("["):
        return tuple(line.split(", "))
    try:
        names: Json = json.loads(line)
    except ValueError:
        names = None
    if not is_list(names) or not all(isinstance(name, str) for name in names):
        raise InvalidGoldenFile("tools: expected names, or a JSON list of names")
    return tuple(map(str, names))


def _write_names(names: Sequence[str]) -> str:
    return ", ".join(names) if names and all(map(_PLAIN_NAME.fullmatch, names)) else json.dumps(list(names))


def _read_request(line: str) -> JsonObject:
    try:
        request: Json = json.loads(line)
    except ValueError:
        request = None
    if not is_object(request):
        raise InvalidGoldenFile("request: expected a JSON object with the tools that were offered")
    return request


def _in_one_line(text: str) -> str:
    return " ".join(text.split())
