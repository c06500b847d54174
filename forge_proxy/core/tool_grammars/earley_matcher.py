"""Matches texts against a recursive grammar by Earley's algorithm, with states of an automaton instead of dotted rules.

It handles left recursion and ambiguity. Only whether the text matches is computed, never its derivations.
"""

from __future__ import annotations

from forge_proxy.core.tool_grammars.automaton import Automaton, State
from forge_proxy.core.tool_grammars.matching import Alphabet, Mismatch, StepBudget, mismatch

_COLUMN = 4
"""Steps that count for a column itself."""


class EarleyMatcher:
    """Matches texts against one grammar. Threads may share it."""

    def __init__(self, automaton: Automaton) -> None:
        self._automaton = automaton
        self._alphabet = Alphabet(automaton.char_sets)

    def find_mismatch(self, text: str) -> Mismatch | None:
        """Return where the text leaves the grammar; None if it matches. Raises `TooCostly`."""
        states, budget = self._automaton.states, StepBudget()
        columns: list[_Column] = []
        column = _Column(states, columns, budget)
        column.fill([(self._automaton.begin, 0)])
        for at, char in enumerate(text):
            sets = self._alphabet.sets_with(char, budget)
            items = [(states[one].after_char, origin) for one, origin in column.items if states[one].chars in sets]
            if not items:
                return self._mismatch(at, column)
            budget.spend(_COLUMN)
            column = _Column(states, columns, budget)
            column.fill(items)
        return None if self._may_end(column) else self._mismatch(len(text), column)

    def _may_end(self, column: _Column) -> bool:
        return (self._automaton.end, 0) in column.items

    def _mismatch(self, at: int, column: _Column) -> Mismatch:
        states = self._automaton.states
        members = {one for one, _ in column.items if states[one].chars is not None}
        return mismatch(self._automaton, at, members, may_end=self._may_end(column))


class _Column:
    """The items at one position: pairs of a state and the column in which its rule began."""

    def __init__(self, states: list[State], columns: list[_Column], budget: StepBudget) -> None:
        self._states = states
        self._columns = columns
        self._budget = budget
        self._number = len(columns)
        columns.append(self)
        self.items: set[tuple[int, int]] = set()
        self.waiting: dict[int, list[tuple[int, int]]] = {}
        """Items that continue when a rule called here ends, by the first state of the rule."""
        self._empty_rules: set[int] = set()
        """The rules called here that derive the empty text."""

    def fill(self, items: list[tuple[int, int]]) -> None:
        """Add the items and all that follow from them without a character."""
        pending = items
        while pending:
            item = pending.pop()
            if item not in self.items:
                self.items.add(item)
                self._budget.spend(1)
                pending += self._follow(*item)

    def _follow(self, number: int, origin: int) -> list[tuple[int, int]]:
        state = self._states[number]
        following = [(target, origin) for target in state.empty]
        if state.calls is not None:
            after = (state.after_call, origin)
            self.waiting.setdefault(state.calls, []).append(after)
            following.append((state.calls, self._number))
            if state.calls in self._empty_rules:
                following.append(after)
        if state.ends is not None:
            if origin == self._number:
                self._empty_rules.add(state.ends)
            waiting = self._columns[origin].waiting.get(state.ends, ())
            self._budget.spend(len(waiting))
            following += waiting
        return following
