"""Reads a regular expression of the regular subset that tool grammars use; lookaround and backreferences are refused.

Lazy quantifiers are read as greedy ones: for a match of the whole text, both derive the same texts.
"""

from __future__ import annotations

from forge_proxy.core.tool_grammars.nodes import (
    LAST_CODE,
    MAX_DEPTH,
    CharSet,
    LiteralText,
    Node,
    Repetition,
    UnsupportedGrammar,
    in_order,
    one_of,
)

_MAX_REPEAT = 1_000
"""Maximum number in `{m,n}`."""
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "a": "\a", "0": "\0"}
_HEX_DIGITS = {"x": 2, "u": 4, "U": 8}
_NOT_REGULAR = frozenset("123456789bBAzZGkKpPXRN")
"""Escapes for positions, earlier groups or Unicode properties."""


class RegexReader:
    """Reads one regular expression. `flags` are Python's letters: i, m, s, x, l, u."""

    def __init__(self, pattern: str, flags: str = "") -> None:
        if "x" in flags:
            raise UnsupportedGrammar("a regular expression in verbose mode")
        self._pattern = pattern
        self._at = 0
        self._ignore_case = "i" in flags
        self._dot = CharSet(((0, LAST_CODE),)) if "s" in flags else CharSet(((10, 10),), negated=True)

    def read(self) -> Node:
        """Return the whole expression as a node. Raises `UnsupportedGrammar`."""
        if self._pattern.startswith("(?i)"):
            self._at, self._ignore_case = 4, True
        node = self._alternatives(0)
        if self._at < len(self._pattern):
            raise UnsupportedGrammar("a regular expression with an unopened group")
        return node

    def _alternatives(self, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise UnsupportedGrammar("a regular expression that is nested too deeply")
        options = [self._sequence(depth)]
        while self._accept("|"):
            options.append(self._sequence(depth))
        return one_of(options)

    def _sequence(self, depth: int) -> Node:
        parts: list[Node] = []
        while self._at < len(self._pattern) and self._peek() not in "|)":
            parts.append(self._read_quantifier(self._atom(depth)))
        return in_order(parts)

    def _read_quantifier(self, node: Node) -> Node:
        if self._accept("*"):
            node = Repetition(node)
        elif self._accept("+"):
            node = Repetition(node, 1)
        elif self._accept("?"):
            node = Repetition(node, 0, 1)
        elif self._peek() == "{" and (counts := self._counts()) is not None:
            node = Repetition(node, *counts)
        else:
            return node
        if self._accept("+"):
            raise UnsupportedGrammar("a possessive quantifier")
        self._accept("?")
        if self._peek() and self._peek() in "*+?":
            raise UnsupportedGrammar("a repeated quantifier")
        return node

    def _counts(self) -> tuple[int, int | None] | None:
        """Read `{m}`, `{m,}` or `{m,n}`; None if the brace is an ordinary character."""
        end = self._pattern.find("}", self._at, self._at + 20)
        low, comma, high = self._pattern[self._at + 1 : end].partition(",") if end > 0 else ("", "", "")
        if not (low + high).isdecimal() or not (low + high).isascii():
            return None
        self._at = end + 1
        counts = int(low or 0), (int(high) if high else None) if comma else int(low)
        if max(counts[0], counts[1] or 0) > _MAX_REPEAT or (counts[1] is not None and counts[0] > counts[1]):
            raise UnsupportedGrammar("a repetition with such counts")
        return counts

    def _atom(self, depth: int) -> Node:
        letter = self._next()
        match letter:
            case "(":
                return self._group(depth)
            case "[":
                return self._char_class()
            case ".":
                return self._dot
            case "\\":
                found = self._escape()
                return found if isinstance(found, CharSet) else LiteralText(found, self._ignore_case)
            case "^" | "$":
                raise UnsupportedGrammar("an anchor inside a regular expression")
            case "*" | "+" | "?":
                raise UnsupportedGrammar("a quantifier without an expression")
            case _:
                return LiteralText(letter, self._ignore_case)

    def _group(self, depth: int) -> Node:
        if self._accept("?"):
            if self._accept("P<") or (self._peek() == "<" and self._pattern[self._at + 1 : self._at + 2] not in "=!"):
                end = self._pattern.find(">", self._at)
                self._at = end + 1 if end > 0 else len(self._pattern)
            elif not self._accept(":"):
                raise UnsupportedGrammar("lookaround or flags inside a regular expression")
        node = self._alternatives(depth + 1)
        if not self._accept(")"):
            raise UnsupportedGrammar("a regular expression with an unclosed group")
        return node

    def _char_class(self) -> CharSet:
        negated = self._accept("^")
        ranges: list[tuple[int, int]] = []
        categories = ""
        is_first = True
        while is_first or self._peek() != "]":
            is_first = False
            low = self._class_member()
            if isinstance(low, CharSet):
                categories += low.categories
            elif self._peek() == "-" and self._pattern[self._at + 1 : self._at + 2] not in ("]", ""):
                self._at += 1
                high = self._class_member()
                if isinstance(high, CharSet) or high < low:
                    raise UnsupportedGrammar("a range of characters that is reversed or ends in a class")
                ranges.append((ord(low), ord(high)))
            else:
                ranges.append((ord(low), ord(low)))
        self._at += 1
        return CharSet(tuple(ranges), categories, negated=negated, ignore_case=self._ignore_case)

    def _class_member(self) -> CharSet | str:
        letter = self._next()
        if letter == "[" and self._peek() == ":":
            raise UnsupportedGrammar("a POSIX class")
        if letter != "\\":
            return letter
        return "\b" if self._accept("b") else self._escape()

    def _escape(self) -> CharSet | str:
        letter = self._next()
        if letter in "dswDSW":
            return CharSet(categories=letter)
        if letter in _HEX_DIGITS:
            digits = self._pattern[self._at : self._at + _HEX_DIGITS[letter]]
            self._at += len(digits)
            return read_code(digits, _HEX_DIGITS[letter])
        if letter in _NOT_REGULAR:
            raise UnsupportedGrammar(f"the escape \\{letter}")
        return _ESCAPES.get(letter, letter)

    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _next(self) -> str:
        if self._at == len(self._pattern):
            raise UnsupportedGrammar("a regular expression that ends too early")
        self._at += 1
        return self._pattern[self._at - 1]

    def _accept(self, text: str) -> bool:
        is_next = self._pattern.startswith(text, self._at)
        self._at += len(text) if is_next else 0
        return is_next


def read_regex(pattern: str, flags: str = "") -> Node:
    """Return a regular expression as a node. Raises `UnsupportedGrammar`."""
    return RegexReader(pattern, flags).read()


def read_whole_regex(pattern: str) -> Node:
    """Return the expression of a `regex` grammar: it matches the whole text, with or without anchors."""
    begin = next((anchor for anchor in ("^", "\\A") if pattern.startswith(anchor)), "")
    body = pattern[len(begin) :]
    end = next((anchor for anchor in ("\\z", "\\Z", "$") if body.endswith(anchor)), "")
    before = body[: len(body) - len(end)] if end else body
    is_escaped = (len(before) - len(before.rstrip("\\"))) % 2 == 1
    return read_regex(body if is_escaped else before)


def read_code(digits: str, length: int) -> str:
    """Return the character of a hexadecimal code. Raises `UnsupportedGrammar`."""
    if len(digits) < length or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
        raise UnsupportedGrammar("an escape that is not hexadecimal")
    code = int(digits, 16)
    if code > LAST_CODE:
        raise UnsupportedGrammar("an escape beyond Unicode")
    return chr(code)
