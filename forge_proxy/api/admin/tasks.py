"""`/admin/v1/tasks`: changes of repositories that the daemon makes on branches of their own, and people merge."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import orjson
from fastapi import Header, Path, Query, Request
from starlette.responses import Response

from forge_proxy.api.admin.event_position import AFTER, LAST_EVENT_ID, read_position
from forge_proxy.api.admin.task_models import (
    LeftoverJson,
    LeftoverPage,
    LeftoverRequest,
    TaskAnswer,
    TaskApproval,
    TaskCallJson,
    TaskCallPage,
    TaskChanges,
    TaskContext,
    TaskDeleted,
    TaskDiff,
    TaskInfo,
    TaskPage,
    TaskPlan,
    TaskRejection,
    TaskRetry,
    TaskSubmission,
    to_call,
    to_info,
    to_sub_task,
    to_summary,
)
from forge_proxy.api.identity import KEY_LABEL
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jobs.records import JobStatus
from forge_proxy.core.tasks.models import ForgeTaskInput
from forge_proxy.tasks.call_records import to_record
from forge_proxy.tasks.errors import TaskNotFound
from forge_proxy.tasks.service import StoredTask, TaskService

TaskIdInPath = Annotated[str, Path(description="The id of the task.")]


class TaskEndpoints:
    """The endpoints of `/tasks`."""

    def __init__(self, tasks: TaskService, keepalive_seconds: float) -> None:
        self._tasks = tasks
        self._keepalive_seconds = keepalive_seconds

    async def submit(
        self,
        submission: TaskSubmission,
        idempotency_key: Annotated[
            str | None,
            Header(
                min_length=1,
                max_length=200,
                pattern="^[ -~]*$",
                description="Submitting the same again with the same key returns the existing task.",
            ),
        ] = None,
    ) -> TaskInfo:
        """Submit a task. It is stored before the response, and continues even if the client disconnects or the daemon
        restarts. The repository is checked first: what cannot work is a 400.
        """
        wanted = ForgeTaskInput.model_validate(submission.model_dump(exclude={"notify_url"}))
        return await self._info(await self._tasks.submit(wanted, idempotency_key, submission.notify_url))

    async def list(
        self,
        limit: Annotated[int, Query(ge=1, le=200, description="The largest number of tasks.")] = 20,
        before: Annotated[
            str | None, Query(max_length=128, description="The id of a task; only older ones are listed.")
        ] = None,
        status: Annotated[JobStatus | None, Query(description="Only tasks in this state.")] = None,
    ) -> TaskPage:
        """List the tasks, newest first."""
        found = await self._tasks.list(before=before, limit=limit + 1, status=status)
        more = found[limit - 1].id if found[limit:] else None
        return TaskPage(data=[to_summary(head) for head in found[:limit]], next=more)

    async def read(self, task_id: TaskIdInPath) -> TaskInfo:
        """Show a task: its progress, why attempts have failed, and its result."""
        return await self._info(await self._tasks.get(task_id))

    async def events(
        self,
        request: Request,
        task_id: TaskIdInPath,
        after: AFTER = 0,
        sub_tasks: Annotated[
            bool, Query(description="Whether the events of its sub-tasks are sent, too, with `task` in their data.")
        ] = False,
        last_event_id: LAST_EVENT_ID = None,
    ) -> Response:
        """Stream the events of a task as server-sent events with ids: first all past ones, then each new one. The
        stream ends with the task. A client that was disconnected continues after the last id that it received. Events
        of sub-tasks have no ids: those of sub-tasks that have not ended are then repeated.
        """
        after = read_position(after, last_event_id)
        from forge_proxy.api.event_stream import event_stream  # imports sse_starlette: slow, and rarely needed

        await self._tasks.get(task_id)
        events = self._tasks.follow_events(task_id, after, with_sub_tasks=sub_tasks)
        return event_stream(request, events, self._keepalive_seconds)

    async def plan(self, task_id: TaskIdInPath) -> TaskPlan:
        """Show the plan of a task, and its sub-tasks."""
        state = (await self._tasks.get(task_id)).state
        below = [to_sub_task(one) for one in await self._tasks.list_sub_tasks(task_id)]
        return TaskPlan(plan=state.progress.plan, commits=state.step_commits, sub_tasks=below)

    async def calls(self, task_id: TaskIdInPath) -> TaskCallPage:
        """List the calls of a task to models, and then those of its sub-tasks, which have numbers of their own."""
        tasks = [await self._tasks.get(task_id), *await self._tasks.list_sub_tasks(task_id)]
        return TaskCallPage(
            data=[call for task in tasks for call in await self._list_calls(task)], dropped=self._tasks.dropped_calls
        )

    async def context(
        self,
        task_id: TaskIdInPath,
        call: Annotated[int | None, Query(ge=1, description="The number of the call. Default: the latest one.")] = None,
    ) -> TaskContext:
        """Show the prompt of a call, and its response. The calls of a sub-task are shown under its own id."""
        calls = (await self._tasks.get(task_id)).state.calls
        number = len(calls) if call is None else call
        if not 1 <= number <= len(calls):
            raise InvalidRequest("call", f"the task has made {len(calls)} calls")
        chosen = calls[number - 1]
        documents = await self._tasks.read_documents([chosen.prompt, chosen.response])
        if len(documents) < len({chosen.prompt, chosen.response}):
            raise TaskNotFound(task_id)  # it was deleted meanwhile
        prompt = orjson.loads(documents[chosen.prompt])
        return TaskContext(
            **dict(to_call(number, to_record(task_id, chosen))),
            system_prompt=prompt["system_prompt"],
            user_prompt=prompt["user_prompt"],
            response=documents[chosen.response].decode(),
        )

    async def diff(self, task_id: TaskIdInPath) -> TaskDiff:
        """Show what a task has changed since its base."""
        state = (await self._tasks.get(task_id)).state
        diff = await self._tasks.diff(task_id)
        return TaskDiff(base=state.repository.base_commit, head=state.head, diff=diff)

    async def approve(self, request: Request, task_id: TaskIdInPath, approval: TaskApproval) -> TaskInfo:
        """Merge the branch of a task into its base branch. Nothing is pushed. In a conflict nothing is changed."""
        return await self._info(
            await self._tasks.approve(
                task_id, head=approval.head, base=approval.base, method=approval.method,
                approver=approval.approver or _label_of(request),
            )
        )  # fmt: skip

    async def changes(self, task_id: TaskIdInPath, changes: TaskChanges) -> TaskInfo:
        """Request changes: another attempt is made on the same branch."""
        return await self._info(await self._tasks.request_changes(task_id, changes.comment))

    async def reject(self, request: Request, task_id: TaskIdInPath, rejection: TaskRejection) -> TaskInfo:
        """Reject a task: its branch is deleted."""
        return await self._info(await self._tasks.reject(task_id, rejection.approver or _label_of(request)))

    async def answer(self, task_id: TaskIdInPath, answer: TaskAnswer) -> TaskInfo:
        """Continue a halted task."""
        return await self._info(await self._tasks.answer(task_id, answer.answer, answer.note))

    async def retry(self, task_id: TaskIdInPath, retry: TaskRetry) -> TaskInfo:
        """Do the work from a step on again. Its commits and later ones are dropped."""
        return await self._info(await self._tasks.retry(task_id, retry.step - 1))

    async def cancel(self, task_id: TaskIdInPath) -> TaskInfo:
        """Cancel a task, at once or when its current phase ends. Its branch is kept."""
        return await self._info(await self._tasks.cancel(task_id))

    async def delete(self, task_id: TaskIdInPath) -> TaskDeleted:
        """Delete a task that has ended, with its prompts and responses."""
        await self._tasks.delete(task_id)
        return TaskDeleted(id=task_id)

    async def gc(self, wanted: LeftoverRequest) -> LeftoverPage:
        """Remove the worktrees that no task needs, such as those of a killed daemon. The branches are kept."""
        found = await self._tasks.remove_leftovers(only_list=wanted.dry_run)
        return LeftoverPage(data=[LeftoverJson(**asdict(one)) for one in found])

    async def _list_calls(self, task: StoredTask) -> list[TaskCallJson]:
        numbers = {(call.round, call.part): number for number, call in enumerate(task.state.calls, 1)}
        calls = await self._tasks.list_calls(task.job.id)
        return [to_call(numbers.get((call.round, call.part)), call) for call in calls]

    async def _info(self, task: StoredTask) -> TaskInfo:
        digests = [failure.diff for failure in task.state.failures if failure.diff is not None]
        documents = await self._tasks.read_documents(digests)
        below = await self._tasks.list_sub_tasks(task.job.id)
        return to_info(task, {digest: data.decode(errors="replace") for digest, data in documents.items()}, below)


def _label_of(request: Request) -> str:
    label = request.scope.get(KEY_LABEL, "")
    return label if isinstance(label, str) else ""
