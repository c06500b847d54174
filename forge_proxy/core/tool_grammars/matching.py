"""What both matchers share: the result, the limit of steps, and the sets of characters of an automaton."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from forge_proxy.core.fast_dataclass import fast_dataclass
from forge_proxy.core.tool_grammars.automaton import Automaton
from forge_proxy.core.tool_grammars.nodes import CharSet

MAX_STEPS = 400_000
"""Maximum number of states that are entered for one text, up to 1 µs and 200 bytes each."""
_MAX_CHARS = 10_000
"""Maximum number of distinct characters whose sets are cached."""
_SETS_PER_STEP = 8
"""Sets that are searched for a character in the time of one step."""
_MAX_EXPECTED = 10


class TooCostly(Exception):
    """Matching the text takes too many steps."""


@fast_dataclass
class Mismatch:
    """Where a text leaves the grammar, and what the grammar allows there."""

    at: int
    """Characters before the first one that does not fit; the length of the text if it ends too early."""
    expected: tuple[str, ...]
    """Labels of terminals; `end of text` if the text may end."""


class StepBudget:
    """Counts the steps of one match."""

    def __init__(self) -> None:
        self._left = MAX_STEPS

    def spend(self, steps: int) -> None:
        """Count steps. Raises `TooCostly` if there are too many."""
        self._left -= steps
        if self._left < 0:
            raise TooCostly


class Alphabet:
    """Returns for each character the sets that contain it."""

    def __init__(self, char_sets: Sequence[CharSet]) -> None:
        self._char_sets = char_sets
        self._known: dict[str, frozenset[int]] = {}
        self._distinct: dict[frozenset[int], frozenset[int]] = {}

    def sets_with(self, char: str, budget: StepBudget) -> frozenset[int]:
        """Return the indices of the sets that contain the character."""
        found = self._known.get(char)
        if found is None:
            budget.spend(1 + len(self._char_sets) // _SETS_PER_STEP)
            if len(self._known) >= _MAX_CHARS:
                self._known, self._distinct = {}, {}
            indices = frozenset(index for index, one in enumerate(self._char_sets) if one.contains(char))
            found = self._known[char] = self._distinct.setdefault(indices, indices)
        return found


def mismatch(automaton: Automaton, at: int, states: Iterable[int], *, may_end: bool) -> Mismatch:
    """Return the mismatch of a text that reached these states."""
    labels = dict.fromkeys(automaton.states[one].label for one in sorted(states))
    expected = (*labels, "end of text") if may_end else (*labels,)
    return Mismatch(at, expected[:_MAX_EXPECTED])
