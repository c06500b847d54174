"""A worktree is reset once for an attempt, and again if anything has happened to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forge_proxy.core.tasks.errors import GitFailed
from forge_proxy.core.tasks.workspace import Worktree
from forge_proxy.git.program import GitProgram
from forge_proxy.git.repositories import GitRepositories
from forge_proxy.processes.program import ProgramOutput
from tests.fakes.repository import UserRepository, create_repository, repositories_of

_FILES = {"a.py": "x = 1\n", "src/b.py": "y = 1\n", ".gitignore": "*.log\n"}
Change = Callable[[Path, UserRepository], object]
_CHANGES: dict[str, Change] = {
    "a new file": lambda folder, _: (folder / "src" / "new.py").write_text("z\n"),
    "a new file in a new folder": lambda folder, _: _create(folder / "new" / "deep" / "new.py"),
    "an empty folder": lambda folder, _: (folder / "src" / "empty").mkdir(),
    "a deleted file": lambda folder, _: (folder / "src" / "b.py").unlink(),
    "a replaced file": lambda folder, _: _replace(folder / "a.py"),
    "a symlink": lambda folder, _: (folder / "link").symlink_to("a.py"),
    "a nested repository": lambda folder, repository: repository.git("init", "-q", "nested", cwd=folder),
    "a staged file": lambda folder, repository: _stage(folder, repository),
    "another branch": lambda folder, repository: repository.git("checkout", "-q", "--detach", "HEAD", cwd=folder),
    "a folder without rights": lambda folder, _: (folder / "src").chmod(0),
    "a changed file": lambda folder, _: (folder / "a.py").write_text("x = 9\n"),
    "a changed mode": lambda folder, _: (folder / "a.py").chmod(0o755),
}


def _create(file: Path) -> None:
    file.parent.mkdir(parents=True)
    file.write_text("z\n")


def _replace(file: Path) -> None:
    (file.parent / "written").write_text("x = 9\n")
    (file.parent / "written").rename(file)


def _stage(folder: Path, repository: UserRepository) -> None:
    (folder / "a.py").write_text("x = 9\n")
    repository.git("add", "a.py", cwd=folder)


class World:
    """A repository with the worktree of one task."""

    def __init__(self, state: Path, repository: UserRepository, repositories: GitRepositories, worktree: Worktree):
        self.state = state
        self.repository = repository
        self.repositories = repositories
        self.worktree = worktree
        self.folder = Path(worktree.path)
        self.base = worktree.base_commit
        (self.folder / "kept.log").write_text("ignored")

    def restart(self, lock_seconds: float = 10.0) -> GitRepositories:
        """Return the repositories as a daemon has them that was started again."""
        return repositories_of(self.state, self.repository.path, lock_seconds=lock_seconds)

    def check_as_committed(self, change: str) -> None:
        found = {str(path.relative_to(self.folder)): path.read_text() for path in self.folder.rglob("*.*")
                 if path.is_file()}  # fmt: skip
        del found[".git"]
        folders = {path.name for path in self.folder.rglob("*") if path.is_dir()}
        assert found == {**_FILES, "kept.log": "ignored"}, change
        assert folders == {"src"}, change
        assert self.repository.git("status", "--porcelain", "--branch", cwd=self.folder) == "## forge/t1", change


@pytest.fixture
async def world(tmp_path: Path) -> World:
    repository = create_repository(tmp_path / "repo", dict(_FILES))
    repositories = repositories_of(tmp_path, repository.path)
    worktree = await repositories.create_worktree(str(repository.path), "t1", repository.head())
    return World(tmp_path, repository, repositories, worktree)


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the commands of git that are started from now on."""
    started: list[str] = []
    run = GitProgram.run

    async def record(program: GitProgram, *arguments: str, **options: Any) -> ProgramOutput:
        started.append(arguments[0])
        return await run(program, *arguments, **options)

    monkeypatch.setattr(GitProgram, "run", record)
    return started


async def test_d23_a_reset_undoes_every_change(world: World) -> None:
    for name, change in _CHANGES.items():
        change(world.folder, world.repository)

        await world.repositories.reset(world.worktree, world.base)

        world.check_as_committed(name)


async def test_d23_a_worktree_in_which_another_process_has_done_something_is_reset_again(world: World) -> None:
    """As the rest of a killed check could, or a second daemon, while a model is called."""
    for name, change in _CHANGES.items():
        await world.repositories.ensure_reset(world.worktree, world.base)
        change(world.folder, world.repository)

        await world.repositories.ensure_reset(world.worktree, world.base)

        world.check_as_committed(name)


async def test_a_worktree_that_was_reset_and_is_unchanged_is_not_reset_again(world: World, commands: list[str]) -> None:
    (world.folder / "new.py").write_text("z\n")
    await world.repositories.ensure_reset(world.worktree, world.base)
    commands.clear()

    await world.repositories.read(world.worktree, "a.py")
    await world.repositories.ensure_reset(world.worktree, world.base)

    assert commands == ["ls-files", "diff-files"]  # the first one: the submodules, before a file is read


async def test_a_worktree_into_which_the_daemon_has_written_is_reset_again(world: World) -> None:
    """Checks run after files were written: what they change within files is undone as well."""
    await world.repositories.ensure_reset(world.worktree, world.base)
    await world.repositories.write(world.worktree, {})
    (world.folder / "a.py").write_text("x = 9\n")

    await world.repositories.ensure_reset(world.worktree, world.base)

    world.check_as_committed("a changed file")


async def test_a_restarted_daemon_resets_a_worktree_again(world: World) -> None:
    await world.repositories.ensure_reset(world.worktree, world.base)
    (world.folder / "a.py").write_text("x = 9\n")

    await world.restart().ensure_reset(world.worktree, world.base)

    world.check_as_committed("a changed file")


async def test_a_commit_has_nothing_that_somebody_else_has_staged(world: World) -> None:
    await world.repositories.write(world.worktree, {"src/b.py": b"y = 2\n"})
    _stage(world.folder, world.repository)

    commit = await world.repositories.commit(world.worktree, "one", world.base, ["src/b.py"])

    assert world.repository.git("diff", "--name-only", "main", commit) == "src/b.py"
    assert await world.repositories.changed_files(world.worktree) == ["a.py"]


async def test_a_folder_takes_the_place_of_a_file(world: World) -> None:
    (world.folder / "a.py").unlink()
    await world.repositories.write(world.worktree, {"a.py/new.py": b"z\n"})

    commit = await world.repositories.commit(world.worktree, "one", world.base, ["a.py/new.py"])

    assert [*world.repository.files(commit)] == [".gitignore", "a.py/new.py", "src/b.py"]
    assert await world.repositories.changed_files(world.worktree) == []


@pytest.mark.parametrize("are_expected", [False, True])
async def test_a_file_that_a_sparse_checkout_omits_is_never_taken_for_deleted(are_expected: bool, world: World) -> None:
    world.repository.git("sparse-checkout", "set", "--no-cone", "/a.py")
    world.repository.git("config", "sparse.expectFilesOutsideOfPatterns", str(are_expected).lower())
    repositories = world.restart()
    worktree = await repositories.create_worktree(str(world.repository.path), "t2", world.base)
    world.repository.git("update-index", "--skip-worktree", "src/b.py", cwd=Path(worktree.path))
    await repositories.write(worktree, {"src/b.py": b"y = 2\n"})

    commit = await repositories.commit(worktree, "one", world.base, ["src/b.py"])
    again = await repositories.commit(worktree, "one", world.base, ["src/b.py"])

    assert commit == again
    assert world.repository.git("show", "forge/t2:src/b.py") == "y = 2"
    assert await repositories.changed_files(worktree) == []


async def test_a_lock_on_the_index_does_not_lose_a_commit(world: World) -> None:
    repositories = world.restart(lock_seconds=0.1)
    await repositories.write(world.worktree, {"a.py": b"x = 2\n"})
    lock = world.repository.path / ".git" / "worktrees" / "t1" / "index.lock"
    lock.touch()

    with pytest.raises(GitFailed, match="another git has held the lock"):
        await repositories.commit(world.worktree, "one", world.base, ["a.py"])
    made = world.repository.head("forge/t1")
    lock.unlink()
    commit = await repositories.commit(world.worktree, "one", world.base, ["a.py"])

    assert made == commit != world.base
    assert world.repository.git("status", "--porcelain", cwd=world.folder) == ""
