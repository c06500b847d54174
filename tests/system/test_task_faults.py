"""What a task meets outside of the daemon: a full disk, a lock of another git, a repository that was moved.

Each is reported with what to do, and the task continues when a person answers.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.fakes.processes import Process
from tests.system.task_place import TASKS, TaskPlace, wait_for_event, write


def answer(proxy: Process) -> None:
    """Have a halted task continue."""
    response = httpx.post(f"{proxy.url}{TASKS}/t1/answer", json={"answer": "retry"}, timeout=20)
    assert response.status_code == 200, response.text


@contextmanager
def small_disk(folder: Path, size: str) -> Generator[Callable[[str], None]]:
    """Mount a file system of this size, which is removed at the end. Yields a function that changes the size."""
    folder.mkdir(parents=True)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "forge", folder], check=False)
    if mounted.returncode:
        pytest.skip("only root can mount a file system")
    try:
        yield lambda more: subprocess.run(["mount", "-o", f"remount,size={more}", folder], check=True) and None
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def test_a_full_disk_halts_a_task_and_it_continues_when_there_is_space(tmp_path: Path) -> None:
    large = "ITEMS = [\n" + "    1,\n" * 100_000 + "]\n"
    place = TaskPlace(tmp_path, [write("shop/cart.py", large)])
    disk = tmp_path / "state" / "forge-proxy" / "worktrees"
    with small_disk(disk, "200k") as resize, place.serve_model(), place.daemon() as proxy:
        place.submit(proxy)
        halted = place.wait(proxy, "halted", "requires_action", "failed")
        assert halted["status"] == "halted"
        assert "cannot be written: No space left on device" in str(halted)
        resize("10m")
        answer(proxy)

        assert place.wait(proxy, "halted", "requires_action", "failed")["status"] == "requires_action"
        assert place.repository.git("cat-file", "-s", "forge/t1:shop/cart.py") == str(len(large))
        place.check_leftovers()


def test_a_lock_of_another_git_halts_a_task_and_it_continues_when_it_is_gone(tmp_path: Path) -> None:
    place = TaskPlace(tmp_path, [write("shop/cart.py", "ITEMS = [1]\n")])
    lock = place.repository.path / ".git" / "refs" / "heads" / "forge" / "t1.lock"
    lock.parent.mkdir()
    lock.touch()
    with place.serve_model(), place.daemon() as proxy:
        place.submit(proxy)
        halted = place.wait(proxy, "halted", "requires_action", "failed")
        assert halted["status"] == "halted"
        assert f"another git has held the lock {lock}" in str(halted)
        lock.unlink()
        answer(proxy)

        assert place.wait(proxy, "halted", "requires_action", "failed")["status"] == "requires_action"
        place.check_leftovers()


def test_a_repository_that_was_moved_halts_a_task_and_it_continues_when_it_is_back(tmp_path: Path) -> None:
    place = TaskPlace(tmp_path, [{**write("shop/cart.py", "ITEMS = [1]\n"), "fault": "slow"}])
    with place.serve_model(), place.daemon() as proxy:
        place.submit(proxy)
        wait_for_event(proxy, "assembled")
        place.repository.path.rename(tmp_path / "elsewhere")
        halted = place.wait(proxy, "halted", "requires_action", "failed")
        assert halted["status"] == "halted"
        assert "there is no such folder; if the repository was moved, move it back" in str(halted)
        (tmp_path / "elsewhere").rename(place.repository.path)
        answer(proxy)

        assert place.wait(proxy, "halted", "requires_action", "failed")["status"] == "requires_action"
        place.check_leftovers()
