"""All scenarios, and their selection by name and tag."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.evals.scenario import Scenario
from forge_proxy.evals.scenarios import (
    advanced_gaps,
    advanced_synthesis,
    compaction,
    investigation,
    plumbing,
    quick,
    quick_formal,
    reasoning,
    relevance,
    selection,
    suppliers,
)

ALL: tuple[Scenario, ...] = (
    *plumbing.SCENARIOS,
    *selection.SCENARIOS,
    *reasoning.SCENARIOS,
    *relevance.SCENARIOS,
    *compaction.SCENARIOS,
    *suppliers.SCENARIOS,
    *investigation.SCENARIOS,
    *advanced_gaps.SCENARIOS,
    *advanced_synthesis.SCENARIOS,
    *quick.SCENARIOS,
    *quick_formal.SCENARIOS,
)
GENERATED = "generated"
TAGS: tuple[str, ...] = tuple(sorted({tag for scenario in ALL for tag in scenario.tags}))


def select_scenarios(names: Sequence[str] = (), tags: Sequence[str] = ()) -> tuple[Scenario, ...]:
    """Return the scenarios with one of these names and one of these tags, in the order of `ALL`. Empty selects `ALL`.

    The generated scenarios follow if a name or tag begins with `generated`; that name selects all of them.

    Raises `InvalidRequest` for an unknown name or tag, or if no scenario has both.
    """
    known = (*ALL, *_load_generated()) if any(map(_is_generated, (*names, *tags))) else ALL
    check_names("scenario", names, [*(scenario.name for scenario in known), GENERATED])
    check_names("tags", tags, sorted({*TAGS, GENERATED, *(tag for scenario in known for tag in scenario.tags)}))
    chosen = {*names, *(one.name for one in known if GENERATED in names and GENERATED in one.tags)}
    found = tuple(one for one in known if (not names or one.name in chosen) and (not tags or one.tags & set(tags)))
    if not found:
        raise InvalidRequest("tags", f"none of these scenarios has a tag of {', '.join(tags)}")
    return found


def _is_generated(word: str) -> bool:
    return word.startswith(GENERATED)


def _load_generated() -> tuple[Scenario, ...]:
    from forge_proxy.evals.scenarios.generated.tasks import SCENARIOS  # few commands need them

    return SCENARIOS


def check_names(at: str, names: Sequence[str], known: Sequence[str]) -> None:
    """Raise `InvalidRequest` for an unknown name, with similar ones."""
    each = dict.fromkeys(known)
    for word in names:
        if word not in each:
            near = get_close_matches(word, each)
            hint = f"did you mean {' or '.join(near)}?" if near else f"available: {', '.join(each)}"
            raise InvalidRequest(at, f"there is no {word!r}; {hint}")
