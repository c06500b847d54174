"""Commits, diffs and resets of worktrees."""

from __future__ import annotations

from pathlib import Path

import pytest

from forge_proxy.core.tasks.errors import GitFailed, UnsafePath
from forge_proxy.core.tasks.workspace import Worktree
from forge_proxy.git.repositories import GitRepositories
from tests.fakes.repository import UserRepository, create_repository, repositories_of

_FILES = {"a.py": "x = 1\n", "src/b.py": "y = 1\n", ".gitignore": "*.log\nbuild/\n"}


class World:
    """A repository with the worktree of one task."""

    def __init__(self, repository: UserRepository, repositories: GitRepositories, worktree: Worktree) -> None:
        self.repository = repository
        self.repositories = repositories
        self.worktree = worktree
        self.folder = Path(worktree.path)
        self.base = worktree.base_commit


@pytest.fixture
async def world(tmp_path: Path) -> World:
    repository = create_repository(tmp_path / "repo", dict(_FILES))
    repositories = repositories_of(tmp_path, repository.path)
    worktree = await repositories.create_worktree(str(repository.path), "t1", repository.head())
    return World(repository, repositories, worktree)


async def test_a_commit_has_the_configured_author_and_all_changes_but_ignored_files(world: World) -> None:
    await world.repositories.write(world.worktree, {"a.py": b"x = 2\n", "new/c.py": b"z\n", "x.log": b"log"})
    (world.folder / "src" / "b.py").unlink()

    changed = await world.repositories.changed_files(world.worktree)
    commit = await world.repositories.commit(world.worktree, "Step 1\n\nWhy: because", world.base)

    assert changed == ["a.py", "new/c.py", "src/b.py"]
    assert world.repository.files(commit) == {".gitignore": "*.log\nbuild/", "a.py": "x = 2", "new/c.py": "z"}
    assert world.repository.git("log", "-1", "--format=%an <%ae> %cn|%B", commit) == (
        "forge-proxy <forge-proxy@localhost> forge-proxy|Step 1\n\nWhy: because"
    )
    assert world.repository.head("forge/t1") == commit
    assert await world.repositories.changed_files(world.worktree) == []
    assert await world.repositories.changed_files(world.worktree, world.base) == changed


async def test_d16_each_step_is_one_commit_on_the_one_before(world: World) -> None:
    await world.repositories.write(world.worktree, {"a.py": b"x = 2\n"})
    first = await world.repositories.commit(world.worktree, "one", world.base)
    await world.repositories.write(world.worktree, {"a.py": b"x = 3\n"})
    second = await world.repositories.commit(world.worktree, "two", first)

    assert world.repository.git("log", "--format=%s", "forge/t1").splitlines() == ["two", "one", "first"]
    assert world.repository.head(f"{second}^") == first


async def test_a_repeated_commit_is_the_same_commit(world: World) -> None:
    await world.repositories.write(world.worktree, {"a.py": b"x = 2\n", "new.py": b"n\n"})
    commit = await world.repositories.commit(world.worktree, "one", world.base)
    index = world.repository.path / ".git" / "worktrees" / "t1" / "index"
    index.unlink()  # as if the daemon had been killed before it could update the index

    assert await world.repositories.commit(world.worktree, "one", world.base) == commit
    assert await world.repositories.changed_files(world.worktree) == []


async def test_a_repeated_commit_of_some_paths_does_not_mind_what_a_check_has_left_behind(world: World) -> None:
    await world.repositories.write(world.worktree, {"a.py": b"x = 2\n", "report.xml": b"<tests/>"})
    commit = await world.repositories.commit(world.worktree, "one", world.base, ["a.py"])

    assert await world.repositories.commit(world.worktree, "one", world.base, ["a.py"]) == commit


async def test_a_commit_on_a_branch_that_has_moved_fails(world: World) -> None:
    await world.repositories.write(world.worktree, {"a.py": b"x = 2\n"})
    await world.repositories.commit(world.worktree, "one", world.base)
    await world.repositories.write(world.worktree, {"a.py": b"x = 3\n"})

    with pytest.raises(GitFailed, match=r"branch forge/t1 is at \w{12} and not at"):
        await world.repositories.commit(world.worktree, "one", world.base)
    with pytest.raises(GitFailed, match="any more"):
        await world.repositories.commit(world.worktree, "another", world.base)


async def test_a_commit_without_changes_is_its_parent(world: World) -> None:
    assert await world.repositories.commit(world.worktree, "nothing", world.base) == world.base


async def test_a_commit_of_some_paths_leaves_what_a_check_has_left_behind(world: World) -> None:
    await world.repositories.write(world.worktree, {"a.py": b"x = 2\n"})
    (world.folder / ".coverage").write_text("debris")
    (world.folder / "src" / "b.py").write_text("changed by a test\n")

    commit = await world.repositories.commit(world.worktree, "one", world.base, paths=["a.py"])

    assert world.repository.files(commit) == {**world.repository.files("main"), "a.py": "x = 2"}
    assert await world.repositories.changed_files(world.worktree) == [".coverage", "src/b.py"]


async def test_d23_a_reset_keeps_committed_steps_and_ignored_files(world: World) -> None:
    await world.repositories.write(world.worktree, {"a.py": b"x = 2\n"})
    first = await world.repositories.commit(world.worktree, "one", world.base)
    await world.repositories.write(world.worktree, {"a.py": b"x = 3\n", "new/c.py": b"z\n", "build/cache": b"kept"})
    (world.folder / "src" / "b.py").unlink()
    world.repository.git("init", "-q", "nested", cwd=world.folder)

    await world.repositories.reset(world.worktree)

    assert await world.repositories.changed_files(world.worktree) == []
    assert await world.repositories.head(world.worktree) == first
    assert (world.folder / "a.py").read_text() == "x = 2\n"
    assert (world.folder / "build" / "cache").read_text() == "kept"
    assert not (world.folder / "new").exists()
    assert not (world.folder / "nested").exists()


async def test_a_reset_to_a_commit_takes_back_the_steps_since(world: World) -> None:
    await world.repositories.write(world.worktree, {"a.py": b"x = 2\n"})
    await world.repositories.commit(world.worktree, "one", world.base)

    await world.repositories.reset(world.worktree, world.base)

    assert await world.repositories.head(world.worktree) == world.base
    assert (world.folder / "a.py").read_text() == "x = 1\n"
    assert world.repository.head("forge/t1") == world.base


async def test_diffs_show_new_files_and_change_nothing(world: World) -> None:
    await world.repositories.write(world.worktree, {"a.py": b"x = 2\n", "new.py": b"n = 1\n"})

    diff = await world.repositories.diff_worktree(world.worktree)

    assert "-x = 1\n+x = 2\n" in diff
    assert "new file mode 100644" in diff
    assert world.repository.git("status", "--porcelain", cwd=world.folder).splitlines() == ["M a.py", "?? new.py"]
    commit = await world.repositories.commit(world.worktree, "one", world.base)
    assert await world.repositories.diff(str(world.repository.path), "main", "forge/t1") == diff
    assert await world.repositories.diff(str(world.repository.path), world.base, commit) == diff


async def test_a_symlink_or_a_nested_repository_is_never_committed(world: World) -> None:
    (world.folder / "link").symlink_to("/etc/passwd")

    with pytest.raises(UnsafePath, match="a symlink or a nested repository"):
        await world.repositories.commit(world.worktree, "one", world.base)
    (world.folder / "link").unlink()
    world.repository.git("init", "-q", "nested", cwd=world.folder)
    (world.folder / "nested" / "file").write_text("x")
    world.repository.git("add", "-A", cwd=world.folder / "nested")
    world.repository.git("commit", "-q", "-m", "inner", cwd=world.folder / "nested")

    assert await world.repositories.changed_files(world.worktree) == []
    with pytest.raises(UnsafePath, match="a symlink or a nested repository"):
        await world.repositories.commit(world.worktree, "one", world.base, paths=["nested"])


async def test_files_are_listed_with_new_ones_and_without_deleted_ones(world: World) -> None:
    await world.repositories.write(world.worktree, {"new.py": b"n\n", "x.log": b"ignored"})
    (world.folder / "a.py").unlink()

    assert await world.repositories.list_files(world.worktree) == [".gitignore", "new.py", "src/b.py"]


async def test_a_git_folder_that_a_check_has_put_into_the_worktree_is_not_used(world: World) -> None:
    """Its configuration could name programs, which git would run outside of the sandbox."""
    evil = world.folder / "evil"
    world.repository.git("init", "-q", str(evil))
    marker = world.folder.parent / "executed"
    with (evil / ".git" / "config").open("a") as config:
        config.write(f"[core]\n\tfsmonitor = touch {marker}\n\thooksPath = {evil}\n")
    (world.folder / ".git").unlink()
    (world.folder / ".git").write_text(f"gitdir: {evil}/.git\n")
    await world.repositories.write(world.worktree, {"a.py": b"x = 2\n"})

    await world.repositories.diff_worktree(world.worktree)
    commit = await world.repositories.commit(world.worktree, "one", world.base, paths=["a.py"])
    await world.repositories.reset(world.worktree)

    assert world.repository.head("forge/t1") == commit
    assert not marker.exists()


async def test_hooks_filters_and_monitors_of_the_repository_are_not_run(world: World, tmp_path: Path) -> None:
    marker = tmp_path / "executed"
    hook = f"#!/bin/sh\ntouch {marker}\n"
    for name in ("pre-commit", "post-checkout", "reference-transaction", "post-index-change", "post-commit"):
        file = world.repository.path / ".git" / "hooks" / name
        file.write_text(hook)
        file.chmod(0o755)
    script = tmp_path / "program"
    script.write_text(f"{hook}cat\n")
    script.chmod(0o755)
    world.repository.git("config", "core.fsmonitor", str(script))
    world.repository.git("config", "filter.evil.clean", str(script))
    world.repository.git("config", "filter.evil.smudge", str(script))
    world.repository.git("config", "diff.external", str(script))
    repositories = repositories_of(tmp_path, world.repository.path)
    (world.folder / ".gitattributes").write_text("*.py filter=evil\n")
    (world.folder / "a.py").write_text("x = 2\n")

    await repositories.diff_worktree(world.worktree)
    commit = await repositories.commit(world.worktree, "one", world.base)
    await repositories.create_worktree(str(world.repository.path), "t2", commit)
    await repositories.merge(
        str(world.repository.path), "forge/t1", "main",
        expected_head=commit, expected_base=world.base, method="merge", message="Merge",
    )  # fmt: skip

    assert not marker.exists()


async def test_the_settings_of_the_user_do_not_matter(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / ".gitconfig"
    settings.write_text("[core]\n\tautocrlf = true\n[commit]\n\tgpgSign = true\n[user]\n\tname = Somebody\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Somebody")
    repositories = repositories_of(tmp_path, world.repository.path)
    await repositories.write(world.worktree, {"a.py": b"x = 2\r\n"})

    commit = await repositories.commit(world.worktree, "one", world.base)

    assert world.repository.git("log", "-1", "--format=%an", commit) == "forge-proxy"
    assert world.repository.git("cat-file", "-s", f"{commit}:a.py") == "7"


async def test_a_committed_file_is_read_as_it_was_committed(world: World) -> None:
    (world.folder / "a.py").write_text("changed")
    repository = str(world.repository.path)
    world.repository.path.joinpath("link").symlink_to("a.py")
    head = world.repository.commit({})

    assert await world.repositories.read_committed(repository, world.base, "a.py") == b"x = 1\n"
    assert await world.repositories.read_committed(repository, world.base, "missing") is None
    assert await world.repositories.read_committed(repository, head, "link") is None
    assert await world.repositories.read_committed(repository, head, "src") is None
