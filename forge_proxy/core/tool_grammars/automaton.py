"""Compiles a grammar to a network of states: recursive rules are called, all others are inlined.

Without calls it is a finite automaton, and texts are matched in linear time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from forge_proxy.core.tool_grammars.nodes import (
    MAX_DEPTH,
    Alternation,
    CharSet,
    Concatenation,
    Labelled,
    LiteralText,
    Node,
    Repetition,
    RuleReference,
    RuleSet,
    UnsupportedGrammar,
    references,
)

MAX_RULES = 500
MAX_STATES = 20_000
"""Maximum states of one grammar, about 10 MB."""


@dataclass(slots=True)
class State:
    """A state with its transitions; targets are numbers of states."""

    empty: list[int] = field(default_factory=list[int])
    """Targets reached without a character."""
    chars: int | None = None
    """The set of the transition's characters, by its index in `Automaton.char_sets`."""
    after_char: int = 0
    calls: int | None = None
    """The state with which a called rule begins."""
    after_call: int = 0
    ends: int | None = None
    """The first state of the rule that ends here."""
    label: str = ""
    """The terminal that is expected here, for messages."""


@dataclass(frozen=True, slots=True)
class Automaton:
    """The states of a grammar; a text begins in state `begin` and may end in state `end`."""

    states: list[State]
    begin: int
    end: int
    has_calls: bool
    char_sets: tuple[CharSet, ...]
    """The distinct sets of characters on transitions."""


def compile_rules(grammar: RuleSet) -> Automaton:
    """Return the automaton of a grammar. Raises `UnsupportedGrammar` if it is too large."""
    if len(grammar.rules) > MAX_RULES:
        raise UnsupportedGrammar("a grammar with too many rules")
    return _Compiler(grammar).compile()


class _Compiler:
    def __init__(self, grammar: RuleSet) -> None:
        self._grammar = grammar
        self._recursive = find_recursive(grammar)
        self._states: list[State] = []
        self._begins: dict[str, int] = {}
        self._pending: list[str] = []
        self._sets: dict[CharSet, int] = {}

    def compile(self) -> Automaton:
        begin = self._state()
        end = self._add(RuleReference(self._grammar.start), begin, "", 0)
        while self._pending:
            name = self._pending.pop()
            first = self._begins[name]
            self._states[self._add(self._grammar.rules[name], first, "", 0)].ends = first
        return Automaton(self._states, begin, end, bool(self._begins), tuple(self._sets))

    def _state(self) -> int:
        if len(self._states) == MAX_STATES:
            raise UnsupportedGrammar("a grammar that is too large")
        self._states.append(State())
        return len(self._states) - 1

    def _add(self, node: Node, at: int, label: str, depth: int) -> int:
        """Add the states of a node that begins in state `at`, and return the state in which it ends."""
        if depth > 2 * MAX_DEPTH:
            raise UnsupportedGrammar("rules that are nested too deeply")
        match node:
            case CharSet():
                return self._add_char(node, at, label)
            case LiteralText(text, ignore_case):
                for letter in text:
                    at = self._add_char(CharSet(((ord(letter), ord(letter)),), ignore_case=ignore_case), at, label)
                return at
            case Concatenation(parts):
                for part in parts:
                    at = self._add(part, at, label, depth + 1)
                return at
            case Alternation(options):
                end = self._state()
                for option in options:
                    self._join(self._add(option, self._fork(at), label, depth + 1), end)
                return end
            case Repetition(part, low, high):
                return self._add_repetition(part, low, high, at, label, depth)
            case Labelled(part, own):
                return self._add(part, at, own, depth + 1)
            case RuleReference(name):
                return self._add_reference(name, at, label, depth)

    def _add_char(self, chars: CharSet, at: int, label: str) -> int:
        at = self._fork(at)
        state = self._states[at]
        state.chars = self._sets.setdefault(chars, len(self._sets))
        state.label = label
        state.after_char = self._state()
        return state.after_char

    def _add_repetition(self, part: Node, low: int, high: int | None, at: int, label: str, depth: int) -> int:
        for _ in range(low):
            at = self._add(part, at, label, depth + 1)
        if high is None:
            loop = self._fork(at)
            self._join(self._add(part, self._fork(loop), label, depth + 1), loop)
            return self._fork(loop)
        end = self._state()
        for _ in range(high - low):
            self._join(at, end)
            at = self._add(part, self._fork(at), label, depth + 1)
        self._join(at, end)
        return end

    def _add_reference(self, name: str, at: int, label: str, depth: int) -> int:
        if name not in self._recursive:
            return self._add(self._grammar.rules[name], at, label, depth + 1)
        if name not in self._begins:
            self._begins[name] = self._state()
            self._pending.append(name)
        state = self._states[self._fork(at)]
        state.calls = self._begins[name]
        state.after_call = self._state()
        return state.after_call

    def _fork(self, at: int) -> int:
        """Return a new state reached from `at` without a character."""
        new = self._state()
        self._join(at, new)
        return new

    def _join(self, at: int, target: int) -> None:
        self._states[at].empty.append(target)


def find_recursive(grammar: RuleSet) -> frozenset[str]:
    """Return the rules that contain themselves, and those that contain such rules."""
    users: dict[str, list[str]] = {name: [] for name in grammar.rules}
    unresolved: dict[str, int] = {}
    for name, node in grammar.rules.items():
        parts = set(references(node))
        unresolved[name] = len(parts)
        for part in parts:
            users[part].append(name)
    pending = [name for name, number in unresolved.items() if number == 0]
    while pending:
        for user in users[pending.pop()]:
            unresolved[user] -= 1
            if unresolved[user] == 0:
                pending.append(user)
    return frozenset(name for name, number in unresolved.items() if number)
