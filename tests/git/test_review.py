"""Nothing but an approval moves the base branch, and only from what the person has seen (D7)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from forge_proxy.core.tasks.errors import GitFailed, MergeConflict
from forge_proxy.core.tasks.workspace import MergeMethod, MergeResult, Worktree
from forge_proxy.git.repositories import GitRepositories
from tests.fakes.repository import UserRepository, create_repository, repositories_of

METHODS: tuple[MergeMethod, ...] = ("merge", "squash", "rebase")


class Review:
    """A task with two commits, which awaits its merge."""

    def __init__(self, repository: UserRepository, repositories: GitRepositories, worktree: Worktree) -> None:
        self.repository = repository
        self.repositories = repositories
        self.worktree = worktree
        self.base = worktree.base_commit
        self.head = ""

    async def commit(self, message: str, files: dict[str, bytes]) -> None:
        await self.repositories.write(self.worktree, files)
        self.head = await self.repositories.commit(self.worktree, message, self.head or self.base)

    async def approve(self, method: MergeMethod, *, base: str | None = None, head: str | None = None) -> MergeResult:
        return await self.repositories.merge(
            str(self.repository.path), "forge/t1", "main",
            expected_head=head or self.head, expected_base=base or self.repository.head("main"),
            method=method, message="Merge t1\n\nApproved-by: Ada",
        )  # fmt: skip


@pytest.fixture
async def review(tmp_path: Path) -> Review:
    repository = create_repository(tmp_path / "repo", {"a.py": "x = 1\n", "b.py": "y = 1\n"})
    repositories = repositories_of(tmp_path, repository.path, lock_seconds=1)
    worktree = await repositories.create_worktree(str(repository.path), "t1", repository.head())
    prepared = Review(repository, repositories, worktree)
    await prepared.commit("one", {"a.py": b"x = 2\n"})
    await prepared.commit("two", {"new.py": b"z = 1\n"})
    return prepared


async def test_d7_a_finished_task_has_not_moved_the_base_branch(review: Review) -> None:
    assert review.repository.head("main") == review.base
    assert review.repository.git("status", "--porcelain") == ""


@pytest.mark.parametrize("method", METHODS)
async def test_d7_an_approval_merges_into_a_base_that_has_moved_on(review: Review, method: MergeMethod) -> None:
    before = review.repository.commit({"b.py": "y = 2\n"}, "meanwhile")

    merged = await review.approve(method)

    assert review.repository.head("main") == merged.commit
    assert review.repository.files("main") == {"a.py": "x = 2", "b.py": "y = 2", "new.py": "z = 1"}
    assert merged.updated_checkout == str(review.repository.path)
    assert review.repository.git("status", "--porcelain") == ""
    assert (review.repository.path / "a.py").read_text() == "x = 2\n"
    graph = review.repository.git("log", "--format=%s|%an|%cn", f"{before}..main").splitlines()
    parents = review.repository.git("log", "-1", "--format=%P", "main").split()
    forge = "forge-proxy|forge-proxy"
    assert (graph, len(parents)) == {
        "merge": ([f"Merge t1|{forge}", f"two|{forge}", f"one|{forge}"], 2),
        "squash": ([f"Merge t1|{forge}"], 1),
        "rebase": ([f"two|{forge}", f"one|{forge}"], 1),
    }[method]


async def test_a_rebase_onto_an_unchanged_base_moves_it_to_the_same_commits(review: Review) -> None:
    assert (await review.approve("rebase")).commit == review.head


async def test_a_rebase_keeps_the_authors_of_commits(review: Review) -> None:
    folder = Path(review.worktree.path)
    user = UserRepository(folder)
    user.commit({"fix.py": "f = 1\n"}, "Fix by hand\n\nBody")
    review.repository.commit({"b.py": "y = 2\n"}, "meanwhile")

    await review.approve("rebase", head=user.head())

    assert review.repository.git("log", "-1", "--format=%an|%cn|%B", "main") == "Ada|forge-proxy|Fix by hand\n\nBody"


@pytest.mark.parametrize("method", METHODS)
async def test_d7_a_repeated_approval_is_one_merge(review: Review, method: MergeMethod) -> None:
    base = review.repository.commit({"b.py": "y = 2\n"}, "meanwhile")

    first = await review.approve(method, base=base)
    again = await review.approve(method, base=base)

    assert again == first
    assert review.repository.head("main") == first.commit


@pytest.mark.parametrize("method", METHODS)
async def test_d7_what_is_merged_already_is_not_merged_again(review: Review, method: MergeMethod) -> None:
    """The daemon was killed before it stored the result, and the person has not named the base that was seen."""
    review.repository.commit({"b.py": "y = 2\n"}, "meanwhile")
    first = await review.approve(method)
    if method != "rebase":
        review.repository.git("read-tree", "-m", "-u", "HEAD", "HEAD^")  # killed before the checkout was updated

    assert await review.approve(method) == first
    assert review.repository.head("main") == first.commit
    assert review.repository.git("status", "--porcelain") == ""


async def test_an_approval_that_was_killed_before_the_checkout_was_updated_updates_it_when_repeated(
    review: Review,
) -> None:
    merged = await review.approve("merge", base=review.base)
    review.repository.git("read-tree", "-m", "-u", "HEAD", review.base)  # the files and the index as they were before

    assert await review.approve("merge", base=review.base) == merged
    assert review.repository.git("status", "--porcelain") == ""


@pytest.mark.parametrize("method", METHODS)
async def test_d7_conflicts_are_found_before_anything_is_changed(review: Review, method: MergeMethod) -> None:
    base = review.repository.commit({"a.py": "x = 3\n"}, "conflicting")

    with pytest.raises(MergeConflict, match="conflicts with main") as caught:
        await review.approve(method)

    assert caught.value.paths == ("a.py",)
    assert review.repository.head("main") == base
    assert review.repository.git("status", "--porcelain") == ""
    assert (review.repository.path / "a.py").read_text() == "x = 3\n"


async def test_d7_what_the_person_has_not_seen_is_not_merged(review: Review) -> None:
    seen = review.head
    base = review.repository.head("main")
    await review.commit("three", {"a.py": b"x = 9\n"})
    with pytest.raises(MergeConflict, match=r"the branch of the task forge/t1 is at .* review the current diff"):
        await review.approve("merge", head=seen)
    moved = review.repository.commit({"b.py": "y = 2\n"}, "meanwhile")
    with pytest.raises(MergeConflict, match="the base branch main is at"):
        await review.approve("merge", base=base)

    assert review.repository.head("main") == moved


async def test_d7_a_checkout_with_uncommitted_changes_is_refused(review: Review) -> None:
    (review.repository.path / "b.py").write_text("unfinished\n")

    with pytest.raises(MergeConflict, match="with uncommitted changes; commit or stash them") as caught:
        await review.approve("merge")

    assert caught.value.paths == ("b.py",)
    assert review.repository.head("main") == review.base
    assert (review.repository.path / "b.py").read_text() == "unfinished\n"


async def test_d7_an_untracked_file_of_the_user_is_not_overwritten(review: Review) -> None:
    (review.repository.path / "new.py").write_text("mine\n")

    with pytest.raises(MergeConflict, match=r"cannot be updated: .*new\.py.* would be overwritten"):
        await review.approve("merge")

    assert (review.repository.path / "new.py").read_text() == "mine\n"
    assert review.repository.head("main") == review.base


@pytest.mark.parametrize(("mine", "new"), [("x.env", "x.env"), ("x.env/mine.env", "x.env"), ("x.env", "x.env/new.py")])
async def test_d7_a_file_that_git_ignores_is_not_overwritten(mine: str, new: str, review: Review) -> None:
    (review.repository.path / ".git" / "info" / "exclude").write_text("*.env\n")
    (review.repository.path / mine).parent.mkdir(exist_ok=True)
    (review.repository.path / mine).write_text("mine\n")
    await review.repositories.write(review.worktree, {new: b"z = 2\n"})
    review.head = await review.repositories.commit(review.worktree, "three", review.head, [new])

    with pytest.raises(MergeConflict, match=r"files that git ignores|cannot be updated"):
        await review.approve("merge")

    assert (review.repository.path / mine).read_text() == "mine\n"
    assert review.repository.head("main") == review.base


async def test_a_folder_takes_the_place_of_a_file_that_the_task_has_deleted(review: Review) -> None:
    (Path(review.worktree.path) / "b.py").unlink()
    await review.repositories.write(review.worktree, {"b.py/c.py": b"z = 2\n"})
    review.head = await review.repositories.commit(review.worktree, "three", review.head, ["b.py/c.py"])

    await review.approve("merge")

    assert (review.repository.path / "b.py" / "c.py").read_text() == "z = 2\n"
    assert review.repository.git("status", "--porcelain") == ""


async def test_an_untracked_file_that_the_task_does_not_touch_is_no_obstacle(review: Review) -> None:
    (review.repository.path / "notes.txt").write_text("mine\n")

    await review.approve("merge")

    assert (review.repository.path / "notes.txt").read_text() == "mine\n"


async def test_an_unfinished_merge_of_the_user_is_reported(review: Review) -> None:
    (review.repository.path / ".git" / "MERGE_HEAD").write_text(f"{review.head}\n")

    with pytest.raises(MergeConflict, match="has an unfinished merge"):
        await review.approve("merge")


async def test_a_base_that_is_not_checked_out_is_moved_alone(review: Review) -> None:
    review.repository.git("checkout", "-q", "-b", "other")
    (review.repository.path / "b.py").write_text("unfinished\n")

    merged = await review.approve("merge")

    assert merged.updated_checkout is None
    assert review.repository.head("main") == merged.commit
    assert review.repository.head("other") == review.base
    assert (review.repository.path / "a.py").read_text() == "x = 1\n"


async def test_a_base_that_is_checked_out_in_a_linked_worktree_is_updated_there(review: Review, tmp_path: Path) -> None:
    review.repository.git("checkout", "-q", "-b", "other")
    review.repository.git("worktree", "add", "-q", str(tmp_path / "linked"), "main")

    merged = await review.approve("squash")

    assert merged.updated_checkout == str(tmp_path / "linked")
    assert (tmp_path / "linked" / "new.py").exists()
    assert review.repository.git("status", "--porcelain", cwd=tmp_path / "linked") == ""


async def test_of_two_approvals_at_the_same_time_one_wins(review: Review) -> None:
    outcomes = await asyncio.gather(
        review.approve("merge", base=review.base), review.approve("squash", base=review.base), return_exceptions=True
    )

    assert sum(isinstance(outcome, MergeResult) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, (MergeConflict, GitFailed)) for outcome in outcomes) == 1


async def test_a_lock_on_the_checkout_fails_before_the_base_is_moved(review: Review) -> None:
    (review.repository.path / ".git" / "index.lock").touch()

    with pytest.raises(GitFailed, match=r"another git has held the lock .*index\.lock"):
        await review.approve("merge")

    assert review.repository.head("main") == review.base
