"""The supervisor of a server, with a fake llama-server that is a real process and fails on request."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forge_proxy.backends.aiohttp_client import AioHttp
from forge_proxy.backends.config import LlamaServerConfig
from forge_proxy.backends.llama_server.instance import CannotStart
from forge_proxy.backends.llama_server.launch import ServerProgram
from forge_proxy.backends.llama_server.manager import ServerManager, Superseded, SwitchFailed
from forge_proxy.backends.llama_server.status import State
from forge_proxy.core.backend_errors import BackendDown, BackendNotReady
from forge_proxy.daemon import MonotonicClock
from forge_proxy.engine.events import Event, ServerStateChanged
from tests.fakes.llama_server import Fake
from tests.fakes.processes import has_ended


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    return Fake(tmp_path)


@asynccontextmanager
async def managed(fake: Fake, heard: list[Event] | None = None, **config: Any) -> AsyncGenerator[ServerManager]:
    http = AioHttp(connect_seconds=5, silence_seconds=30)
    observe = (heard if heard is not None else []).append
    manager = ServerManager(fake.spec(), LlamaServerConfig(**config), http, MonotonicClock(), observe)
    try:
        async with asyncio.timeout(20):
            yield manager
    finally:
        await manager.close()
        await http.close()


async def comes_to(manager: ServerManager, state: State) -> None:
    """Wait for a state."""
    await until(lambda: manager.status().state == state)


async def until(happened: Callable[[], bool]) -> None:
    while not happened():  # noqa: ASYNC110  nothing reports the state of the process
        await asyncio.sleep(0.01)


def pid(manager: ServerManager) -> int:
    return manager.status().pid or 0


async def test_a_server_is_started_used_and_stopped(fake: Fake) -> None:
    heard: list[Event] = []
    async with managed(fake, heard) as manager:
        assert await manager.start() == "started"
        ready = manager.status()
        async with manager.use() as run:
            models = [card.id for card in await run.server.models()]
        stopped = await manager.stop()

    assert (ready.state, ready.restarts, ready.last_error) == ("ready", 0, None)
    assert "says" in models
    assert stopped == "stopped"
    assert has_ended(ready.pid or 0)
    states = [event.state for event in heard if isinstance(event, ServerStateChanged)]
    assert states == ["starting", "loading", "ready", "draining", "stopped"]
    (start,) = fake.starts
    assert start["pid"] == ready.pid
    assert start["key"] not in start["flags"]


async def test_a_running_server_is_reused_and_another_specification_replaces_it(fake: Fake) -> None:
    async with managed(fake) as manager:
        first = await manager.ensure(fake.spec())
        before = pid(manager)
        again = await manager.ensure(fake.spec())
        same = pid(manager)
        other = await manager.ensure(fake.spec(context=512))

        assert (first, again, other) == ("started", "reused", "switched")
        assert (before == same, pid(manager) == before, has_ended(before)) == (True, False, True)
        assert manager.status().spec.context == 512
        assert "512" in fake.starts[-1]["flags"]


async def test_one_that_dies_is_started_again(fake: Fake) -> None:
    async with managed(fake) as manager:
        await manager.start()
        dead = pid(manager)

        os.kill(dead, signal.SIGKILL)
        await until(lambda: pid(manager) != dead and manager.current is not None)

        status = manager.status()
        assert (status.state, status.restarts) == ("ready", 1)
        assert "killed by SIGKILL" in (status.last_error or "")


async def test_a_server_that_crashes_repeatedly_stays_down_with_the_reason_and_can_be_started(fake: Fake) -> None:
    async with managed(fake) as manager:
        await manager.start()
        fake.behaves("crashes")

        os.kill(pid(manager), signal.SIGKILL)
        await comes_to(manager, "crash-loop")

        assert len(fake.starts) == 2
        with pytest.raises(BackendDown, match=r"crashed 3 times in a row.*out of memory"):
            async with manager.use():
                pass
        fake.behaves("well")
        assert await manager.start() == "started"
        assert manager.status().state == "ready"


@pytest.mark.parametrize(
    ("behaviour", "said"),
    [
        ("crashes", "it exited with code 1: srv    load_model: failed to load model: out of memory"),
        ("aborts", "it was killed by SIGABRT"),
        ("cannot bind", "couldn't bind"),
        ("hangs", "it hangs: no log line, disk read or allocation for 1.5 s; its log ends: 0.00.001 I srv"),
    ],
)
async def test_a_server_that_cannot_start_reports_the_reason(fake: Fake, behaviour: str, said: str) -> None:
    fake.behaves(behaviour)
    async with managed(fake, load_silence_seconds=1.5) as manager:
        with pytest.raises(CannotStart) as fault:
            await manager.start()

        assert said in str(fault.value)
        status = manager.status()
        assert (status.state, status.last_error) == ("failed", str(fault.value))
        assert all(has_ended(start["pid"]) for start in fake.starts)
        assert len(fake.starts) == (3 if behaviour == "cannot bind" else 1)


@pytest.mark.parametrize(
    ("command", "said"),
    [("/nowhere/llama-server", "/nowhere/llama-server cannot be started: No such file"), ("/tmp", "Permission denied")],
)
async def test_a_file_that_is_not_a_program_is_an_error_with_the_reason(fake: Fake, command: str, said: str) -> None:
    async with managed(fake) as manager:
        with pytest.raises(CannotStart, match=said):
            await manager.ensure(replace(fake.spec(), program=ServerProgram("llama-server", (command,))))


async def test_a_port_in_use_is_reported_before_anything_is_started(fake: Fake) -> None:
    async with managed(fake) as manager:
        with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(CannotStart) as fault:
            await manager.ensure(fake.spec(port=taken.getsockname()[1]))

    assert "Address already in use; stop what listens there, or set backend.llama_server.port" in str(fault.value)
    assert fake.starts == []


async def test_a_load_that_gets_on_takes_as_long_as_it_takes_and_tells_how_far_it_is(fake: Fake) -> None:
    fake.behaves("loads slowly")
    async with managed(fake, load_silence_seconds=2) as manager:
        starting = asyncio.create_task(manager.start())
        await until(lambda: "layer" in str(manager.status().progress))
        progress = manager.status().progress
        await starting

        assert progress
        assert progress.resident > 0
        assert manager.status().progress is None


async def test_a_failed_switch_is_reverted_and_reported(fake: Fake) -> None:
    async with managed(fake) as manager:
        await manager.start()

        async with manager.use():
            switching = asyncio.create_task(manager.ensure(fake.spec(context=666)))
            await comes_to(manager, "draining")
            waiting = asyncio.create_task(manager.ready(wake=True))
        with pytest.raises(SwitchFailed) as fault:
            await switching

        assert (await waiting).spec == fake.spec()
        assert fault.value.restored
        assert "failed to allocate buffer for kv cache; the previous configuration runs again" in str(fault.value)
        assert (manager.status().state, manager.status().spec) == ("ready", fake.spec())


async def test_a_switch_to_an_invalid_model_file_does_not_stop_the_server(fake: Fake) -> None:
    async with managed(fake) as manager:
        await manager.start()
        before = pid(manager)

        with pytest.raises(CannotStart, match="file not found"):
            await manager.ensure(replace(fake.spec(), model=fake.folder / "missing.gguf"))

        assert pid(manager) == before
        assert manager.current


async def test_a_failed_switch_of_a_sleeping_server_lets_it_sleep(fake: Fake) -> None:
    async with managed(fake) as manager:
        await manager.start()
        await manager.stop()

        with pytest.raises(SwitchFailed, match="the previous settings are kept"):
            await manager.ensure(fake.spec(context=666))

        assert (manager.status().state, manager.status().spec) == ("stopped", fake.spec())


async def test_a_stop_ends_a_load(fake: Fake) -> None:
    fake.behaves("loads when told")
    async with managed(fake) as manager:
        starting = asyncio.create_task(manager.start())
        await until(lambda: pid(manager) > 0)
        loading = pid(manager)

        await manager.stop()

        with pytest.raises(Superseded):
            await starting
        assert manager.status().state == "stopped"
        assert has_ended(loading)


async def test_a_command_is_executed_even_if_the_waiting_task_is_cancelled(fake: Fake) -> None:
    async with managed(fake) as manager:
        starting = asyncio.create_task(manager.start())
        await comes_to(manager, "loading")

        starting.cancel()
        await asyncio.wait([starting])

        assert await manager.start() == "reused"
        assert len(fake.starts) == 1


async def test_requests_in_use_are_let_end_before_a_stop_and_no_longer_than_the_deadline(fake: Fake) -> None:
    async with managed(fake) as manager:
        await manager.start()
        async with manager.use():
            stopping = asyncio.create_task(manager.stop())
            await comes_to(manager, "draining")
            alive = not has_ended(pid(manager))
        await stopping
        await manager.start()
        async with manager.use() as run:
            await manager.stop(drain_seconds=0)
            cut = run.process.has_ended

    assert (alive, cut) == (True, True)


async def test_requests_during_a_switch_wait_for_the_next_server(fake: Fake) -> None:
    async with managed(fake) as manager:
        await manager.start()
        async with manager.use():
            switching = asyncio.create_task(manager.ensure(fake.spec(context=512)))
            await comes_to(manager, "draining")
            waiting = asyncio.create_task(manager.ready(wake=True))
        await switching

        assert (await waiting).spec.context == 512


async def test_a_request_that_waits_too_long_gets_the_load_progress(fake: Fake) -> None:
    fake.behaves("loads when told")
    async with managed(fake, wait_seconds=0.2) as manager:
        starting = asyncio.create_task(manager.start())
        await until(lambda: "one more layer" in str(manager.status().progress))

        with pytest.raises(BackendNotReady, match="one more layer"):
            await manager.ready(wake=True)

        await manager.stop()
        await asyncio.wait([starting])
        assert isinstance(starting.exception(), Superseded)


async def test_an_idle_server_is_ended_and_the_next_request_wakes_it(fake: Fake) -> None:
    async with managed(fake, idle_unload_seconds=0.1) as manager:
        await manager.start()
        first = pid(manager)
        await comes_to(manager, "asleep")
        gone = has_ended(first)
        with pytest.raises(BackendDown):
            await manager.ready(wake=False)
        still = manager.status().state

        async with manager.use():
            used = manager.status().state
            await asyncio.sleep(0.3)
            kept = manager.status().state

        await comes_to(manager, "asleep")
        assert (gone, still, used, kept, len(fake.starts)) == (True, "asleep", "ready", "ready", 2)


async def test_a_server_that_does_not_wake_is_retried_and_then_stays_down_with_the_reason(fake: Fake) -> None:
    async with managed(fake, idle_unload_seconds=0.1) as manager:
        await manager.start()
        await comes_to(manager, "asleep")
        fake.behaves("crashes")

        with pytest.raises(BackendDown, match="out of memory"):
            async with manager.use():
                pass

        assert len(fake.starts) == 3


async def test_a_server_that_does_not_hear_is_killed_and_so_is_what_it_has_started(fake: Fake) -> None:
    fake.behaves("is deaf", "has a child")
    async with managed(fake, stop_seconds=0.2) as manager:
        await manager.start()
        deaf = pid(manager)
        await manager.restart()
        child = int((fake.folder / "child").read_text())
        alive = not has_ended(child)
        await manager.stop()

    assert (has_ended(deaf), alive, has_ended(child)) == (True, True, True)


async def test_after_the_end_nothing_runs_and_nothing_waits(fake: Fake) -> None:
    fake.behaves("loads when told")
    async with managed(fake) as manager:
        starting = asyncio.create_task(manager.start())
        waiting = asyncio.create_task(manager.ready(wake=True))
        await until(lambda: pid(manager) > 0)
        loading = pid(manager)
        await manager.close()
        await asyncio.wait([starting, waiting])

    assert isinstance(starting.exception(), BackendDown)
    assert isinstance(waiting.exception(), BackendDown)
    assert has_ended(loading)


async def test_the_log_of_the_previous_server_can_be_read_too(fake: Fake) -> None:
    async with managed(fake) as manager:
        await manager.start()
        await manager.restart()
        lines = manager.logs(10)

    assert [line for line in lines if line.startswith("--- llama-server with ")] == [lines[0], lines[2]]
    assert "loading model" in lines[1]
    assert manager.logs(1) == lines[-1:]
