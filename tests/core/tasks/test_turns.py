"""Who waits for whom: tasks with predecessors, and tasks that write the same files."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.tasks.scopes import WriteScope
from forge_proxy.core.tasks.turns import PredecessorEnd, ScopeClaim, describe_missed, find_blockers

PATTERNS = ("cart.py", "shop/**", "shop/total.py", "**", "docs/*.md")


def claim(name: str, at: float, *may: str, working: bool = False, waits: bool = True, place: str = "/a") -> ScopeClaim:
    return ScopeClaim(name, at, place, WriteScope(may or ("**",)), is_working=working, is_next=waits and not working)


def test_s_step_a_task_that_works_has_its_scope_to_itself() -> None:
    own = claim("b", 2, "cart.py")

    assert find_blockers(own, [claim("a", 1, "cart.py", working=True), own]) == ("a",)
    assert find_blockers(own, [claim("later", 3, "**", working=True)]) == ("later",)
    assert find_blockers(own, [claim("a", 1, "item.py", working=True)]) == ()
    assert find_blockers(own, [claim("a", 1, "cart.py", working=True, place="/other")]) == ()


def test_s_step_the_first_one_submitted_is_next() -> None:
    first, second, third = (claim(name, at) for at, name in enumerate(("one", "two", "three")))
    everybody = (third, first, second)

    assert [find_blockers(one, everybody) for one in (first, second, third)] == [(), ("one",), ("one", "two")]


def test_s_step_a_task_that_waits_for_a_person_or_a_predecessor_lets_others_go_first() -> None:
    halted = claim("one", 1, waits=False)

    assert find_blockers(claim("two", 2), [halted]) == ()


@pytest.mark.parametrize(
    ("ends", "reason"),
    [
        ((), None),
        ((("a", "merged"), ("b", "merged")), None),
        ((("a", "merged"), ("b", "rejected")), "the task b was not merged: it was rejected"),
        ((("a", "cancelled"),), "the task a was not merged: it was cancelled"),
        ((("a", "failed"),), "the task a was not merged: it failed"),
    ],
)
def test_s_step_a_predecessor_that_was_not_merged_is_a_persons_decision(
    ends: tuple[tuple[str, PredecessorEnd], ...], reason: str | None
) -> None:
    found = describe_missed(ends)

    assert (found is None) == (reason is None)
    assert reason is None or (found or "").startswith(reason)


@st.composite
def crowds(draw: st.DrawFn) -> list[ScopeClaim]:
    """Return tasks that all wait for their turn."""
    scopes = draw(st.lists(st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=2), min_size=1, max_size=8))
    return [claim(f"t{at}", float(draw(st.integers(0, 3))), *may) for at, may in enumerate(scopes)]


@given(crowds(), st.data())
def test_s_step_every_task_has_its_turn_and_no_two_that_overlap_work_at_once(
    crowd: list[ScopeClaim], data: st.DataObject
) -> None:
    tasks = {one.task_id: one for one in crowd}
    order: list[str] = []
    while tasks:
        ready = [name for name, one in tasks.items() if one.is_next and not find_blockers(one, tasks.values())]
        working = [name for name, one in tasks.items() if one.is_working]
        assert ready or working, "all wait for each other"
        name = data.draw(st.sampled_from(ready + working))
        if tasks[name].is_working:
            del tasks[name]
            order.append(name)
            continue
        tasks[name] = replace(tasks[name], is_working=True, is_next=False)
        others = [one for one in tasks.values() if one.is_working and one.task_id != name]
        assert not any(one.conflicts_with(tasks[name]) for one in others)
    assert len(order) == len(crowd)


def test_s_step_tasks_with_one_scope_work_in_the_order_of_their_submission() -> None:
    waiting = [claim(f"t{at}", float(at)) for at in (3, 1, 2)]
    order: list[str] = []
    while waiting:
        (ready,) = [one for one in waiting if not find_blockers(one, waiting)]
        waiting.remove(ready)
        order.append(ready.task_id)

    assert order == ["t1", "t2", "t3"]
