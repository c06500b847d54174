"""Last resort for a broken object: json_repair supplies its structure, the text supplies its content.

For texts that `lenient_json.py` cannot read. Runs in a separate process, because a long text takes seconds. json_repair
returns a result for any input, including values that the model never wrote. Its result is therefore only a plan: the
reader follows it through the text and copies every key and value from there. If one is missing in the text, or
anything but punctuation and comments remains, the object is rejected.
"""

from __future__ import annotations

import re
from typing import Literal

from forge_proxy.core.jsontypes import Json, is_list, is_object, read_object, read_value, write
from forge_proxy.core.rescue.readers.escapes import unescape

_LONGEST = 1_000_000
_CLOSING = {'"': '"', "'": "'", "“": "”"}
_COMMENT = r"(?://|\#)[^\"\n]*+(?=\n|\Z)|/\*(?:[^\"*]|\*(?!/))*+\*/"
"""Text that contains a quote is not a comment, because it may be part of a string of code."""
_SPACE = re.compile(rf"(?:\s+|{_COMMENT})*+")
_GAP = re.compile(rf"(?:[\s,;]+|{_COMMENT})*+")
_COLON = re.compile(r"\s*+:\s*+")
_HIGH, _LOW, _HEX = "[dD][89abAB][0-9a-fA-F]{2}", "[dD][c-fC-F][0-9a-fA-F]{2}", "[0-9a-fA-F]"
_ESCAPE = rf"\\u{_HIGH}\\u{_LOW}|\\u{_HEX}{{4}}|\\x{_HEX}{{2}}|\\."
_FRAGMENT = re.compile(rf"{_ESCAPE}|[\"'“”]|[^\\\"'“”]++", re.DOTALL)
_UNRELIABLE = re.compile(r"[\s\\]+")
"""Characters that json_repair sometimes drops from strings or adds to them."""
_NUMBER_OR_WORD = re.compile(r"[\w.+-]+")
_BARE_KEY = re.compile(r"[\w$-]+")
_WORDS = {"true": True, "false": False, "null": None, "none": None}
_NO_TEXTS = (*_WORDS, "nan", "infinity", "undefined")
_BARE_TEXT = re.compile(r"[^\W\d][\w .@%+-]*")
_END_OF_BARE = re.compile(r"\s*+(?:[,;}\]\"'“]|//|/\*|\#)")
_CLOSED = re.compile(r"[\s}\]]*+")

# An unescaped quote inside a string is ambiguous before one of these: it may be the end of the string.
_REMARK = r"\s*+(?://|/\*|\#)"
_NEXT_MEMBER = re.compile(
    rf"\s*+(?:,\s*+)?(?:\"[^\"\n]{{0,128}}\"|'[^'\n]{{0,128}}'|“[^”\n]{{0,128}}”)\s*+:|(?:\s*+,\s*+|\s++)[\w$-]++\s*+:|\s*+\+\s*+[\"']|{_REMARK}"
)
_AFTER_STRING = re.compile(r"[\s,;:}\]/#]")
_AFTER_DOUBT = re.compile(r"\s*+[,;:}\]]")
_APOSTROPHE = re.compile(r"\w'\w")
_LAST_MEMBER = re.compile(r"\s*+,?\s*+\}[\s}\]]*+\Z")
_INNER_LAST = re.compile(r"\s*+,?\s*+\}[\s}\]]*+(?:,|\Z)")
_NEXT_ITEM = re.compile(rf"\s*+[,\]]|{_REMARK}")


def repair_object(text: str) -> str | None:
    """Return the JSON text of the broken object that spans `text`; None if that requires a guess.

    Numbers are kept as written. Never raises.
    """
    if not text.startswith("{") or len(text) > _LONGEST:
        return None
    if read_object(text) is not None:
        return text
    try:
        plan = _make_plan(text)
        return _PlanFollower(text).to_json(plan) if is_object(plan) else None
    except (_PlanMismatch, RecursionError, UnicodeError):  # UnicodeError: an unpaired surrogate cannot be encoded
        return None


def _make_plan(text: str) -> object:
    """Return the result of json_repair; None if it fails."""
    import json_repair  # only the process pool repairs: the daemon does not load it

    try:
        return json_repair.loads(text, skip_json_loads=True)
    except Exception:  # noqa: BLE001  the library may raise anything on model output
        return None


_Role = Literal["key", "member", "item"]


class _PlanMismatch(Exception):
    """The text does not match the plan."""


class _PlanFollower:
    """Follows a plan through a text and copies the content. `_at` is the current position."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0

    def to_json(self, plan: dict[str, Json]) -> str | None:
        """Return the whole text as JSON, or None. Raises `_PlanMismatch`."""
        result = self._read_value(plan, in_list=False)
        closed = _CLOSED.match(self._text, self._at)
        if closed:  # models write surplus closing brackets
            self._at = closed.end()
        self._skip(_GAP)
        if self._at < len(self._text):
            raise _PlanMismatch
        result.encode()
        return result if read_object(result) is not None else None

    def _read_value(self, plan: Json, *, in_list: bool) -> str:
        if is_object(plan):
            return self._read_object(plan)
        if is_list(plan):
            return self._read_list(plan)
        if not isinstance(plan, str):
            return self._read_word(plan)
        if self._text[self._at : self._at + 1] in _CLOSING:
            return write(self._read_quoted(plan, "item" if in_list else "member"))
        return write(self._read_bare_text(plan))

    def _read_object(self, plan: dict[str, Json]) -> str:
        self._consume_open("{")
        members: list[str] = []
        for key, value in plan.items():
            self._skip(_GAP)
            name = write(self._read_key(key))
            self._take(_COLON)
            self._skip(_SPACE)
            members.append(f"{name}: {self._read_value(value, in_list=False)}")
        self._consume_close("}")
        return "{" + ", ".join(members) + "}"

    def _read_list(self, plan: list[Json]) -> str:
        self._consume_open("[")
        items: list[str] = []
        for item in plan:
            self._skip(_GAP)
            items.append(self._read_value(item, in_list=True))
        self._consume_close("]")
        return "[" + ", ".join(items) + "]"

    def _consume_open(self, bracket: str) -> None:
        if not self._text.startswith(bracket, self._at):
            raise _PlanMismatch
        self._at += 1
        self._depth += 1

    def _consume_close(self, bracket: str) -> None:
        """Consume the closing bracket. It may be missing inside a container, but not at the end of the text: there the
        text may be truncated by an unknown amount.
        """
        self._depth -= 1
        self._skip(_GAP)
        if self._text.startswith(bracket, self._at):
            self._at += 1
        elif self._depth == 0 or self._at == len(self._text):
            raise _PlanMismatch

    def _read_key(self, key: str) -> str:
        if self._text[self._at : self._at + 1] in _CLOSING:
            return self._read_quoted(key, "key")
        bare = self._take(_BARE_KEY).group()
        if bare != key:
            raise _PlanMismatch
        return bare

    def _read_word(self, plan: Json) -> str:
        """Read a number as written, or true, false or null."""
        token = self._take(_NUMBER_OR_WORD).group()
        self._require(_END_OF_BARE)
        if isinstance(plan, bool) or plan is None:
            if _WORDS.get(token.lower(), "") is not plan:
                raise _PlanMismatch
            return write(plan)
        number = read_value(token, 0)
        if number is None or number[1] < len(token) or isinstance(number[0], bool) or number[0] != plan:
            raise _PlanMismatch
        return token

    def _read_bare_text(self, plan: str) -> str:
        """Read a string without quotes, which must be one or a few words."""
        if not self._text.startswith(plan, self._at) or not _BARE_TEXT.fullmatch(plan):
            raise _PlanMismatch
        if any(word.startswith(plan.lower()) for word in _NO_TEXTS):
            raise _PlanMismatch
        self._at += len(plan)
        self._require(_END_OF_BARE)
        return plan

    def _read_quoted(self, plan: str, role: _Role) -> str:
        """Read a quoted string; it must match the plan except for backslashes and white space."""
        start = self._at + 1
        closing = _CLOSING[self._text[self._at]]
        expected = _UNRELIABLE.sub("", plan.encode("utf-16", "surrogatepass").decode("utf-16"))
        matched = 0
        inner: list[int] = []
        pairs = 0
        for piece in _FRAGMENT.finditer(self._text, start):
            fragment = piece.group()
            if fragment == closing:
                if matched == len(expected):
                    self._at = piece.end()
                    self._check_end(inner, role, odd=pairs % 2 == 1)
                    return unescape(self._text[start : piece.start()])
                inner.append(piece.end())
            pairs += fragment.removeprefix("\\") == closing and not _APOSTROPHE.match(self._text, piece.end() - 2)
            # json_repair does not support the form feed
            content = "f" if fragment == "\\f" else _UNRELIABLE.sub("", unescape(fragment))
            if not expected.startswith(content, matched):
                raise _PlanMismatch
            matched += len(content)
        raise _PlanMismatch

    def _check_end(self, inner: list[int], role: _Role, *, odd: bool) -> None:
        """Raise `_PlanMismatch` if the end of a string is ambiguous; `inner` are the positions after its inner quotes.

        The end is ambiguous if one of these quotes may also be the end, if they do not form pairs (`odd`), or if the
        text after the string cannot follow a string.
        """
        self._require(_AFTER_DOUBT if inner else _AFTER_STRING)
        last = _INNER_LAST if self._depth > 1 else _LAST_MEMBER
        ends = (_NEXT_MEMBER, last) if role == "member" else (_NEXT_ITEM,)
        if odd or any(role == "key" or end.match(self._text, at) for at in inner for end in ends):
            raise _PlanMismatch

    def _skip(self, gap: re.Pattern[str]) -> None:
        skipped = gap.match(self._text, self._at)
        if skipped:
            self._at = skipped.end()

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str]:
        match = self._require(pattern)
        self._at = match.end()
        return match

    def _require(self, pattern: re.Pattern[str]) -> re.Match[str]:
        match = pattern.match(self._text, self._at)
        if not match:
            raise _PlanMismatch
        return match
