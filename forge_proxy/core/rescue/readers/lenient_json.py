"""Lenient reader for values that are broken JSON, Python literals, or a mixture.

Runs after strict JSON parsing has failed. Accepts single, curly, triple and Gemma's quotes, bare keys and words,
comments, trailing and missing commas, `=` and `=>` for `:`, line breaks and unescaped quotes in strings, tuples,
joined strings, and unclosed brackets. Never invents a value: a missing value or an unterminated string makes the whole
text unreadable. Runs in linear time; `read_lenient` never raises.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from forge_proxy.core.jsontypes import DECODER, Json
from forge_proxy.core.rescue.readers.escapes import NO_ESCAPE, unescape

_MAX_DEPTH = 64
_SPACE = re.compile(r"(?:\s+|//[^\n\"]*+(?=\n|\Z)|/\*(?:[^*\"]|\*(?!/))*+\*/|\#(?=\s)[^\n\"]*+(?=\n|\Z))*+")
"""White space and comments. Text that contains a quote is not a comment, because it may be part of a string of code."""
_QUOTES = {'"': '"', "'": "'", "“": "”", "‘": "’", "`": "`", '"""': '"""', "'''": "'''"}
_CLOSINGS = {quote: re.compile(rf"(?s:(?:(?!{quote})[^\\]|\\.)*+){quote}") for quote in ('"""', "'''")} | {
    quote: re.compile(rf"(?s:(?:[^{quote}\\]++|\\.)*+){quote}") for quote in "\"'”’`"
}
# The last group is Gemma's quote token, the same on both sides; nothing between two of them is escaped.
_OPENING = re.compile(r"[rbuf]{0,2}(\"\"\"|'''|[\"'“‘`])|(<\|\"\|>|<escape>)", re.IGNORECASE)
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*+)(?:\.\d++)?(?:[eE][+-]?\d++)?(?=\s*+(?:[,;}\])]|//|/\*|\Z|<)|\s++[\"'“])")
_WORDS: dict[str, Json] = {
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
    "null": None, "None": None, "NULL": None, "nil": None,
}  # fmt: skip
_NO_VALUES = frozenset({"NaN", "nan", "Infinity", "-Infinity", "undefined", "...", "…"})
"""Words without a JSON value, or placeholders for an omitted one."""
_BARE = re.compile(r"[^\s,;{}\[\]()\"'`“”<>#][^,{}\[\]()\"“”\n<>]{0,200}")
_BARE_KEY = re.compile(r"(--)?([^\W\d][\w$.-]{0,127})")
_COLON = re.compile(r"\s*+(?:=>|:=|[:=])")
_OBJECT_END = re.compile(r"\s*}+\s*(?:<[^<>\s]{0,40}[|｜]>|<end_function_call>|\Z)")
_END = re.compile(r"\Z|</|<[|｜](?!\")|\[/|```|\]<\]")
"""The end of an unclosed call: the end of the text, or markup that can only follow a call."""
_CUT_ENDS = ("", "<|", "<｜")
"""The end of a text, or a token that it cuts: the rest may have been Gemma's quote token."""

# Text that may follow a closing quote. A quote followed by anything else is part of the string.
_GAP = r"\s{0,64}(?:(?://[^\n\"]{0,200}\n|/\*[^*\"]{0,200}\*/)\s{0,64})?"
_QUOTED_KEY = r"(?:[\"'“`][^\"'“”`\n]{1,128}[\"'”`]|<\|\"\|>|<escape>)\s{0,32}(?:=>|[:=])"
_NEXT_KEY = rf"(?:{_QUOTED_KEY}|(?:--)?[^\W\d][\w$.-]{{0,127}}\s{{0,32}}(?:=>|[:=]))"
_STOP = r"(?:\Z|</|<[|｜](?!\")|\[/|```|\]<\])"
_STRAY = re.compile(r"<\|\"\|>(?=\s{0,16}[,}\]])")
"""Gemma's quote token after a string in other quotes."""
_AFTER_KEY = re.compile(r"\s{0,64}(?:=>|:=|[:=])")
_AFTER_MEMBER = re.compile(
    rf"(?:{_STRAY.pattern})?{_GAP}(?:[}}\]]|[,;]{_GAP}(?:[}}]|{_NEXT_KEY}|[,#/]|{_STOP})|{_QUOTED_KEY}|(?<=\s)--[^\W\d]|\+\s|{_STOP})"
)
_AFTER_ITEM = re.compile(
    rf"{_GAP}(?:[\])}}]|[,;]{_GAP}(?:[\])}}\"'“`{{\[(\d,#/-]|[tTfFnN]|<\||<escape>|{_STOP})|\+\s|[\"'“]|{_STOP})"
)
_IN_A_ROW = re.compile(r"\"\s+\"")
"""Two adjacent strings, rather than one with quotes in it."""
_KEY_INSIDE = re.compile(r"[\"'”]\s*,\s*[\"'“][\w$ -]+\Z")
"""The end of a candidate string that is in fact a string, a comma and a key without a value."""


class LenientValue(NamedTuple):
    """A value, the position after it, and its repairs."""

    value: Json
    end: int
    repairs: frozenset[str]
    open: bool
    """Whether a bracket was still open at the end of the text."""


class Unreadable(Exception):
    """No value can be read here. Never propagates out of this package."""


def read_lenient(text: str, at: int) -> LenientValue | None:
    """Read the object, list or quoted string at `at`; None if it cannot be read without guessing."""
    reader = LenientReader(text, at)
    try:
        value = reader.read_value()
    except Unreadable:
        return None
    return LenientValue(value, reader.at, frozenset(reader.repairs), reader.open)


class LenientReader:
    """Reads values sequentially; `at` is the current position."""

    def __init__(self, text: str, at: int) -> None:
        self.text = text
        self.at = at
        self.repairs: set[str] = set()
        self.open = False
        self.bare_words = True
        """Whether a word without quotes is a string. In code it is a variable of unknown value."""
        self._depth = 0

    def read_value(self, after: re.Pattern[str] = _AFTER_ITEM) -> Json:
        """Read the next value. `after` matches the text that may follow a string here. Raises `Unreadable`."""
        self.skip_space()
        text, at = self.text, self.at
        if text.startswith("{", at):
            return self._read_nested(self._read_object)
        if text.startswith(("[", "("), at):
            return self._read_nested(self._read_list)
        if _OPENING.match(text, at):
            return self._read_joined(after)
        return self._read_bare()

    def skip_space(self) -> None:
        """Skip white space and comments."""
        space = _SPACE.match(self.text, self.at)
        if space and space.end() > self.at:
            if not space.group().isspace():
                self.repairs.add("comments")
            self.at = space.end()

    def consume(self, *symbols: str) -> bool:
        """Consume one of `symbols` if it is at the current position; return whether one was."""
        for symbol in symbols:
            if self.text.startswith(symbol, self.at):
                self.at += len(symbol)
                return True
        return False

    def ends_here(self) -> bool:
        """Whether the text of a call ends here with its brackets unclosed."""
        return _END.match(self.text, self.at) is not None

    def read_string(self, after: re.Pattern[str]) -> str:
        """Read the string whose opening quote is at the current position. Raises `Unreadable`."""
        opening = _OPENING.match(self.text, self.at)
        if not opening:
            raise Unreadable
        if opening[2]:
            return self._read_between_tokens(opening)
        quote = opening[1]
        if quote != '"':
            self.repairs.add("quotes")
        start = opening.end()
        end = self._find_closing_quote(_QUOTES[quote], start, after)
        self.at = end + len(quote)
        if stray := _STRAY.match(self.text, self.at):
            self.at = stray.end()
        raw = self.text[start:end]
        if "r" in opening.group().removesuffix(quote).lower():
            return raw
        if "\n" in raw or "\t" in raw:
            self.repairs.add("line breaks")
        text = unescape(raw)
        if "\\" in raw and NO_ESCAPE.search(raw):
            self.repairs.add("escapes")
        return text

    def _read_nested(self, read: Callable[[], Json]) -> Json:
        if self._depth >= _MAX_DEPTH:
            raise Unreadable
        self._depth += 1
        try:
            return read()
        finally:
            self._depth -= 1

    def _read_object(self) -> Json:
        self.at += 1
        members: dict[str, Json] = {}
        while not self._consume_end("}", "])"):
            key = self._read_key()
            members[key] = self.read_value(_AFTER_MEMBER)
            self._consume_comma()
        return members

    def _read_list(self) -> Json:
        closer = "]" if self.text[self.at] == "[" else ")"
        if closer == ")":
            self.repairs.add("brackets")
        self.at += 1
        items: list[Json] = []
        before = self.at
        while not self._consume_end(closer, "})"):
            items.append(self.read_value())
            before = self.at
            self._consume_comma()
        # In Python, one value in parentheses is a tuple only if a comma follows it.
        is_parenthesized = closer == ")" and len(items) == 1 and "," not in self.text[before : self.at]
        return items[0] if is_parenthesized else items

    def _consume_end(self, closer: str, others: str) -> bool:
        """Whether the list or object ends here, either closed or unclosed at the end of its container."""
        self.skip_space()
        if self.consume(closer):
            return True
        if self.ends_here():
            self.repairs.add("brackets")
            self.open = self.text[self.at : self.at + 3] in _CUT_ENDS
            return True
        if self._depth > 1 and self.text[self.at] in others:
            self.repairs.add("brackets")
            return True
        return False

    def _consume_comma(self) -> None:
        self.skip_space()
        before = self.at
        while self.consume(",", ";"):
            self.skip_space()
        if (self.at == before and not self.ends_here() and self.text[self.at] not in "}])") or (
            self.at > before and self.text.startswith(("}", "]", ")"), self.at)
        ):
            self.repairs.add("commas")

    def _read_key(self) -> str:
        bare = _BARE_KEY.match(self.text, self.at)
        key = ""
        if bare:
            key = bare[2]
            self.at = bare.end()
            self.repairs.add("keys")
            if bare[1]:  # --key "value" has no separator
                return key
        else:
            key = self.read_string(_AFTER_KEY)
        colon = _COLON.match(self.text, self.at)
        if not colon:
            raise Unreadable
        if not colon.group().endswith(":"):
            self.repairs.add("colons")
        self.at = colon.end()
        return key

    def _read_joined(self, after: re.Pattern[str]) -> str:
        """Read a string, or several joined with `+`."""
        joined = self.read_string(after)
        while True:
            before = self.at
            self.skip_space()
            if not self.bare_words and _OPENING.match(self.text, self.at):  # Python joins adjacent strings
                joined += self.read_string(after)
                continue
            if not self.text.startswith("+", self.at):
                self.at = before
                return joined
            self.at += 1
            self.skip_space()
            joined += self.read_string(after)
            self.repairs.add("joined strings")

    def _find_closing_quote(self, quote: str, start: int, after: re.Pattern[str]) -> int:
        """Return the position of the quote that ends the string. Raises `Unreadable` if it is ambiguous."""
        at, inner_quotes = start, 0
        while match := _CLOSINGS[quote].match(self.text, at):
            at = match.end()
            if len(quote) > 1:
                return at - len(quote)
            if not after.match(self.text, at):
                self.repairs.add("quotes")
                inner_quotes += not (
                    quote in "'’" and self.text[at - 2 : at - 1].isalnum() and self.text[at : at + 1].isalnum()
                )
                continue
            # Quotes inside a string come in pairs; otherwise the closing quote is ambiguous.
            if inner_quotes % 2 or (inner_quotes and _KEY_INSIDE.search(self.text, max(start, at - 200), at - 1)):
                break
            if inner_quotes and _IN_A_ROW.search(self.text, start, at - 1):
                break
            return at - 1
        raise Unreadable

    def _read_between_tokens(self, opening: re.Match[str]) -> str:
        end = self.text.find(opening[2], opening.end())
        if end < 0:  # closer missing: the object and the call end with the value
            close = _OBJECT_END.search(self.text, opening.end())
            if not close:
                raise Unreadable
            self.repairs.add("quotes")
            end = self.at = close.start()
        else:
            self.at = end + len(opening[2])
        return self.text[opening.end() : end]

    def _read_bare(self) -> Json:
        number = _NUMBER.match(self.text, self.at)
        if number:
            try:
                value, self.at = DECODER.raw_decode(self.text, self.at)
            except ValueError as error:  # the number is too large
                raise Unreadable from error
            return value
        bare = _BARE.match(self.text, self.at)
        if not bare or self.text.startswith(("(", "{", "["), bare.end()) or ": " in bare.group():
            raise Unreadable
        word = bare.group().rstrip()
        if not any(map(str.isalpha, word)) and " " in word:  # `1 2`: numbers with a missing separator
            raise Unreadable
        self.at += len(word)
        if word in _NO_VALUES or (word not in _WORDS and not self.bare_words):
            raise Unreadable
        self.repairs.add("words")
        return _WORDS.get(word, word)
