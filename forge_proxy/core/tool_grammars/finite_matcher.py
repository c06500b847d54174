"""Matches texts against a grammar without recursion, in linear time, by a deterministic automaton.

The automaton is made deterministic state by state, as texts need it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from forge_proxy.core.tool_grammars.automaton import Automaton
from forge_proxy.core.tool_grammars.matching import Alphabet, Mismatch, StepBudget, mismatch

_MAX_STATES = 1_000
"""Maximum number of cached states of a grammar."""
_MAX_TRANSITIONS = 20_000


@dataclass(slots=True)
class _State:
    """A deterministic state: a set of the automaton's states from which a character leads on."""

    members: tuple[int, ...]
    may_end: bool
    after: dict[str, _State | None] = field(default_factory=dict[str, "_State | None"])
    """The states after the characters that were read here so far; None if the character does not fit."""


class _Cache:
    def __init__(self) -> None:
        self.states: dict[frozenset[int], _State] = {}
        self.transitions = 0


class FiniteMatcher:
    """Matches texts against one grammar. Threads may share it: its cache only gains valid entries."""

    def __init__(self, automaton: Automaton) -> None:
        self._automaton = automaton
        self._alphabet = Alphabet(automaton.char_sets)
        self._cache = _Cache()

    def find_mismatch(self, text: str) -> Mismatch | None:
        """Return where the text leaves the grammar; None if it matches. Raises `TooCostly`."""
        budget = StepBudget()
        state = self._find_state(frozenset((self._automaton.begin,)), budget)
        for at, char in enumerate(text):
            try:
                following = state.after[char]
            except KeyError:
                following = self._step(state, char, budget)
            if following is None:
                return mismatch(self._automaton, at, state.members, may_end=state.may_end)
            state = following
        if state.may_end:
            return None
        return mismatch(self._automaton, len(text), state.members, may_end=False)

    def _step(self, state: _State, char: str, budget: StepBudget) -> _State | None:
        """Return the state after a character that was not read here before."""
        sets = self._alphabet.sets_with(char, budget)
        states = self._automaton.states
        budget.spend(1 + len(state.members))
        kernel = frozenset(states[one].after_char for one in state.members if states[one].chars in sets)
        following = self._find_state(kernel, budget) if kernel else None
        self._cache.transitions += 1
        state.after[char] = following
        return following

    def _find_state(self, kernel: frozenset[int], budget: StepBudget) -> _State:
        cache = self._cache
        if len(cache.states) > _MAX_STATES or cache.transitions > _MAX_TRANSITIONS:
            cache = self._cache = _Cache()
        found = cache.states.get(kernel)
        if found is None:
            reached = self._reach(kernel)
            budget.spend(len(reached))
            states = self._automaton.states
            members = tuple(sorted(one for one in reached if states[one].chars is not None))
            found = cache.states[kernel] = _State(members, self._automaton.end in reached)
        return found

    def _reach(self, kernel: frozenset[int]) -> set[int]:
        """Return the states that are reached without a character."""
        reached = set(kernel)
        pending = [*kernel]
        while pending:
            for target in self._automaton.states[pending.pop()].empty:
                if target not in reached:
                    reached.add(target)
                    pending.append(target)
        return reached
