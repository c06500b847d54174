"""Repairs the framing of a text that does not match its grammar: what surrounds it, never a line inside it.

A repair is accepted only if its result matches the grammar. Which texts match is the caller's to decide.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import orjson

from forge_proxy.core.fast_dataclass import fast_dataclass
from forge_proxy.core.jsontypes import Json, is_list, is_object
from forge_proxy.core.tool_grammars.patch_framing import PATCH_STEPS, has_patch_markers

_MAX_STEPS = 4
"""Maximum number of repairs of one text: a heredoc in a fence in JSON, without its last line."""
_MAX_CANDIDATES = 200
_MAX_CHARS = 2_000_000
"""Maximum characters of all candidates together, about 0.4 s."""
_MAX_NESTING = 4
_FENCE = re.compile(r"[ \t]*(?:`{3,}|~{3,})[\w.+-]*[ \t]*\r?\n")
_FENCE_END = re.compile(r"(?:\A|\n)[ \t]*(?:`{3,}|~{3,})[ \t]*\s*\Z")
_HEREDOC = re.compile(r"[^\n]{0,200}<<-?[ \t]*(['\"]?)(\w{1,30})\1[^\n]{0,100}\n")
_COMMAND_WORD = re.compile(r"[\w./-]{1,60}")

RepairStep = Callable[[str], str | None]


@fast_dataclass
class FramingRepair:
    """A text that matches its grammar, and the names of the repairs that led to it."""

    text: str
    repairs: tuple[str, ...]


def repair_framing(
    text: str, definition: str, matches: Callable[[str], bool], *, is_complete: bool = True
) -> FramingRepair | None:
    """Return the text without wrong framing; None if no repair leads to a text that matches.

    If the text may have been cut off, as `is_complete` reports, its missing end is not added. Repairs that the format
    of Codex's patches allows apply if the `definition` of the grammar contains its markers. The fewest repairs win.
    """
    steps = dict(_STEPS)
    if has_patch_markers(definition):
        steps |= PATCH_STEPS
        if not is_complete:
            del steps["missing end"]
    current = [_with_line_endings(FramingRepair(text, ()))]
    if current[0].repairs and "\r" not in current[0].text and matches(current[0].text):
        return current[0]
    seen = {text, current[0].text}
    room = _MAX_CHARS
    for _ in range(_MAX_STEPS):
        following: list[FramingRepair] = []
        for candidate in _candidates(current, steps, seen):
            room -= len(candidate.text)
            if room < 0 or len(seen) > _MAX_CANDIDATES:
                return None
            # A CR that is left may belong to the framing, or to the content.
            if "\r" not in candidate.text and matches(candidate.text):
                return candidate
            following.append(candidate)
        current = following
    return None


def _candidates(
    current: Sequence[FramingRepair], steps: dict[str, RepairStep], seen: set[str]
) -> Iterator[FramingRepair]:
    for one in current:
        if one.repairs[-1:] and one.repairs[-1] in _LAST:
            continue
        for name, step in steps.items():
            changed = step(one.text)
            if changed is not None and changed not in seen:
                repaired = _with_line_endings(FramingRepair(changed, (*one.repairs, name)))
                seen |= {changed, repaired.text}
                yield repaired


def _with_line_endings(repair: FramingRepair) -> FramingRepair:
    """Return the text with LF for CRLF, if each of its lines ends with CRLF: a terminal may contain CR."""
    text = repair.text
    breaks = text.count("\r\n")
    if breaks == 0 or breaks != text.count("\n"):
        return repair
    return FramingRepair(text.replace("\r\n", "\n"), (*repair.repairs, "line endings"))


def _unwrap_json(text: str) -> str | None:
    """Return the only text in JSON such as `{"patch": "…"}` or `["apply_patch", "…"]`."""
    if not text.lstrip().startswith(('"', "{", "[")):
        return None
    try:
        value: Json = orjson.loads(text)
    except ValueError:
        return None
    return _only_text(value, 0)


def _only_text(value: Json, depth: int) -> str | None:
    if isinstance(value, str):
        return value
    if depth == _MAX_NESTING:
        return None
    if is_object(value) and len(value) == 1:
        return _only_text(next(iter(value.values())), depth + 1)
    if is_list(value) and value and all(isinstance(one, str) and _COMMAND_WORD.fullmatch(one) for one in value[:-1]):
        return _only_text(value[-1], depth + 1)
    return None


def _unwrap_heredoc(text: str) -> str | None:
    """Return the lines of a heredoc such as `apply_patch <<'EOF'`."""
    begin = _HEREDOC.match(text.lstrip())
    if begin is None:
        return None
    body = text.lstrip()[begin.end() :]
    end = re.search(rf"^[ \t]*{begin[2]}[ \t]*\r?$", body, re.MULTILINE)
    if end is None or body[end.end() :].strip(" \t\r\n\"')"):
        return None
    return body[: end.start()]


def _unwrap_fence(text: str) -> str | None:
    """Return the text in a code fence, even if one of its lines is missing."""
    begin = _FENCE.match(text.lstrip("\n"))
    body = text.lstrip("\n")[begin.end() :] if begin else text
    end = _FENCE_END.search(body[-200:]) if "```" in body[-200:] or "~~~" in body[-200:] else None
    if end is not None:
        body = body[: len(body) - len(end[0])] + "\n"
    return None if begin is None and end is None else body


def _drop_blank_lines(text: str) -> str | None:
    """Return the text without blank lines before it and empty lines after it: a last line of spaces may be content."""
    lines = text.split("\n")
    first, last = 0, len(lines)
    while first < last and not lines[first].strip():
        first += 1
    while first < last and not lines[last - 1]:
        last -= 1
    kept = "\n".join(lines[first:last]) + "\n" * (last < len(lines))
    return kept if first < last and kept != text else None


def _end_line(text: str) -> str | None:
    return None if text.endswith("\n") else f"{text}\n"


def _drop_final_newline(text: str) -> str | None:
    return text[:-1] if text.endswith("\n") else None


def _dedent(text: str) -> str | None:
    """Return the text without the indentation of its first line, if all lines have it."""
    indentation = text[: len(text) - len(text.lstrip(" \t"))]
    lines = text.split("\n")
    if not indentation or not all(line.startswith(indentation) or not line.strip() for line in lines):
        return None
    return "\n".join(line.removeprefix(indentation) for line in lines)


_STEPS: dict[str, RepairStep] = {
    "final newline added": _end_line,
    "final newline removed": _drop_final_newline,
    "blank lines": _drop_blank_lines,
    "code fence": _unwrap_fence,
    "JSON": _unwrap_json,
    "heredoc": _unwrap_heredoc,
    "indentation": _dedent,
}
"""The repairs that apply to any grammar, simplest first, by their names in reports."""
_LAST = frozenset({"final newline added", "final newline removed"})
"""The repairs that no other one follows: a last line that was not ended may be cut off."""
