"""The parts of a grammar: rules, terminals and regular expressions are all read into these nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from forge_proxy.core.fast_dataclass import fast_dataclass

MAX_DEPTH = 100
"""Maximum nesting of groups, and of rules inside rules."""
LAST_CODE = 0x10FFFF


class UnsupportedGrammar(ValueError):
    """The grammar cannot be used. The message names the construct, never the text of the grammar."""


@dataclass(frozen=True, slots=True)
class CharSet:
    """One character of a set: in one of the `ranges` (inclusive code points) or `categories`, or in none if `negated`.

    The categories are those of regular expressions: `d`, `s` and `w`, and in upper case their complements.
    """

    ranges: tuple[tuple[int, int], ...] = ()
    categories: str = ""
    negated: bool = False
    ignore_case: bool = False

    def contains(self, char: str) -> bool:
        """Whether the character is in the set."""
        forms = {char, char.lower(), char.upper()} if self.ignore_case else (char,)
        return any(self._lists(form) for form in forms if len(form) == 1) is not self.negated

    def _lists(self, char: str) -> bool:
        code = ord(char)
        return any(low <= code <= high for low, high in self.ranges) or any(
            _is_of_category(char, category) for category in self.categories
        )


@fast_dataclass
class LiteralText:
    """Exactly this text."""

    text: str
    ignore_case: bool = False


@fast_dataclass
class Concatenation:
    """The parts, one after another."""

    parts: tuple[Node, ...]


@fast_dataclass
class Alternation:
    """One of the options."""

    options: tuple[Node, ...]


@fast_dataclass
class Repetition:
    """A part repeated `low` to `high` times; without a limit if `high` is None."""

    part: Node
    low: int = 0
    high: int | None = None


@fast_dataclass
class RuleReference:
    """What the rule or terminal of this name derives."""

    name: str


@fast_dataclass
class Labelled:
    """A terminal with its `label` in messages, such as `"*** End Patch"` or `end of line`."""

    part: Node
    label: str


Node: TypeAlias = CharSet | LiteralText | Concatenation | Alternation | Repetition | RuleReference | Labelled
EMPTY = Concatenation(())


@fast_dataclass
class RuleSet:
    """A grammar: its rules and terminals by name, and the rule with which a text begins."""

    start: str
    rules: Mapping[str, Node]


def children(node: Node) -> tuple[Node, ...]:
    """Return the parts of a node."""
    match node:
        case Concatenation(parts) | Alternation(parts):
            return parts
        case Repetition(part) | Labelled(part):
            return (part,)
        case _:
            return ()


def transform(node: Node, change: Callable[[Node], Node]) -> Node:
    """Return the node with `change` applied to each of its parts and then to itself."""
    match node:
        case Concatenation(parts):
            node = Concatenation(tuple(transform(part, change) for part in parts))
        case Alternation(options):
            node = Alternation(tuple(transform(option, change) for option in options))
        case Repetition(part, low, high):
            node = Repetition(transform(part, change), low, high)
        case Labelled(part, label):
            node = Labelled(transform(part, change), label)
        case _:
            pass
    return change(node)


def references(node: Node) -> list[str]:
    """Return the names to which a node refers."""
    if isinstance(node, RuleReference):
        return [node.name]
    return [name for part in children(node) for name in references(part)]


def in_order(parts: Sequence[Node]) -> Node:
    """Return the concatenation of the parts; a single part unchanged."""
    return parts[0] if len(parts) == 1 else Concatenation(tuple(parts))


def one_of(options: Sequence[Node]) -> Node:
    """Return the alternation of the options; a single option unchanged."""
    return options[0] if len(options) == 1 else Alternation(tuple(options))


def _is_of_category(char: str, category: str) -> bool:
    match category:
        case "d":
            return char.isdecimal()
        case "s":
            return char.isspace()
        case "w":
            return char.isalnum() or char == "_"
        case _:
            return not _is_of_category(char, category.lower())
