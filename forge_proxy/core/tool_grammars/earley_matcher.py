"""Matches texts against a recursive grammar by Earley's algorithm, with states of an automaton instead of dotted rules.

It handles left recursion and ambiguity. Only whether the text matches is computed, never its derivations.
"""

from __future__ import annotations

from collections.abc import Iterable

from forge_proxy.core.tool_grammars.automaton import Automaton
from forge_proxy.core.tool_grammars.matching import Alphabet, Mismatch, StepBudget, mismatch

_COLUMN = 4
"""Steps that count for a column itself."""
Waiting = dict[int, list[int]]
"""The items that continue when a rule ends, by the first state of the rule."""


class EarleyMatcher:
    """Matches texts against one grammar. Threads may share it.

    An item is a state and the position where its rule began, as one number: many small objects would make the garbage
    collector block the program. `position * number of states + state`.
    """

    def __init__(self, automaton: Automaton) -> None:
        self._automaton = automaton
        self._size = len(automaton.states)
        self._alphabet = Alphabet(automaton.char_sets)

    def find_mismatch(self, text: str) -> Mismatch | None:
        """Return where the text leaves the grammar; None if it matches. Raises `TooCostly`."""
        states, size, budget = self._automaton.states, self._size, StepBudget()
        waiting: list[Waiting] = []
        items = self._complete([self._automaton.begin], waiting, budget)
        for at, char in enumerate(text):
            sets = self._alphabet.sets_with(char, budget)
            following = [
                item - state + states[state].after_char for item in items if states[state := item % size].chars in sets
            ]
            if not following:
                return self._mismatch(at, items)
            items = self._complete(following, waiting, budget)
        return None if self._automaton.end in items else self._mismatch(len(text), items)

    def _mismatch(self, at: int, items: Iterable[int]) -> Mismatch:
        members = {item % self._size for item in items if self._automaton.states[item % self._size].chars is not None}
        return mismatch(self._automaton, at, members, may_end=self._automaton.end in items)

    def _complete(self, pending: list[int], waiting: list[Waiting], budget: StepBudget) -> set[int]:
        """Return the items of the next position: the pending ones, and all that follow from them without a character.

        Appends the items of this position that wait for the end of a rule.
        """
        states, size = self._automaton.states, self._size
        here, base = Waiting(), len(waiting) * size
        waiting.append(here)
        budget.spend(_COLUMN)
        items: set[int] = set()
        empty_rules: set[int] = set()
        while pending:
            item = pending.pop()
            if item in items:
                continue
            items.add(item)
            budget.spend(1)
            state = states[item % size]
            begin = item - item % size
            pending += [begin + target for target in state.empty]
            if state.calls is not None:
                here.setdefault(state.calls, []).append(begin + state.after_call)
                pending.append(base + state.calls)
                if state.calls in empty_rules:
                    pending.append(begin + state.after_call)
            if state.ends is not None:
                if begin == base:
                    empty_rules.add(state.ends)
                continued = waiting[begin // size].get(state.ends, [])
                budget.spend(len(continued))
                pending += continued
        return items
