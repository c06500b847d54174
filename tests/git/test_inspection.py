"""Whether a task can work in a repository is known before a model is called."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from forge_proxy.core.tasks.errors import GitFailed, RepositoryUnusable
from forge_proxy.core.tasks.workspace import MergeResult
from forge_proxy.git.allowed import AllowedRepositories
from forge_proxy.git.program import GitProgram
from forge_proxy.git.repositories import GitRepositories
from tests.fakes.repository import AUTHOR, UserRepository, create_repository, repositories_of


async def reason_of(state: Path, path: Path, base: str | None = None, task_id: str = "t1") -> str:
    with pytest.raises(RepositoryUnusable) as caught:
        await repositories_of(state, path).inspect(str(path), base, task_id)
    return str(caught.value)


async def test_a_plain_repository_works_with_its_current_branch(tmp_path: Path) -> None:
    repository = create_repository(tmp_path / "repo")

    state = await repositories_of(tmp_path, repository.path).inspect(str(repository.path), None, "t1")

    assert (state.path, state.base_branch, state.base_commit) == (str(repository.path), "main", repository.head())


async def test_a_repository_that_was_not_allowed_is_rejected_until_it_is(tmp_path: Path) -> None:
    repository = create_repository(tmp_path / "repo")
    allowed = AllowedRepositories((), tmp_path / "allowed.json")
    repositories = GitRepositories(GitProgram(AUTHOR), tmp_path / "worktrees", allowed)

    with pytest.raises(RepositoryUnusable, match="forge-proxy tasks allow"):
        await repositories.inspect(str(repository.path), None, "t1")
    AllowedRepositories((), tmp_path / "allowed.json").allow(repository.path)  # as the command does
    state = await repositories.inspect(str(repository.path), None, "t1")

    assert state.base_branch == "main"


async def test_a_symlink_to_an_allowed_repository_is_that_repository(tmp_path: Path) -> None:
    repository = create_repository(tmp_path / "repo")
    link = tmp_path / "link"
    link.symlink_to(repository.path)

    state = await repositories_of(tmp_path, repository.path).inspect(str(link), None, "t1")

    assert state.path == str(repository.path)


async def test_an_allowed_symlink_that_now_leads_elsewhere_is_rejected(tmp_path: Path) -> None:
    first, second = create_repository(tmp_path / "one"), create_repository(tmp_path / "two")
    link = tmp_path / "link"
    link.symlink_to(first.path)
    repositories = repositories_of(tmp_path, link)
    link.unlink()
    link.symlink_to(second.path)

    with pytest.raises(RepositoryUnusable, match="tasks may not use"):
        await repositories.inspect(str(link), None, "t1")


async def change_and_merge(repositories: GitRepositories, path: Path) -> MergeResult:
    """Change a.py in a worktree of a repository, and merge the branch."""
    state = await repositories.inspect(str(path), None, "t1")
    worktree = await repositories.create_worktree(state.path, "t1", state.base_commit)
    await repositories.write(worktree, {"a.py": b"x = 2\n"})
    commit = await repositories.commit(worktree, "change", state.base_commit)
    return await repositories.merge(
        state.path, worktree.branch, "main",
        expected_head=commit, expected_base=state.base_commit, method="squash", message="Change",
    )  # fmt: skip


async def test_a_bare_repository_works(tmp_path: Path) -> None:
    create_repository(tmp_path / "repo").git("clone", "-q", "--bare", ".", str(tmp_path / "bare.git"))
    bare = tmp_path / "bare.git"
    repositories = repositories_of(tmp_path, bare)

    merged = await change_and_merge(repositories, bare)

    assert merged.updated_checkout is None
    assert UserRepository(bare).files("main")["a.py"] == "x = 2"


async def test_a_shallow_clone_works(tmp_path: Path) -> None:
    origin = create_repository(tmp_path / "origin")
    origin.commit({"a.py": "x = 2\n"})
    origin.git("clone", "-q", "--depth", "1", f"file://{origin.path}", str(tmp_path / "shallow"))
    shallow = UserRepository(tmp_path / "shallow")
    repositories = repositories_of(tmp_path, shallow.path)

    state = await repositories.inspect(str(shallow.path), None, "t1")
    worktree = await repositories.create_worktree(state.path, "t1", state.base_commit)
    await repositories.write(worktree, {"a.py": b"x = 3\n"})
    commit = await repositories.commit(worktree, "change", state.base_commit)
    merged = await repositories.merge(
        state.path, worktree.branch, "main",
        expected_head=commit, expected_base=state.base_commit, method="merge", message="Change",
    )  # fmt: skip

    assert shallow.files(merged.commit)["a.py"] == "x = 3"


@pytest.mark.parametrize("options", [("--cone", "src"), ("--cone", "--sparse-index", "src"), ("--no-cone", "/src/")])
@pytest.mark.parametrize("are_expected", [False, True])
async def test_a_task_has_all_files_of_a_sparse_checkout_which_stays_sparse(
    options: tuple[str, ...], are_expected: bool, tmp_path: Path
) -> None:
    repository = create_repository(tmp_path / "repo", {"src/a.py": "x = 1\n", "lib/b.py": "y = 1\n", "lib/c.py": "\n"})
    repository.git("sparse-checkout", "set", *options)
    repository.git("config", "sparse.expectFilesOutsideOfPatterns", str(are_expected).lower())
    repositories = repositories_of(tmp_path, repository.path)
    changed = {"src/a.py": b"x = 2\n", "lib/b.py": b"y = 2\n"}

    state = await repositories.inspect(str(repository.path), None, "t1")
    worktree = await repositories.create_worktree(state.path, "t1", state.base_commit)
    listed = await repositories.list_files(worktree)
    await repositories.write(worktree, changed)
    await repositories.reset(worktree)
    after_reset = await repositories.changed_files(worktree)
    await repositories.write(worktree, changed)
    commit = await repositories.commit(worktree, "change", state.base_commit)
    after_commit = await repositories.changed_files(worktree)
    merged = await repositories.merge(
        state.path, worktree.branch, "main",
        expected_head=commit, expected_base=state.base_commit, method="squash", message="Change",
    )  # fmt: skip

    assert listed == ["lib/b.py", "lib/c.py", "src/a.py"]
    assert (after_reset, after_commit) == ([], [])
    assert repository.files(merged.commit) == {"src/a.py": "x = 2", "lib/b.py": "y = 2", "lib/c.py": ""}
    assert (repository.path / "src" / "a.py").read_text() == "x = 2\n"
    assert not (repository.path / "lib").exists()
    assert repository.git("status", "--porcelain") == ""


async def test_a_partial_clone_without_all_files_is_reported_until_they_are_fetched(tmp_path: Path) -> None:
    origin = create_repository(tmp_path / "origin", {"src/a.py": "x = 1\n", "lib/b.py": "y = 1\n"})
    origin.git("config", "uploadpack.allowFilter", "true")
    origin.git("clone", "-q", "--filter=blob:none", "--sparse", f"file://{origin.path}", str(tmp_path / "partial"))
    partial = UserRepository(tmp_path / "partial")

    reason = await reason_of(tmp_path, partial.path)
    partial.git(*reason.partition("fetch them: git ")[2].split())
    state = await repositories_of(tmp_path, partial.path).inspect(str(partial.path), None, "t1")

    assert reason.startswith(f"{partial.path} is a partial clone that lacks 2 files of main; ")
    assert state.base_branch == "main"


async def test_uncommitted_changes_of_the_user_are_not_part_of_a_task(tmp_path: Path) -> None:
    repository = create_repository(tmp_path / "repo")
    (repository.path / "a.py").write_text("unfinished")
    repositories = repositories_of(tmp_path, repository.path)

    state = await repositories.inspect(str(repository.path), None, "t1")
    worktree = await repositories.create_worktree(state.path, "t1", state.base_commit)

    content = await repositories.read(worktree, "a.py")
    assert content is not None
    assert content.data == b"x = 1\n"
    assert (repository.path / "a.py").read_text() == "unfinished"


async def test_a_detached_head_needs_the_name_of_the_base_branch(tmp_path: Path) -> None:
    repository = create_repository(tmp_path / "repo")
    repository.git("checkout", "-q", "--detach")

    assert "detached HEAD" in await reason_of(tmp_path, repository.path)
    state = await repositories_of(tmp_path, repository.path).inspect(str(repository.path), "main", "t1")

    assert state.base_branch == "main"


async def test_a_branch_is_found_beside_a_tag_of_its_name_and_under_another_name(tmp_path: Path) -> None:
    repository = create_repository(tmp_path / "repo")
    repository.git("tag", "main")
    repository.git("symbolic-ref", "refs/heads/master", "refs/heads/main")
    repositories = repositories_of(tmp_path, repository.path)

    found = [(await repositories.inspect(str(repository.path), name, "t1")).base_branch for name in (None, "master")]

    assert found == ["main", "main"]
    assert "its branches: main, master" in await reason_of(tmp_path, repository.path, "other")


@pytest.mark.parametrize("kind", ["separate git folder", "submodule"])
async def test_a_checkout_whose_git_folder_is_in_another_place_works(kind: str, tmp_path: Path) -> None:
    origin = create_repository(tmp_path / "origin")
    path = tmp_path / "outer" / "sub"
    if kind == "submodule":
        outer = create_repository(tmp_path / "outer")
        outer.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(origin.path), "sub")
    else:
        path.parent.mkdir()
        origin.git("clone", "-q", "--separate-git-dir", str(tmp_path / "git"), ".", str(path))
    repositories = repositories_of(tmp_path, path)

    merged = await change_and_merge(repositories, path)

    assert merged.updated_checkout == str(path)
    assert (path / "a.py").read_text() == "x = 2\n"
    assert UserRepository(path).git("status", "--porcelain") == ""


async def test_an_empty_repository_needs_a_commit(tmp_path: Path) -> None:
    repository = create_repository(tmp_path / "repo", {})

    assert "has no commit yet" in await reason_of(tmp_path, repository.path)


async def test_a_base_branch_that_does_not_exist_is_reported_with_those_that_do(tmp_path: Path) -> None:
    repository = create_repository(tmp_path / "repo")
    repository.git("branch", "release")

    assert "has no branch 'develop'; its branches: main, release" in await reason_of(
        tmp_path, repository.path, "develop"
    )


@pytest.mark.parametrize("base", ["-q", "main~1", "a..b", "HEAD^{tree}", "--all", " "])
async def test_a_base_that_is_no_branch_name_is_rejected(tmp_path: Path, base: str) -> None:
    repository = create_repository(tmp_path / "repo")

    assert "is not a name of a branch" in await reason_of(tmp_path, repository.path, base)


async def test_a_branch_of_the_task_that_somebody_else_created_is_reported(tmp_path: Path) -> None:
    repository = create_repository(tmp_path / "repo")
    repository.git("branch", "forge/t1")

    assert "already has a branch forge/t1" in await reason_of(tmp_path, repository.path)


async def test_a_branch_named_forge_is_reported(tmp_path: Path) -> None:
    repository = create_repository(tmp_path / "repo")
    repository.git("branch", "forge")

    assert "has a branch 'forge'" in await reason_of(tmp_path, repository.path)


async def test_the_branch_that_the_same_task_has_created_is_no_obstacle(tmp_path: Path) -> None:
    repository = create_repository(tmp_path / "repo")
    repositories = repositories_of(tmp_path, repository.path)
    state = await repositories.inspect(str(repository.path), None, "t1")
    await repositories.create_worktree(state.path, "t1", state.base_commit)

    again = await repositories_of(tmp_path, repository.path).inspect(str(repository.path), None, "t1")

    assert again == state


async def test_folders_that_are_no_repository_are_told_apart(tmp_path: Path) -> None:
    repository = create_repository(tmp_path / "repo")
    (tmp_path / "folder").mkdir()
    repository.git("worktree", "add", "-q", "../linked")

    assert "is not a git repository" in await reason_of(tmp_path, tmp_path / "folder")
    assert "there is no such folder" in await reason_of(tmp_path, tmp_path / "missing")
    assert "is a folder inside the repository" in await reason_of(tmp_path, repository.path / "src")
    assert "is a linked worktree" in await reason_of(tmp_path, tmp_path / "linked")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
async def test_the_repository_of_another_user_is_reported(tmp_path: Path) -> None:
    repository = create_repository(tmp_path / "repo")
    for file in (repository.path, repository.path / ".git"):
        os.chown(file, 12345, 12345)

    assert "belongs to another user" in await reason_of(tmp_path, repository.path)


async def test_a_repository_that_was_moved_is_reported_and_works_again_once_it_is_back(tmp_path: Path) -> None:
    repository = create_repository(tmp_path / "repo")
    repositories = repositories_of(tmp_path, repository.path)
    state = await repositories.inspect(str(repository.path), None, "t1")
    worktree = await repositories.create_worktree(state.path, "t1", state.base_commit)
    repository.path.rename(tmp_path / "elsewhere")

    with pytest.raises(RepositoryUnusable, match="if the repository was moved, move it back"):
        await repositories.head(worktree)
    (tmp_path / "elsewhere").rename(repository.path)

    assert await repositories.head(worktree) == state.base_commit


async def test_a_git_that_is_missing_or_too_old_is_reported(tmp_path: Path) -> None:
    old = tmp_path / "old-git"
    old.write_text("#!/bin/sh\necho git version 2.30.1\n")
    old.chmod(0o755)

    with pytest.raises(GitFailed, match=r"git 2\.30 .* is too old; install git 2\.38 or newer"):
        await GitProgram(AUTHOR, program=str(old)).run("status")
    with pytest.raises(GitFailed, match="was not found"):
        await GitProgram(AUTHOR, program="no-such-git").run("status")


@pytest.mark.parametrize(("name", "reason"), [("none", "no such folder"), ("plain", "not the top folder of a git rep")])
def test_only_repositories_can_be_allowed(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "plain").mkdir()
    with pytest.raises(RepositoryUnusable, match=reason):
        AllowedRepositories((), tmp_path / "allowed.json").allow(tmp_path / name)

    assert not (tmp_path / "allowed.json").exists()
