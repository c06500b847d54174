"""Tasks of a single step, with real git and a scripted model (D2, D7, D9, D15, D21)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.tasks.errors import RepositoryUnusable
from forge_proxy.core.tasks.findings import Baseline, ValidationResult
from forge_proxy.core.tasks.models import ForgeTaskInput
from forge_proxy.core.tasks.workspace import MergeMethod
from forge_proxy.tasks.errors import TaskConflict
from forge_proxy.tasks.ports import CheckRequest
from tests.tasks.conftest import CART, FakeChecks, open_world

ADD = {
    "search": "        self.items = []\n",
    "replace": "        self.items = []\n\n    def total(self):\n        return 0\n",
}
GOOD: dict[str, Any] = {"respond": {"edits": [{"path": "cart.py", "edits": [ADD]}]}}
AFTER = CART + "\n    def total(self):\n        return 0\n"


def bad(text: str, **rule: Any) -> dict[str, Any]:
    """A rule that writes a file of this content, once."""
    return {"respond": {"files": [{"path": "cart.py", "content": text}]}, "times": 1, **rule}


async def test_d2_a_single_step_ends_in_a_commit_on_its_own_branch(folder: Path) -> None:
    async with open_world(folder, GOOD) as world:
        base = world.repository.head()
        done = await world.run()
        kinds = [event.type for event in await world.events()]

        assert (done.job.status, done.state.progress.commits) == ("requires_action", (done.state.head,))
        assert world.repository.files("forge/total") == {
            **{path: str(text).strip() for path, text in world.repository.files().items()}, "cart.py": AFTER.strip()
        }  # fmt: skip
        assert world.repository.head() == base  # D7: nothing has moved it
        assert world.repository.git("log", "-1", "--format=%s", "forge/total") == "Add a total."
        assert "Forge-Task: total" in world.repository.git("log", "-1", "--format=%B", "forge/total")
        assert [kind for kind in kinds if kind != "status"] == [
            "admitted", "prepared", "baseline", "assembled", "called", "written", "validated", "committed",
            "awaiting_merge",
        ]  # fmt: skip
        assert world.worktrees() == []
        assert done.state.result is not None
        assert (done.state.result.status, done.state.result.output_files) == ("awaiting_merge", ("cart.py",))


async def test_s_context_the_prompt_has_the_instructions_and_the_file(folder: Path) -> None:
    async with open_world(folder, GOOD) as world:
        await world.run()

        (request,) = world.model.made("generate")
        system = request.body["messages"][0]["content"]
        assert "From AGENTS.md:\n\nUse type hints." in system
        assert "### cart.py\n\n```\nclass Cart:" in system


async def test_d15_a_failed_attempt_is_repeated_from_a_clean_state_with_its_findings(folder: Path) -> None:
    spoiled = bad("x = 1\n\ndef f():\n    return BAD\n")
    async with open_world(folder, spoiled, GOOD) as world:
        done = await world.run()

        first, second = world.model.made("generate")
        retry = second.body["messages"][0]["content"]
        assert retry.startswith(first.body["messages"][0]["content"])
        assert "[lint] cart.py:4: X1 bad line: return BAD" in retry
        assert "    3 def f():\n    4     return BAD  # <-- ERROR" in retry
        assert done.job.status == "requires_action"
        assert world.repository.git("show", "forge/total:cart.py") == AFTER.strip()
        assert [failure.reason for failure in done.state.failures] == ["lint: 1 findings"]


async def test_d9_two_failed_attempts_halt_with_a_report_and_an_unchanged_base(folder: Path) -> None:
    async with open_world(folder, {**bad("BAD = 1\n"), "times": 9}) as world:
        base = world.repository.head()
        done = await world.run()
        diffs = await world.tasks.read_documents([failure.diff or "" for failure in done.state.failures])

        assert done.job.status == "halted"
        assert done.state.halt == "2 attempts failed; the last one: lint: 1 findings"
        assert len(done.state.failures) == len(done.state.calls) == 2
        assert all(b"+BAD = 1" in diffs[failure.diff or ""] for failure in done.state.failures)
        assert (world.repository.head(), world.repository.head("main")) == (base, base)


@pytest.mark.parametrize(("answer", "status"), [("retry", "requires_action"), ("stop", "failed"), ("skip", "failed")])
async def test_d9_a_person_answers_to_a_halt(folder: Path, answer: Any, status: str) -> None:
    async with open_world(folder, {**bad("BAD = 1\n"), "times": 2}, GOOD) as world:
        await world.run()
        await world.tasks.answer("total", answer, "Do not write BAD.")
        done = await world.wait("requires_action", "failed")

        assert done.job.status == status
        assert world.worktrees() == []
        if answer == "retry":
            assert "A reviewer writes: Do not write BAD." in str(world.model.requests[-1].body)
        with pytest.raises(TaskConflict, match="waits for no answer"):
            await world.tasks.answer("total", "retry", "")


async def test_s_edits_only_failed_edits_are_requested_again(folder: Path) -> None:
    other = {"search": "class Cart:\n", "replace": "class Basket:\n"}
    first = {"respond": {"edits": [{"path": "cart.py", "edits": [{**ADD, "search": "zzzz qqqq"}, other]}]}, "times": 1}
    again = {"when": {"operation": "edits"}, **GOOD}
    async with open_world(folder, first, again) as world:
        done = await world.run()

        (request,) = world.model.made("edits")
        system = request.body["messages"][0]["content"]
        assert "The edit had this `search`:\n\n`````\nzzzz qqqq\n`````" in system
        assert "class Basket:" in system  # the edit that was applied
        assert done.job.status == "requires_action"
        assert world.repository.git("show", "forge/total:cart.py") == AFTER.replace("Cart", "Basket").strip()
        assert [call.match_levels for call in done.state.calls] == [("exact",), ("exact", "exact")]
        assert done.state.progress.attempts == 1


@pytest.mark.parametrize(
    ("fault", "times", "requests"),
    [
        ("unmatched", 2, ["generate", "edits", "generate"]),
        ("ambiguous", 2, ["generate", "edits", "generate"]),
        ("elided", 2, ["generate", "edits", "generate"]),
        ("empty", 1, ["generate", "generate"]),
        ("wrong_path", 1, ["generate", "generate"]),
        ("truncated", 2, ["generate", "generate", "generate"]),
        ("bad_json", 2, ["generate", "correction", "generate"]),
    ],
)
async def test_s_errors_a_spoiled_response_costs_an_attempt_and_nothing_else(
    folder: Path, fault: str, times: int, requests: list[str]
) -> None:
    spoiled = {**GOOD, "fault": fault, "times": times}
    async with open_world(folder, spoiled, GOOD) as world:
        done = await world.run()

        assert done.job.status == "requires_action"
        assert world.repository.git("show", "forge/total:cart.py") == AFTER.strip()
        assert [request.operation for request in world.model.requests if request.operation != "other"] == requests
        assert done.state.progress.attempts == 2


async def test_d8_writing_outside_the_scope_twice_halts(folder: Path) -> None:
    async with open_world(folder, {**GOOD, "fault": "wrong_path"}) as world:
        done = await world.run(max_attempts=5)

        assert done.job.status == "halted"
        assert "outside the paths that this task may write" in done.state.halt
        assert done.state.progress.attempts == 2


async def test_d21_the_fixers_run_before_the_checks_and_are_committed(folder: Path) -> None:
    async with open_world(folder, bad("x = 1  # FIXME\n")) as world:
        await world.run()

        assert world.repository.git("show", "forge/total:cart.py") == "x = 1"


async def test_s_step_what_a_check_leaves_behind_is_not_committed(folder: Path) -> None:
    class LitteringChecks(FakeChecks):
        async def run(self, request: CheckRequest, baseline: Baseline) -> Sequence[ValidationResult]:
            self._litter(Path(request.worktree.path))
            return await super().run(request, baseline)

        def _litter(self, folder: Path) -> None:
            (folder / "report.xml").write_text("<tests/>")
            (folder / "README.md").write_text("rewritten")
            (folder / ".github").mkdir()
            (folder / ".github" / "deploy.yml").write_text("on: push")

    async with open_world(folder, GOOD, checks=LitteringChecks()) as world:
        done = await world.run()

        assert done.state.result is not None
        assert done.state.result.output_files == ("cart.py",)
        assert world.repository.git("diff", "--name-only", "main", "forge/total") == "cart.py"


async def test_findings_of_the_base_branch_do_not_count(folder: Path) -> None:
    async with open_world(folder, bad("BAD = 0\n\n\nx = 1\n"), files={"cart.py": "BAD = 0\n"}) as world:
        done = await world.run()

        assert done.job.status == "requires_action"


async def test_d7_an_approved_branch_is_merged_and_nothing_is_left_behind(folder: Path) -> None:
    async with open_world(folder, GOOD) as world:
        done = await world.run()
        with pytest.raises(TaskConflict, match="look at the diff again"):
            await world.tasks.approve("total", head="0" * 40, base=None, method="merge", approver="ada")
        await world.tasks.approve("total", head=done.state.head, base=None, method="squash", approver="ada")
        merged = await world.wait("completed")

        assert merged.state.result is not None
        assert (merged.state.result.status, merged.state.approver) == ("merged", "ada")
        assert world.repository.git("show", "main:cart.py") == AFTER.strip()
        assert "Approved-by: ada" in world.repository.git("log", "-1", "--format=%B", "main")
        assert world.repository.git("branch", "--list", "forge/*") == ""
        with pytest.raises(TaskConflict, match="nothing to review"):
            await world.tasks.reject("total", "ada")


async def test_d7_a_rejected_branch_is_deleted(folder: Path) -> None:
    async with open_world(folder, GOOD) as world:
        base = world.repository.head()
        await world.run()
        await world.tasks.reject("total", "ada")
        done = await world.wait("completed")

        assert done.state.result is not None
        assert done.state.result.status == "rejected"
        assert (world.repository.head("main"), world.repository.git("branch", "--list", "forge/*")) == (base, "")


async def test_d7_requested_changes_are_another_commit_on_the_same_branch(folder: Path) -> None:
    second = {"respond": {"edits": [{"path": "cart.py", "edits": [{"search": "return 0", "replace": "return 1"}]}]}}
    async with open_world(folder, {**GOOD, "times": 1}, second) as world:
        await world.run()
        await world.tasks.request_changes("total", "Return one.")
        done = await world.wait("requires_action", "halted")

        assert done.job.status == "requires_action"
        assert "A reviewer writes: Return one." in str(world.model.requests[-1].body)
        assert world.repository.git("log", "--format=%s", "main..forge/total").split("\n") == [
            "Requested changes: Return one.", "Add a total.",
        ]  # fmt: skip
        assert await world.tasks.diff("total")


async def test_a_target_that_does_not_fit_halts_before_any_call(folder: Path) -> None:
    async with open_world(folder, GOOD, window=300) as world:
        done = await world.run()

        assert done.job.status == "halted"
        assert "the window has only 300" in done.state.halt
        assert world.model.made("generate") == []


async def test_an_id_can_be_used_once(folder: Path) -> None:
    async with open_world(folder, GOOD) as world:
        await world.run()
        with pytest.raises(TaskConflict, match="choose another task_id"):
            await world.submit()


@pytest.mark.parametrize("fields", [{"target_files": ["src/*.py"]}, {"target_files": ["**"], "plan": True}])
async def test_d8_a_pattern_is_no_target(folder: Path, fields: dict[str, Any]) -> None:
    async with open_world(folder, GOOD) as world:
        with pytest.raises(InvalidRequest, match=r"task.target_files\[0\].*patterns are possible in may_write"):
            await world.submit(**fields)


async def test_a_repository_that_is_not_allowed_is_rejected_before_anything_is_stored(folder: Path) -> None:
    async with open_world(folder, GOOD) as world:
        world.repository.path.rename(folder / "moved")
        with pytest.raises(RepositoryUnusable):
            await world.submit()

        assert await world.tasks.list(before=None, limit=10, status=None) == []


async def test_a_cancelled_task_stays_cancelled(folder: Path) -> None:
    async with open_world(folder, {**bad("BAD = 1\n"), "times": 9}) as world:
        await world.run()
        done = await world.tasks.cancel("total")

        assert done.job.status == "cancelled"


@pytest.mark.parametrize("form", ["json", "blocks"])
@pytest.mark.parametrize("method", ["response_format", "tool", "prompt"])
async def test_s_answer_every_method_and_form_gives_the_same_commit(folder: Path, form: str, method: str) -> None:
    tiers = {"generation": {"response_form": form, "method": method}}
    async with open_world(folder, GOOD, tiers=tiers) as world:
        done = await world.run()

        assert done.job.status == "requires_action"
        assert world.repository.git("show", "forge/total:cart.py") == AFTER.strip()
        (request,) = world.model.made("generate")
        sent = [name for name in ("response_format", "tools") if request.body.get(name)]
        asked = {"response_format": ["response_format"], "tool": ["tools"], "prompt": []}
        assert sent == ([] if form == "blocks" else asked[method])
        assert request.body["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize("method", ["merge", "squash", "rebase"])
async def test_d7_an_approval_after_a_crash_between_the_merge_and_its_record_moves_the_base_once(
    folder: Path, method: MergeMethod
) -> None:
    async with open_world(folder, GOOD) as world:
        before = world.repository.head()
        task = await world.run()
        merged = await world.merge_without_record(method)
        assert world.repository.head() == merged != before
    async with open_world(folder, GOOD) as world:
        assert (await world.tasks.get("total")).job.status == "requires_action"
        await world.tasks.approve("total", head=task.state.head, base=None, method=method, approver="ada")
        done = await world.wait("completed")

        assert world.repository.head() == merged
        assert world.repository.git("status", "--porcelain") == ""
        assert (done.state.result and done.state.result.status, done.state.approver) == ("merged", "ada")


async def test_s_core_a_repository_is_an_absolute_path(folder: Path) -> None:
    async with open_world(folder, GOOD) as world:
        wanted = {"task": {"description": "Add a total."}, "repository": "shop"}
        with pytest.raises(InvalidRequest, match="repository: expected an absolute path"):
            await world.tasks.submit(ForgeTaskInput.model_validate(wanted))
