"""Tasks that wait for other tasks: `after`, and the same files (real git, real store)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jobs.records import StoredJob
from forge_proxy.tasks.errors import TaskConflict, TaskNotFound
from tests.fakes.postgres import Postgres
from tests.tasks.conftest import World, open_world
from tests.tasks.test_single_step import AFTER, GOOD, bad

WAITS = ("requires_action", "halted", "completed", "failed", "cancelled")
OTHER: dict[str, Any] = {"respond": {"files": [{"path": "item.py", "content": "class Item: ...\n"}]}, "times": 1}


async def at(world: World, task_id: str, kind: str) -> float:
    """Return when a task has had its last event of this kind."""
    return [event.at for event in await world.events(task_id) if event.type == kind][-1]


async def kinds(world: World, task_id: str) -> list[str]:
    return [event.type for event in await world.events(task_id) if event.type != "status"]


async def submit_two(world: World, **second: Any) -> None:
    """Submit two tasks that look for their turns in this order."""
    async with world.turn_lock:
        await world.submit(task_id="one")
        await world.submit(task_id="two", **second)


async def test_s_step_tasks_with_the_same_files_work_one_after_the_other(folder: Path) -> None:
    async with open_world(folder, GOOD) as world:
        await submit_two(world)
        first = await world.wait(*WAITS, task_id="one")
        second = await world.wait(*WAITS, task_id="two")

        assert (first.job.status, second.job.status) == ("requires_action", "requires_action")
        assert (await kinds(world, "two"))[:2] == ["waiting_for", "admitted"]
        (waited,) = [event for event in await world.events("two") if event.type == "waiting_for"]
        assert '"one"' in waited.data
        assert await at(world, "two", "admitted") >= await at(world, "one", "awaiting_merge")
        assert second.state.waits_for == ()


async def test_s_step_tasks_with_other_files_do_not_wait(folder: Path) -> None:
    async with open_world(folder, OTHER, GOOD) as world:
        await submit_two(world, target_files=["item.py"])
        await world.wait(*WAITS, task_id="one")
        await world.wait(*WAITS, task_id="two")

        assert (await kinds(world, "two"))[0] == "admitted"


async def test_s_step_a_task_with_predecessors_waits_until_they_are_merged(folder: Path) -> None:
    async with open_world(folder, {**GOOD, "times": 1}, OTHER) as world:
        await world.submit(task_id="one")
        await world.submit(task_id="two", target_files=["item.py"], context_files=["cart.py"], after=["one"])
        await world.wait("requires_action", task_id="one")
        waiting = await world.wait("waiting", task_id="two")
        assert waiting.state.waits_for == ("one",)

        await world.tasks.approve("one", head=None, base=None, method="squash", approver="ada")
        done = await world.wait(*WAITS, task_id="two")

        assert done.job.status == "requires_action", done.state.halt
        assert done.state.repository.base_commit == world.repository.head()  # it begins after the merge
        (request,) = world.model.made("generate")[1:]
        assert AFTER.strip() in request.body["messages"][0]["content"]


async def test_s_step_a_predecessor_that_is_rejected_is_a_persons_decision(folder: Path) -> None:
    async with open_world(folder, {**GOOD, "times": 1}, OTHER) as world:
        await world.submit(task_id="one")
        await world.submit(task_id="two", target_files=["item.py"], after=["one"])
        await world.wait("requires_action", task_id="one")
        await world.wait("waiting", task_id="two")
        await world.tasks.reject("one", "ada")
        halted = await world.wait("halted", task_id="two")

        assert halted.state.halt.startswith("the task one was not merged: it was rejected; answer `retry`")
        await world.tasks.answer("two", "retry", "")
        done = await world.wait("requires_action", task_id="two")
        assert (await kinds(world, "two")).count("baseline") == 1  # it was prepared, although it had halted before
        assert world.repository.git("show", "forge/two:item.py") == "class Item: ..."
        assert done.state.halt == ""


async def test_s_step_a_predecessor_that_halts_is_waited_for_and_a_deleted_one_is_not(folder: Path) -> None:
    spoiled = {**bad("BAD = 1\n"), "times": 2}
    async with open_world(folder, spoiled, OTHER) as world:
        await world.submit(task_id="one")
        await world.wait("halted", task_id="one")
        await world.submit(task_id="two", target_files=["item.py"], after=["one"])
        await world.wait("waiting", task_id="two")
        async with world.turn_lock:  # two does not look before one is deleted
            await world.tasks.cancel("one")
            await world.wait("cancelled", task_id="one")

        assert (await world.wait("halted", task_id="two")).state.halt.startswith(
            "the task one was not merged: it was c"
        )
        await world.tasks.delete("one")
        await world.submit(task_id="three", target_files=["item.py"])
        assert (await world.wait(*WAITS, task_id="three")).job.status == "requires_action"


@pytest.mark.parametrize("after", ["nobody", "total"])
async def test_s_step_only_tasks_that_exist_can_be_predecessors(folder: Path, after: str) -> None:
    async with open_world(folder, GOOD) as world:
        with pytest.raises(InvalidRequest, match=rf"after\[0\].*no task '{after}'"):
            await world.submit(after=[after])


async def test_s_step_a_waiting_task_continues_after_a_restart(folder: Path) -> None:
    async with open_world(folder, {**GOOD, "times": 1}) as world:
        await world.submit(task_id="one")
        await world.submit(task_id="two", target_files=["item.py"], after=["one"])
        await world.wait("requires_action", task_id="one")
        await world.wait("waiting", task_id="two")

    async with open_world(folder, OTHER) as world:
        await world.wait("waiting", task_id="two")
        await world.tasks.approve("one", head=None, base=None, method="merge", approver="ada")
        assert (await world.wait(*WAITS, task_id="two")).job.status == "requires_action"


async def test_s_step_a_task_whose_wake_was_lost_continues_after_a_restart(folder: Path) -> None:
    async with open_world(folder, GOOD) as world:
        world.waker_is_deaf = True  # the daemon is killed before it wakes anybody
        await submit_two(world)
        await world.wait("requires_action", task_id="one")
        assert (await world.wait("waiting", task_id="two")).state.waits_for == ("one",)

    async with open_world(folder, GOOD) as world:
        assert (await world.wait(*WAITS, task_id="two")).job.status == "requires_action"


async def test_s_step_a_task_of_several_daemons_looks_again_if_its_wake_was_lost(folder: Path) -> None:
    async with open_world(folder, GOOD, turn_seconds=0.2) as world:
        world.waker_is_deaf = True
        await submit_two(world)
        done = await world.wait(*WAITS, task_id="two")

        assert done.job.status == "requires_action"
        assert (await kinds(world, "two")).count("waiting_for") == 1  # it is not reported again and again


async def test_s_step_requested_changes_wait_for_a_task_that_has_begun_meanwhile(folder: Path) -> None:
    async with open_world(folder, GOOD) as world:
        await world.submit(task_id="one")
        await world.wait("requires_action", task_id="one")
        async with world.turn_lock:
            await world.submit(task_id="two")
            await world.tasks.request_changes("one", "Name it sum.")
        first = await world.wait(*WAITS, task_id="one")
        await world.wait(*WAITS, task_id="two")

        # one was submitted first, so it is next if nobody works yet; two may not work beside it
        spans = sorted([(await at(world, name, "admitted"), await ended_at(world, name)) for name in ("one", "two")])
        assert spans[0][1] <= spans[1][0]
        assert first.job.status in ("requires_action", "halted")


async def ended_at(world: World, task_id: str) -> float:
    return [event.at for event in await world.events(task_id) if event.type in ("awaiting_merge", "halted")][-1]


async def test_s_step_a_cancelled_task_lets_the_next_one_work(folder: Path) -> None:
    async with open_world(folder, GOOD) as world:
        async with world.turn_lock:
            await world.submit(task_id="one", after=[])
            await world.submit(task_id="two")
            await world.tasks.cancel("one")
        done = await world.wait(*WAITS, task_id="two")

        assert done.job.status == "requires_action"
        assert (await world.tasks.get("one")).job.status == "cancelled"


async def test_s_step_daemons_that_share_a_database_admit_one_task(folder: Path, postgres_server: Postgres) -> None:
    url, has_looked = postgres_server.create_database(), asyncio.Event()
    async with open_world(folder, GOOD, shared=url) as first, open_world(folder, GOOD, shared=url) as second:
        second.waker_is_deaf = True
        with pytest.raises(TaskNotFound):  # its store is opened while there is nothing to continue
            await second.tasks.get("one")
        await first.submit(task_id="one")
        await first.wait("requires_action", task_id="one")
        get = second.store.get

        async def get_slowly(job_id: str) -> StoredJob:
            """After a look at one, wait until the other daemon waits to look, or has admitted it."""
            found = await get(job_id)
            if job_id == "one" and not has_looked.is_set():
                has_looked.set()
                while not (await waits_for_lock(first) or (await first.tasks.get("one")).state.is_admitted):  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            return found

        second.store.get = get_slowly
        await second.submit(task_id="two")
        await has_looked.wait()
        await first.tasks.request_changes("one", "Name it sum.")

        assert (await first.wait("waiting", task_id="one")).state.waits_for == ("two",)


async def waits_for_lock(world: World) -> bool:
    """Whether a daemon waits for a lock in the database."""
    query = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    async with world.store.database.read() as connection:
        return bool((await connection.exec_driver_sql(query)).scalar_one())


async def test_d7_a_late_wake_does_not_move_a_task_that_waits_for_a_person(folder: Path) -> None:
    """A task that looks for its turn is woken by one that has ended: the wake is left over, as it has its turn."""
    async with open_world(folder, GOOD) as world:
        async with world.turn_lock:
            await world.submit()
            await world.wait("running")
            await world.jobs.wake("total")
        await world.wait("requires_action")
        await world.jobs.wake("total")  # of a waker that has read its state before
        statuses = [orjson.loads(event.data)["status"] for event in await world.events() if event.type == "status"]
        assert statuses[-1] == "requires_action"
        assert statuses.count("requires_action") == 1

        await world.tasks.reject("total", "ada")
        await world.wait("completed")


async def test_a_repeated_submission_returns_the_task_also_if_its_predecessor_and_repository_are_gone(
    folder: Path,
) -> None:
    async with open_world(folder, GOOD) as world:
        await world.submit(task_id="one")
        await world.wait("requires_action", task_id="one")
        await world.tasks.reject("one", "ada")
        await world.wait("completed", task_id="one")
        first = await world.submit(key="k", task_id="two", after=["one"])
        await world.wait(*WAITS, task_id="two")
        await world.tasks.delete("one")
        path = world.repository.path
        path.rename(folder / "elsewhere")

        again = await world.submit(key="k", task_id="two", after=["one"])
        with pytest.raises(TaskConflict, match="used for another submission"):
            await world.submit(key="k", task_id="three")
        with pytest.raises(InvalidRequest, match="after"):
            await world.submit(key="other", task_id="two", after=["one"])
        (folder / "elsewhere").rename(path)

    assert (again.job.id, again.job.created_at) == ("two", first.job.created_at)
