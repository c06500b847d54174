"""Checks of a terminal call's arguments: strict in facts, tolerant of wording, case and the way numbers are written.

A check says in words what is wrong, or gives None. Arguments may be of any type: with the guardrails off nobody has
held the model to the tool's schema.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object

Check: TypeAlias = Callable[[JsonObject], str | None]
Fact: TypeAlias = str | tuple[str, ...] | float
"""A phrase, several equivalent phrases, or a number in any format."""

_NUMBER = re.compile(r"(?:(?<![\w.,])|(?<=\bEUR))[-−+]?\d+(?:[.,' \u00a0\u202f]\d+)*")
_THOUSANDS = re.compile(r"\d{1,3}([., '\u00a0\u202f])\d{3}(?:\1\d{3})*(?:[.,]\d+)?")
_MERIDIEM = re.compile(r"\b([ap])\.\s?m\b", re.IGNORECASE)
_WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
_ONE = rf"(?:{_NUMBER.pattern}|\b(?:{'|'.join(_WORDS)})\b)"
_EITHER = re.compile(rf"({_ONE})\s*(?:[,;/–]|\bor\b|\band\b|\bto\b)\s*({_ONE})", re.IGNORECASE)
"""Two alternative readings of a number."""


def every(*checks: Check) -> Check:
    """Return the first fault of several checks."""

    def check(args: JsonObject) -> str | None:
        return next((wrong for one in checks if (wrong := one(args))), None)

    return check


def says(field: str, *facts: Fact) -> Check:
    """Check that the text contains each fact, anywhere."""

    def check(args: JsonObject) -> str | None:
        told = _text_of(args.get(field))
        missing = next((fact for fact in facts if not _stands_in(told, fact)), None)
        return None if missing is None else f"{field} does not name {_format_fact(missing)}: {_quoted(args, field)}"

    return check


def never_says(field: str, *facts: Fact) -> Check:
    """Check that the text contains none of these facts, which are wrong for the scenario."""

    def check(args: JsonObject) -> str | None:
        told = _text_of(args.get(field))
        found = next((fact for fact in facts if _stands_in(told, fact)), None)
        return None if found is None else f"{field} names {_format_fact(found)}, which is wrong: {_quoted(args, field)}"

    return check


def is_name(field: str, *names: str) -> Check:
    """Check that the value is one of these spellings of a name or id, except for an article or punctuation."""

    def check(args: JsonObject) -> str | None:
        told = _plain(_text_of(args.get(field))).removeprefix("the ").removeprefix("# ")
        return None if told in map(_plain, names) else f"{field} should be {names[0]}, not {_quoted(args, field)}"

    return check


def is_number(field: str, value: float, within: float = 0) -> Check:
    """Check that the value is this number, or text with a unit and thousands separators; `within` allows rounding.

    Of alternatives, as `5 or 6` or a list, each has to be that number: two guesses are not an answer.
    """

    def is_it(said: Json) -> bool:
        return any(abs(read - value) <= within + 1e-9 for read in _numbers_of(said))

    def check(args: JsonObject) -> str | None:
        if all(map(is_it, _alternatives(args.get(field)))):
            return None
        return f"{field} should be {value:g}, not {_quoted(args, field)}"

    return check


def is_set(field: str, *names: str) -> Check:
    """Check that the value lists exactly these names, in any order: as a list, or as text with commas or `and`."""

    def check(args: JsonObject) -> str | None:
        listed = {_plain(one) for one in _listed(args.get(field))} - {""}
        wanted = {_plain(name): name for name in names}
        if missing := [name for plain, name in wanted.items() if plain not in listed]:
            return f"{field} lacks {', '.join(missing)}: {_quoted(args, field)}"
        if extra := sorted(listed - set(wanted)):
            return f"{field} names {', '.join(extra)}, which should not be there"
        return None

    return check


def _listed(value: Json) -> Iterator[str]:
    if is_list(value):
        for one in value:
            yield from _listed(one)
    elif value is not None:
        yield from re.split(r"[,;\n]|\band\b|&", _text_of(value))


def _text_of(value: Json) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case _ if is_list(value):
            return ", ".join(map(_text_of, value))
        case _ if is_object(value):
            return ", ".join(f"{key}: {_text_of(inner)}" for key, inner in value.items())
        case _:
            return str(value)


def _plain(told: str) -> str:
    """Normalize a text to words and numbers: lower case, without accents and punctuation, single spaces."""
    letters = unicodedata.normalize("NFKD", _MERIDIEM.sub(r"\1m", told).casefold())
    letters = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return " ".join(re.findall(r"\d+|[^\W\d_]+|[%#]", letters))


def _stands_in(told: str, fact: Fact) -> bool:
    if isinstance(fact, tuple):
        return any(_stands_in(told, one) for one in fact)
    if isinstance(fact, str):
        return f" {_plain(fact)} " in f" {_plain(told)} "
    return any(abs(read - fact) < 1e-9 for read in _numbers_of(told))


def _numbers_of(value: Json) -> Iterator[float]:
    """Return every number in the value. A separator can be ambiguous, as in 1.250: then both readings."""
    if isinstance(value, bool):
        return
    if isinstance(value, int | float):
        yield float(value)
        return
    told = re.sub(r"\bminus (?=\d)", "-", _text_of(value))
    for found in _NUMBER.findall(told):
        yield from _readings(found.replace("−", "-"))
    for word in re.findall(r"[a-z]+", told.casefold()):
        if word in _WORDS:
            yield float(_WORDS.index(word))


def _alternatives(value: Json) -> Sequence[Json]:
    """Return alternatives: the items of a list, or numbers separated by `or`."""
    if is_list(value):
        return value or [None]
    found = _EITHER.search(_text_of(value)) if isinstance(value, str) else None
    return [found[1], found[2]] if found else [value]


def _readings(written: str) -> Iterator[float]:
    sign, digits = (-1.0, written[1:]) if written[0] == "-" else (1.0, written.lstrip("+"))
    if grouped := _THOUSANDS.fullmatch(digits):
        mark = grouped[1]
        yield sign * float(digits.replace(mark, "").replace(",", "."))
    decimal = digits.replace(",", ".")
    if re.fullmatch(r"\d+(?:\.\d+)?", decimal):
        yield sign * float(decimal)
    elif not grouped:  # several numbers in a row, as in "3, 4"
        for part in re.findall(r"\d+", digits):
            yield float(part)


def _quoted(args: JsonObject, field: str) -> str:
    if field not in args:
        return "it is missing"
    told = _text_of(args[field])
    return repr(told if len(told) <= 160 else f"{told[:160]}…")


def _format_fact(fact: Fact) -> str:
    match fact:
        case tuple():
            return " or ".join(fact)
        case str():
            return repr(fact)
        case _:
            return f"{fact:g}"
