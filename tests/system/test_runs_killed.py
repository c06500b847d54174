"""kill -9 of the daemon in every phase of a run: the run continues, and no completed step is repeated."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import httpx
import pytest

from tests.fakes.far_side import FarSide, far_side
from tests.fakes.processes import until
from tests.system.runs import (
    RUNS,
    JsonDict,
    Place,
    events,
    kill,
    look,
    orphans,
    submission,
    submit,
    wait_until,
)


@pytest.fixture
def side() -> Generator[FarSide]:
    with far_side() as side:
        yield side


@pytest.fixture
def place(side: FarSide, tmp_path: Path) -> Place:
    return Place(side, tmp_path)


def check(side: FarSide, run: JsonDict) -> None:
    """The run completed, and no list of messages had a call without its result, or the reverse."""
    assert (run["status"], run["error"]) == ("completed", None)
    assert [found for messages in (*side.asked, run["messages"]) if (found := orphans(messages))] == []


def test_killed_during_a_model_request(side: FarSide, place: Place) -> None:
    side.hold("model")
    with place.daemon() as proxy:
        run = submit(proxy, submission(side, "look", "finish"))
        side.wait_for_asked(1)
        kill(proxy)
    side.let_go("model")

    with place.daemon() as proxy:
        done = wait_until(proxy, run["id"], "completed", "failed")

    check(side, done)
    assert side.asked[0] == side.asked[1]
    assert done["result"] == {"kind": "result", "tool": "finish", "arguments": {"n": 1}, "result": "finish was done"}


def test_killed_during_a_tool_call_the_call_is_repeated_with_the_same_key(side: FarSide, place: Place) -> None:
    side.hold("look")
    with place.daemon() as proxy:
        run = submit(proxy, submission(side, "look", "finish"))
        side.wait_for_called("look")
        kill(proxy)
    side.let_go("look")

    with place.daemon() as proxy:
        done = wait_until(proxy, run["id"], "completed", "failed")

    check(side, done)
    first, second = side.keys("look")
    assert first == second
    assert [call["header"] for call in side.called] == [call["key"] for call in side.called]
    assert len(side.keys("finish")) == 1
    assert len(side.asked) == 2


def test_killed_after_a_stored_result_no_tool_call_is_repeated(side: FarSide, place: Place) -> None:
    """Its request waits for the one slot, which another request occupies."""
    side.hold("look")
    with place.daemon(env={"FORGE_PROXY_BACKEND__SLOTS": "1"}) as proxy, httpx.Client() as client:
        run = submit(proxy, submission(side, "look", "finish"))
        side.wait_for_called("look")
        side.hold("model")
        other = submit(proxy, submission(side, "finish"))
        side.wait_for_asked(2)
        side.let_go("look")
        until(lambda: bool(place.stored_keys()), "the result is stored")
        until(lambda: client.get(f"{proxy.url}/admin/v1/status").json()["queue"]["waiting"] == 1, "it waits")
        kill(proxy)
    side.let_go("model")

    with place.daemon() as proxy:
        done = [wait_until(proxy, each["id"], "completed", "failed") for each in (run, other)]

    for each in done:
        check(side, each)
    assert Counter(call["tool"] for call in side.called) == {"look": 1, "finish": 2}


def test_killed_while_a_run_waits_for_the_client_it_waits_for_the_same_calls(side: FarSide, place: Place) -> None:
    with place.daemon() as proxy:
        run = submit(proxy, submission(side, "look", "ask", "finish", by_caller=("ask",)))
        waiting = wait_until(proxy, run["id"], "requires_action")
        kill(proxy)

    with place.daemon() as proxy:
        still = look(proxy, run["id"])
        (call,) = still["required_action"]
        outputs = {"outputs": [{"tool_call_id": call["id"], "output": "yes"}]}
        posted = httpx.post(f"{proxy.url}{RUNS}/{run['id']}/tool_outputs", json=outputs, timeout=20)
        done = wait_until(proxy, run["id"], "completed", "failed")

    assert still == waiting
    assert posted.status_code == 200
    check(side, done)
    assert Counter(call["tool"] for call in side.called) == {"look": 1, "finish": 1}


def test_a_cancelled_run_stays_so_though_the_daemon_is_killed_before_its_tool_ends(side: FarSide, place: Place) -> None:
    side.hold("look")
    with place.daemon() as proxy:
        run = submit(proxy, submission(side, "look", "finish"))
        side.wait_for_called("look")
        answer = httpx.post(f"{proxy.url}{RUNS}/{run['id']}/cancel", timeout=20).json()
        kill(proxy)
    side.let_go("look")

    with place.daemon() as proxy:
        done = wait_until(proxy, run["id"], "cancelled", "completed", "failed")

    assert (answer["status"], answer["cancel_requested"]) == ("running", True)
    assert done["status"] == "cancelled"
    assert done["messages"][-1]["content"] == "[Cancelled] look was not run."
    assert len(side.keys("look")) == 1


def test_killed_at_any_moment_the_run_continues(side: FarSide, place: Place) -> None:
    """Kill the daemon repeatedly at random moments, and compare with what was stored on the disk by then."""
    chance, tools = random.Random(22), [f"t{number}" for number in range(8)]
    side.lag = 0.05
    known: list[tuple[set[str], Counter[str]]] = []
    with place.daemon() as proxy:
        run_id = submit(proxy, submission(side, *tools))["id"]
        seen = events(proxy, run_id, most=3)
        kill(proxy)
    while place.unfinished():
        known.append((place.stored_keys(), Counter(call["key"] for call in side.called)))
        with place.daemon() as proxy:
            seen += events(proxy, run_id, seen[-1]["id"], most=chance.randint(3, 12))
            kill(proxy)
    with place.daemon() as proxy:
        done = look(proxy, run_id)
        seen += events(proxy, run_id, seen[-1]["id"])

    check(side, done)
    assert done["completed_steps"] == tools
    assert [event["id"] for event in seen] == list(range(1, done["last_event"] + 1))
    assert len(known) > 3
    in_the_end = Counter(call["key"] for call in side.called)
    assert [key for stored, calls in known for key in stored if in_the_end[key] != calls[key]] == []
