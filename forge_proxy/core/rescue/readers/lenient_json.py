"""Reads a value as models break it: one tolerant reader for JSON, Python literals and what lies between.

Strict JSON is read elsewhere, and first; this reader is for what is left. It takes single, curly, triple and Gemma's
quotes, bare keys and words, comments, trailing and missing commas, `=` and `=>` for `:`, line breaks and unescaped
quotes in strings, tuples, joined strings, and brackets that were never closed. Every value it gives stands in the text:
a missing value or a string without an end makes the whole unreadable. Linear, never raises.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from forge_proxy.core.jsontypes import DECODER, Json
from forge_proxy.core.rescue.readers.escapes import NO_ESCAPE, unescape

_MAX_DEPTH = 64
_SPACE = re.compile(r"(?:\s+|//[^\n\"]*+(?=\n|\Z)|/\*(?:[^*\"]|\*(?!/))*+\*/|\#(?=\s)[^\n\"]*+(?=\n|\Z))*+")
"""White space and comments; what holds a quote is no comment: it may as well be part of a string that holds code."""
_QUOTES = {'"': '"', "'": "'", "“": "”", "‘": "’", "`": "`", '"""': '"""', "'''": "'''"}
_CLOSINGS = {quote: re.compile(rf"(?s:(?:(?!{quote})[^\\]|\\.)*+){quote}") for quote in ('"""', "'''")} | {
    quote: re.compile(rf"(?s:(?:[^{quote}\\]++|\\.)*+){quote}") for quote in "\"'”’`"
}
# The last group holds the quotes of Gemma's: they stand on both sides, and nothing between them is escaped.
_OPENING = re.compile(r"[rbuf]{0,2}(\"\"\"|'''|[\"'“‘`])|(<\|\"\|>|<escape>)", re.IGNORECASE)
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*+)(?:\.\d++)?(?:[eE][+-]?\d++)?(?=\s*+(?:[,;}\])]|//|/\*|\Z|<)|\s++[\"'“])")
_WORDS: dict[str, Json] = {
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
    "null": None, "None": None, "NULL": None, "nil": None,
}  # fmt: skip
_NO_VALUES = frozenset({"NaN", "nan", "Infinity", "-Infinity", "undefined", "...", "…"})
"""Words for what JSON has no value for, or for one that was left out."""
_BARE = re.compile(r"[^\s,;{}\[\]()\"'`“”<>#][^,{}\[\]()\"“”\n<>]{0,200}")
_BARE_KEY = re.compile(r"(--)?([^\W\d][\w$.-]{0,127})")
_COLON = re.compile(r"\s*+(?:=>|:=|[:=])")
_OBJECT_END = re.compile(r"\s*}+\s*(?:<[^<>\s]{0,40}[|｜]>|<end_function_call>|\Z)")
_END = re.compile(r"\Z|</|<[|｜](?!\")|\[/|```|\]<\]")
"""What ends a call that was not closed: the end of the text, or markup that can only follow a call."""

# What may follow the quote that ends a string. A quote that none of it follows is part of the string.
_GAP = r"\s{0,64}(?://[^\n\"]{0,200}\n\s{0,64})?"
_QUOTED_KEY = r"(?:[\"'“`][^\"'“”`\n]{1,128}[\"'”`]|<\|\"\|>|<escape>)\s{0,32}(?:=>|[:=])"
_NEXT_KEY = rf"(?:{_QUOTED_KEY}|(?:--)?[^\W\d][\w$.-]{{0,127}}\s{{0,32}}(?:=>|[:=]))"
_STOP = r"(?:\Z|</|<[|｜](?!\")|\[/|```|\]<\])"
_AFTER_KEY = re.compile(r"\s{0,64}(?:=>|:=|[:=])")
_AFTER_MEMBER = re.compile(
    rf"{_GAP}(?:[}}\]]|[,;]{_GAP}(?:[}}]|{_NEXT_KEY}|[,#/]|{_STOP})|{_QUOTED_KEY}|(?<=\s)--[^\W\d]|\+\s|{_STOP})"
)
_AFTER_ITEM = re.compile(
    rf"{_GAP}(?:[\])}}]|[,;]{_GAP}(?:[\])}}\"'“`{{\[(\d,#/-]|[tTfFnN]|<\||<escape>|{_STOP})|\+\s|[\"'“]|{_STOP})"
)
_IN_A_ROW = re.compile(r"\"\s+\"")
"""Two strings with nothing between, rather than one with quotes in it."""
_KEY_INSIDE = re.compile(r"[\"'”]\s*,\s*[\"'“][\w$ -]+\Z")
"""How a string ends that is rather a string, a comma and a key whose value is missing."""


class LenientValue(NamedTuple):
    """A value, the place after it, and what had to be mended."""

    value: Json
    end: int
    repairs: frozenset[str]
    open: bool
    """Whether a bracket was still open where the text ended."""


class Unreadable(Exception):
    """There is no value here; never leaves this package."""


def read_loose(text: str, at: int) -> LenientValue | None:
    """The value at `at`, an object, a list or a text in quotes; None for what cannot be read without guessing."""
    reader = LenientReader(text, at)
    try:
        value = reader.value()
    except Unreadable:
        return None
    return LenientValue(value, reader.at, frozenset(reader.repairs), reader.open)


class LenientReader:
    """Reads values from one place on; `at` is the place that was come to."""

    def __init__(self, text: str, at: int) -> None:
        self.text = text
        self.at = at
        self.repairs: set[str] = set()
        self.open = False
        self.bare_words = True
        """Whether a word without quotes may be a text: in code it is a variable, which nobody knows the value of."""
        self._depth = 0

    def value(self, after: re.Pattern[str] = _AFTER_ITEM) -> Json:
        """The value that comes next. `after` says what may follow a string here. Raises `Unreadable`."""
        self.skip()
        text, at = self.text, self.at
        if text.startswith("{", at):
            return self._within(self._object)
        if text.startswith(("[", "("), at):
            return self._within(self._list)
        if _OPENING.match(text, at):
            return self._joined(after)
        return self._bare()

    def skip(self) -> None:
        """Go past white space and comments."""
        space = _SPACE.match(self.text, self.at)
        if space and space.end() > self.at:
            if not space.group().isspace():
                self.repairs.add("comments")
            self.at = space.end()

    def take(self, *marks: str) -> bool:
        """Go past one of these, if it stands here."""
        for mark in marks:
            if self.text.startswith(mark, self.at):
                self.at += len(mark)
                return True
        return False

    def ends_here(self) -> bool:
        """Whether the text of a call ends here without its brackets closed."""
        return _END.match(self.text, self.at) is not None

    def string(self, after: re.Pattern[str]) -> str:
        """The string whose quote stands here."""
        opening = _OPENING.match(self.text, self.at)
        if not opening:
            raise Unreadable
        if opening[2]:
            return self._between_tokens(opening)
        quote = opening[1]
        if quote != '"':
            self.repairs.add("quotes")
        start = opening.end()
        end = self._closing(_QUOTES[quote], start, after)
        self.at = end + len(quote)
        raw = self.text[start:end]
        if "r" in opening.group().removesuffix(quote).lower():
            return raw
        if "\n" in raw or "\t" in raw:
            self.repairs.add("line breaks")
        text = unescape(raw)
        if "\\" in raw and NO_ESCAPE.search(raw):
            self.repairs.add("escapes")
        return text

    def _within(self, read: Callable[[], Json]) -> Json:
        if self._depth >= _MAX_DEPTH:
            raise Unreadable
        self._depth += 1
        try:
            return read()
        finally:
            self._depth -= 1

    def _object(self) -> Json:
        self.at += 1
        members: dict[str, Json] = {}
        while not self._closed("}", "])"):
            key = self._key()
            members[key] = self.value(_AFTER_MEMBER)
            self._comma()
        return members

    def _list(self) -> Json:
        closer = "]" if self.text[self.at] == "[" else ")"
        if closer == ")":
            self.repairs.add("brackets")
        self.at += 1
        items: list[Json] = []
        before = self.at
        while not self._closed(closer, "})"):
            items.append(self.value())
            before = self.at
            self._comma()
        # In Python one value between parentheses is no tuple, unless a comma follows it.
        alone = closer == ")" and len(items) == 1 and "," not in self.text[before : self.at]
        return items[0] if alone else items

    def _closed(self, closer: str, others: str) -> bool:
        """Whether the list or object ends here: closed, or left open where what is around it ends."""
        self.skip()
        if self.take(closer):
            return True
        if self.ends_here():
            self.repairs.add("brackets")
            self.open = self.at == len(self.text)
            return True
        if self._depth > 1 and self.text[self.at] in others:
            self.repairs.add("brackets")
            return True
        return False

    def _comma(self) -> None:
        self.skip()
        before = self.at
        while self.take(",", ";"):
            self.skip()
        if (self.at == before and not self.ends_here() and self.text[self.at] not in "}])") or (
            self.at > before and self.text.startswith(("}", "]", ")"), self.at)
        ):
            self.repairs.add("commas")

    def _key(self) -> str:
        bare = _BARE_KEY.match(self.text, self.at)
        key = ""
        if bare:
            key = bare[2]
            self.at = bare.end()
            self.repairs.add("keys")
            if bare[1]:  # --key "value": nothing stands between
                return key
        else:
            key = self.string(_AFTER_KEY)
        colon = _COLON.match(self.text, self.at)
        if not colon:
            raise Unreadable
        if not colon.group().endswith(":"):
            self.repairs.add("colons")
        self.at = colon.end()
        return key

    def _joined(self, after: re.Pattern[str]) -> str:
        """A string, or several put together with `+`."""
        joined = self.string(after)
        while True:
            before = self.at
            self.skip()
            if not self.bare_words and _OPENING.match(self.text, self.at):  # code joins strings that stand in a row
                joined += self.string(after)
                continue
            if not self.text.startswith("+", self.at):
                self.at = before
                return joined
            self.at += 1
            self.skip()
            joined += self.string(after)
            self.repairs.add("joined strings")

    def _closing(self, quote: str, start: int, after: re.Pattern[str]) -> int:
        """Where the quote stands that ends the string."""
        at, inner = start, 0
        while found := _CLOSINGS[quote].match(self.text, at):
            at = found.end()
            if len(quote) > 1:
                return at - len(quote)
            if not after.match(self.text, at):
                self.repairs.add("quotes")
                inner += not (
                    quote in "'’" and self.text[at - 2 : at - 1].isalnum() and self.text[at : at + 1].isalnum()
                )
                continue
            # Quotes that belong to a text stand in pairs; otherwise nobody knows which of them ends it.
            if inner % 2 or (inner and _KEY_INSIDE.search(self.text, max(start, at - 200), at - 1)):
                break
            if inner and _IN_A_ROW.search(self.text, start, at - 1):
                break
            return at - 1
        raise Unreadable

    def _between_tokens(self, opening: re.Match[str]) -> str:
        end = self.text.find(opening[2], opening.end())
        if end < 0:  # forgotten: the object and the call end where the value does
            close = _OBJECT_END.search(self.text, opening.end())
            if not close:
                raise Unreadable
            self.repairs.add("quotes")
            end = self.at = close.start()
        else:
            self.at = end + len(opening[2])
        return self.text[opening.end() : end]

    def _bare(self) -> Json:
        number = _NUMBER.match(self.text, self.at)
        if number:
            try:
                value, self.at = DECODER.raw_decode(self.text, self.at)
            except ValueError as error:  # too large to be a number
                raise Unreadable from error
            return value
        bare = _BARE.match(self.text, self.at)
        if not bare or self.text.startswith(("(", "{", "["), bare.end()) or ": " in bare.group():
            raise Unreadable
        word = bare.group().rstrip()
        if not any(map(str.isalpha, word)) and " " in word:  # `1 2`: numbers, with something missing between
            raise Unreadable
        self.at += len(word)
        if word in _NO_VALUES or (word not in _WORDS and not self.bare_words):
            raise Unreadable
        self.repairs.add("words")
        return _WORDS.get(word, word)
