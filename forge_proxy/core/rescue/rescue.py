"""Reads the calls out of a whole text, and leaves the text around them."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace

from forge_proxy.core.chat import ToolCall
from forge_proxy.core.names import resolve_name
from forge_proxy.core.rescue.forms import READERS, Parsed, read_json, read_rehearsal
from forge_proxy.core.rescue.openers import openers
from forge_proxy.core.rescue.quotes import Quotes
from forge_proxy.core.rescue.unread import past_unread

_MAX_LEAD_IN = 400
"""A bare object after more text than this, in characters, is part of what is told and not a call (our judgement)."""
_MAX_BROKEN = 64
"""Places that look like a call and cannot be read; beyond this the text is not looked at further, to stay linear."""
_CLOSING_FENCE = re.compile(r"\s{0,8}```[ \t]{0,4}(?=\n|\Z)")
_ORPHANS = ("</tool_call>", "<|im_end|>", "<|eot_id|>", "</s>")


@dataclass(frozen=True, slots=True)
class Found:
    """A call in a text. `form` names how it was written, `start` and `end` where it stood."""

    call: ToolCall
    form: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Rescued:
    """What a text holds: its calls, the text without them, and whether a call was begun that cannot be read."""

    text: str
    calls: tuple[Found, ...] = ()
    broken: bool = False


@dataclass(frozen=True, slots=True)
class _Place:
    """A place that was read as calls, with how sure the form alone makes us."""

    parsed: Parsed
    start: int
    end: int
    explicit: bool


def rescue(text: str, names: Collection[str]) -> Rescued:
    """The calls that `text` holds, `names` being the tools that are offered.

    Explicit markup is a call wherever it stands outside code, also one of an unknown tool. Bare and fenced JSON is one
    only for an offered name, at the end of the text, after a short lead-in at most. Total: no input raises.
    """
    places, broken = _read_places(text, tuple(sorted(names)))
    found = [place for place in places if place.explicit]
    tail = _tail_of_loose(text, places)
    if tail and (found or len(text[: tail[0].start].strip()) <= _MAX_LEAD_IN):
        found = sorted((*found, *tail), key=lambda place: place.start)
    if not found:
        return Rescued(text, broken=broken)
    calls = tuple(Found(call, p.parsed.form, p.start, p.end) for p in found for call in p.parsed.calls)
    return Rescued(_around(text, found), calls, broken)


def _read_places(text: str, names: tuple[str, ...]) -> tuple[list[_Place], bool]:
    """Each place that reads as calls, in order, and whether explicit markup was found that does not."""
    places: list[_Place] = []
    at, failures, broken = 0, 0, False
    table = openers(names)
    quotes = Quotes(text)
    while failures < _MAX_BROKEN and (opener := table.find(text, at)):
        code = quotes.around(opener.start())
        if code and not _goes_on(text, places, code[0], opener.start()):
            at = code[1]
            continue
        place = _read_place(text, opener, names, fenced=code is not None)
        if place is None:
            failures += 1
            broken = broken or not (opener["json"] or opener["fence"] or code)
            at = past_unread(text, opener)
            continue
        places.append(place)
        quotes.pass_over(place.start, place.end)
        at = place.end
    return places, broken


def _goes_on(text: str, places: list[_Place], block: int, at: int) -> bool:
    """Whether what stands at `at` follows a call in the code block that begins at `block`, with nothing between."""
    return bool(places) and places[-1].start >= block and not text[places[-1].end : at].strip()


def _read_place(text: str, opener: re.Match[str], names: tuple[str, ...], *, fenced: bool) -> _Place | None:
    if opener["json"] is not None:
        parsed = read_json(text, opener.start("json"))
        if parsed:
            parsed = _with_offered_names(parsed, names)
    elif opener["rehearsal"] is not None:
        parsed = read_rehearsal(text, opener.end(), opener["rehearsal"])
    else:
        parsed = READERS[opener["marker"]](text, opener.end())
    if parsed is None:
        return None
    fenced = fenced or bool(opener["fence"] or opener["json_fence"])
    closing = _CLOSING_FENCE.match(text, parsed.end) if fenced else None
    end = closing.end() if closing else parsed.end
    form = f"fenced-{parsed.form}" if fenced else parsed.form
    return _Place(parsed._replace(form=form), opener.start(), end, explicit=opener["json"] is None and not fenced)


def _with_offered_names(parsed: Parsed, names: tuple[str, ...]) -> Parsed | None:
    """The same calls under offered names; None if one of them is of no offered tool: then it is just JSON."""
    resolved = [resolve_name(call.tool, names) for call in parsed.calls]
    if None in resolved:
        return None
    calls = [replace(call, tool=name) for call, name in zip(parsed.calls, resolved, strict=True) if name]
    return parsed._replace(calls=calls)


def _tail_of_loose(text: str, places: list[_Place]) -> list[_Place]:
    """The bare and fenced places with which the text ends; anything after such a place makes it a quotation."""
    tail: list[_Place] = []
    end = _end_of_words(text)
    for place in reversed(places):
        if text[place.end : end].strip():
            break
        end = place.start
        if not place.explicit:
            tail.append(place)
    return tail[::-1]


def _end_of_words(text: str) -> int:
    """Where the text ends but for white space and markup that closes nothing."""
    end = len(text.rstrip())
    while orphan := next((closer for closer in _ORPHANS if text.endswith(closer, 0, end)), None):
        end -= len(orphan)
        while end and text[end - 1].isspace():
            end -= 1
    return end


def _around(text: str, found: list[_Place]) -> str:
    """The text without the calls; what stood on both sides of a call is put on lines of its own."""
    pieces: list[str] = []
    at = 0
    for place in found:
        pieces.append(text[at : place.start])
        at = place.end
    pieces.append(text[at : _end_of_words(text)])
    kept = [pieces[0].rstrip(), *(piece.strip() for piece in pieces[1:])]
    return "\n".join(piece for piece in kept if piece)
