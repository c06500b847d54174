"""Worktrees and branches of tasks: created, opened after a restart, reclaimed, removed."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from forge_proxy.core.tasks.errors import GitFailed, RepositoryUnusable
from forge_proxy.core.tasks.workspace import Worktree
from forge_proxy.git.worktree_records import WorktreeRecords
from tests.fakes.processes import ROOT
from tests.fakes.repository import create_repository, repositories_of
from tests.properties import sample


def names_in(path: str) -> list[str]:
    return sorted(file.name for file in Path(path).iterdir())


def exists(path: str) -> bool:
    return Path(path).exists()


async def test_d6_each_task_has_a_worktree_and_a_branch_of_its_own(tmp_path: Path) -> None:
    repository = create_repository(tmp_path / "repo")
    repositories = repositories_of(tmp_path, repository.path)
    base = repository.head()

    one, two = await asyncio.gather(
        repositories.create_worktree(str(repository.path), "t1", base),
        repositories.create_worktree(str(repository.path), "t2", base),
    )
    await repositories.write(one, {"a.py": b"one\n"})

    assert (one.branch, two.branch) == ("forge/t1", "forge/t2")
    assert await repositories.changed_files(two) == []
    assert repository.git("status", "--porcelain") == ""


async def test_d26_a_sub_task_has_a_compound_id_and_starts_from_its_parent(tmp_path: Path) -> None:
    repository = create_repository(tmp_path / "repo")
    repositories = repositories_of(tmp_path, repository.path)
    parent = await repositories.create_worktree(str(repository.path), "t1", repository.head())
    await repositories.write(parent, {"new.py": b"z = 1\n"})
    commit = await repositories.commit(parent, "step", parent.base_commit)

    child = await repositories.create_worktree(str(repository.path), "t1.sub.api", commit)

    assert child.branch == "forge/t1.sub.api"
    assert "new.py" in await repositories.list_files(child)


async def test_d15_a_new_attempt_begins_in_a_fresh_worktree(tmp_path: Path) -> None:
    repository = create_repository(tmp_path / "repo", {"a.py": "x = 1\n", ".gitignore": "*.log\n"})
    repositories = repositories_of(tmp_path, repository.path)
    base = repository.head()
    first = await repositories.create_worktree(str(repository.path), "t1", base)
    await repositories.write(first, {"a.py": b"x = 2\n", "debris.log": b"x", "b.py": b"y"})
    await repositories.commit(first, "attempt 1", base)

    second = await repositories.create_worktree(str(repository.path), "t1", base)

    assert await repositories.head(second) == base
    assert names_in(second.path) == [".git", ".gitignore", "a.py"]


async def test_a_worktree_is_found_again_by_another_daemon_with_its_changes(tmp_path: Path) -> None:
    repository = create_repository(tmp_path / "repo")
    worktree = await repositories_of(tmp_path, repository.path).create_worktree(
        str(repository.path), "t1", repository.head()
    )
    await repositories_of(tmp_path, repository.path).write(worktree, {"a.py": b"x = 2\n"})

    opened = await repositories_of(tmp_path, repository.path).open_worktree(
        str(repository.path), "t1", repository.head()
    )

    assert opened == worktree
    assert await repositories_of(tmp_path, repository.path).changed_files(opened) == ["a.py"]


async def test_a_worktree_whose_files_were_deleted_is_created_again_from_its_branch(tmp_path: Path) -> None:
    repository = create_repository(tmp_path / "repo")
    repositories = repositories_of(tmp_path, repository.path)
    worktree = await repositories.create_worktree(str(repository.path), "t1", repository.head())
    await repositories.write(worktree, {"a.py": b"x = 2\n"})
    commit = await repositories.commit(worktree, "step", worktree.base_commit)
    shutil.rmtree(worktree.path)

    with pytest.raises(GitFailed, match="is missing"):
        await repositories.head(worktree)
    opened = await repositories.open_worktree(str(repository.path), "t1", worktree.base_commit)

    assert await repositories.head(opened) == commit
    assert (Path(opened.path) / "a.py").read_text() == "x = 2\n"


_CREATES = """
import asyncio, sys
from pathlib import Path
from tests.fakes.repository import repositories_of

async def main():
    state, path, commit = sys.argv[1:]
    repositories = repositories_of(Path(state), Path(path))
    print("ready", flush=True)
    while True:
        await repositories.create_worktree(path, "t1", commit)

asyncio.run(main())
"""


def _kill_after(command: list[str], seconds: float) -> None:
    """Run a program that prints a line, and kill it this long after that."""
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(seconds)
        process.kill()


@pytest.mark.parametrize("milliseconds", [0, 5, 11, 17, 23, 31, 40, 60, 90])
async def test_leftovers_of_a_killed_daemon_are_reclaimed(tmp_path: Path, milliseconds: int) -> None:
    repository = create_repository(tmp_path / "repo", {f"f{number}.py": "x\n" for number in range(200)})
    command = [sys.executable, "-c", _CREATES, str(tmp_path), str(repository.path), repository.head()]
    _kill_after(command, 0.03 + milliseconds / 1000)

    repositories = repositories_of(tmp_path, repository.path)
    await repositories.inspect(str(repository.path), None, "t1")
    opened = await repositories.open_worktree(str(repository.path), "t1", repository.head())
    again = await repositories.create_worktree(str(repository.path), "t1", repository.head())

    assert opened == again
    assert await repositories.changed_files(again) == []
    assert len(await repositories.list_files(again)) == 200
    assert len(repository.git("worktree", "list").splitlines()) == 2


async def test_a_lock_of_a_machine_that_was_switched_off_does_not_stop_the_task(tmp_path: Path) -> None:
    repository = create_repository(tmp_path / "repo")
    worktree = await repositories_of(tmp_path, repository.path).create_worktree(
        str(repository.path), "t1", repository.head()
    )
    administration = repository.path / ".git" / "worktrees" / "t1"
    (administration / "index.lock").touch()
    (administration / "HEAD.lock").touch()

    await repositories_of(tmp_path, repository.path, lock_seconds=0).reset(worktree)

    assert not (administration / "index.lock").exists()


async def test_a_lock_that_another_git_holds_is_waited_for(tmp_path: Path) -> None:
    repository = create_repository(tmp_path / "repo")
    repositories = repositories_of(tmp_path, repository.path)
    worktree = await repositories.create_worktree(str(repository.path), "t1", repository.head())
    await repositories.write(worktree, {"a.py": b"changed\n"})
    lock = repository.path / ".git" / "worktrees" / "t1" / "index.lock"
    lock.touch()

    resetting = asyncio.create_task(repositories.reset(worktree))
    await asyncio.sleep(0.5)
    assert not resetting.done()
    lock.unlink()

    await resetting


async def test_a_lock_that_stays_is_reported_with_its_file(tmp_path: Path) -> None:
    repository = create_repository(tmp_path / "repo")
    repositories = repositories_of(tmp_path, repository.path, lock_seconds=0.1)
    worktree = await repositories.create_worktree(str(repository.path), "t1", repository.head())
    await repositories.write(worktree, {"a.py": b"changed\n"})
    lock = repository.path / ".git" / "worktrees" / "t1" / "index.lock"
    lock.touch()

    with pytest.raises(GitFailed, match=r"another git has held the lock .*index\.lock for 0\.1 s"):
        await repositories.reset(worktree)
    assert lock.exists()


async def test_a_removed_worktree_leaves_its_branch_or_nothing(tmp_path: Path) -> None:
    repository = create_repository(tmp_path / "repo")
    repositories = repositories_of(tmp_path, repository.path)
    one = await repositories.create_worktree(str(repository.path), "t1", repository.head())
    two = await repositories.create_worktree(str(repository.path), "t2", repository.head())

    await repositories.remove_worktree(one)
    await repositories.remove_worktree(one)
    await repositories.remove_worktree(two, keep_branch=False)

    assert repository.git("branch", "--format=%(refname:short)").split() == ["forge/t1", "main"]
    assert [file.name for file in (tmp_path / "worktrees").rglob("*.*")] == ["t1.json"]
    assert not (repository.path / ".git" / "worktrees").exists()


async def test_the_same_task_continues_on_its_branch_and_another_one_with_its_id_cannot(tmp_path: Path) -> None:
    repository = create_repository(tmp_path / "repo")
    repositories = repositories_of(tmp_path, repository.path)
    worktree = await repositories.create_worktree(str(repository.path), "t1", repository.head())
    await repositories.write(worktree, {"a.py": b"x = 2\n"})
    commit = await repositories.commit(worktree, "step", worktree.base_commit)
    await repositories.remove_worktree(worktree)  # it awaits its review

    with pytest.raises(RepositoryUnusable, match="already has a branch forge/t1"):
        await repositories.inspect(str(repository.path), None, "t1")
    opened = await repositories.create_worktree(str(repository.path), "t1", commit)

    assert await repositories.head(opened) == commit


async def test_a_worktree_that_a_check_has_made_unreadable_is_removed(tmp_path: Path) -> None:
    repository = create_repository(tmp_path / "repo")
    repositories = repositories_of(tmp_path, repository.path)
    worktree = await repositories.create_worktree(str(repository.path), "t1", repository.head())
    locked = Path(worktree.path) / "locked"
    (locked / "inner").mkdir(parents=True)
    (locked / "inner").chmod(0)
    locked.chmod(0)

    await repositories.reset(worktree)
    assert not locked.exists()
    await repositories.remove_worktree(worktree)

    assert not exists(worktree.path)


async def test_a_branch_that_is_checked_out_is_not_deleted(tmp_path: Path) -> None:
    repository = create_repository(tmp_path / "repo")
    repositories = repositories_of(tmp_path, repository.path)
    worktree = await repositories.create_worktree(str(repository.path), "t1", repository.head())
    await repositories.remove_worktree(worktree)
    repository.git("checkout", "-q", "forge/t1")

    with pytest.raises(GitFailed, match="is checked out at"):
        await repositories.delete_branch(str(repository.path), "forge/t1")
    repository.git("checkout", "-q", "main")
    await repositories.delete_branch(str(repository.path), "forge/t1")
    await repositories.delete_branch(str(repository.path), "forge/t1")

    assert await repositories.branch_head(str(repository.path), "forge/t1") is None


async def test_gc_lists_and_removes_the_worktrees_that_no_task_needs(tmp_path: Path) -> None:
    here, gone = create_repository(tmp_path / "here"), create_repository(tmp_path / "gone")
    repositories = repositories_of(tmp_path, here.path, gone.path)
    for task_id, repository in (("running", here), ("deleted", here), ("lost", gone)):
        await repositories.create_worktree(str(repository.path), task_id, repository.head())
    gone.path.rename(tmp_path / "elsewhere")

    submitted: list[Worktree] = []

    async def read_active() -> set[str]:
        """A task that is submitted in the meantime keeps its worktree."""
        active = {"running", *(worktree.task_id for worktree in submitted)}
        name = f"submitted-{len(submitted)}"
        submitted.append(await repositories.create_worktree(str(here.path), name, here.head()))
        return active

    listed = await repositories.list_leftovers(read_active)
    assert [leftover.task_id for leftover in listed] in (["deleted", "lost"], ["lost", "deleted"])
    assert all(exists(leftover.path) for leftover in listed)
    assert await repositories.remove_leftovers(read_active) == listed

    assert await repositories.list_leftovers(read_active) == []
    assert not any(exists(leftover.path) for leftover in listed)
    assert all(exists(worktree.path) for worktree in submitted)
    others = [worktree.branch for worktree in submitted]
    branches = here.git("branch", "--format=%(refname:short)").split()
    assert branches == ["forge/deleted", "forge/running", *others, "main"]


def test_a_record_that_cannot_be_parsed_is_none(tmp_path: Path) -> None:
    records = WorktreeRecords(tmp_path)
    file = records.path_of(Path("/repo"), "t1").with_name("t1.json")
    file.parent.mkdir()
    file.write_text('{"task_id": ')

    assert records.read(Path("/repo"), "t1") is None
    assert list(records) == []


_COLLECTS = """
import asyncio, sys
from pathlib import Path
from tests.fakes.repository import repositories_of

async def main():
    state, path, commit = sys.argv[1:]
    repositories = repositories_of(Path(state), Path(path))
    for number in range(4):
        await repositories.create_worktree(path, f"t{number}", commit)
    await repositories.create_worktree(path, "t1.sub.a", commit)
    print("ready", flush=True)
    await repositories.remove_leftovers(read_active)

async def read_active():
    return ["t3"]

asyncio.run(main())
"""


@pytest.mark.parametrize("milliseconds", sample([0, 15, 30, 40, 60, 80], 5))
async def test_gc_completes_what_it_had_begun_when_the_daemon_was_killed(tmp_path: Path, milliseconds: int) -> None:
    repository = create_repository(tmp_path / "repo", {f"f{number}.py": "x\n" for number in range(200)})
    _kill_after([sys.executable, "-c", _COLLECTS, str(tmp_path), str(repository.path), repository.head()],
                milliseconds / 1000)  # fmt: skip

    repositories = repositories_of(tmp_path, repository.path)

    async def read_active() -> list[str]:
        return ["t3"]

    await repositories.remove_leftovers(read_active)

    assert await repositories.list_leftovers(read_active) == []
    branches = repository.git("branch", "--list", "--format=%(refname:short)", "forge/*").split()
    assert branches == [f"forge/t{number}" for number in range(4)]  # those of sub-tasks are deleted
    assert len(repository.git("worktree", "list").splitlines()) == 2
    kept = await repositories.open_worktree(str(repository.path), "t3", repository.head())
    assert await repositories.changed_files(kept) == []
    assert len(await repositories.list_files(kept)) == 200
