"""The tasks of a running daemon, for programs in Python (docs/tasks.md)."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import closing
from functools import partial
from typing import Any, Literal
from urllib.parse import quote

from forge_proxy.api.admin.task_models import (
    TaskCallPage,
    TaskContext,
    TaskDiff,
    TaskInfo,
    TaskPage,
    TaskPlan,
    TaskSubmission,
    TaskSummary,
)
from forge_proxy.client.remote import DEFAULT_URL, AdminClient, SentEvent, WaitTimeout
from forge_proxy.client.task_events import is_end, is_end_of_work
from forge_proxy.core.jobs.records import JobStatus
from forge_proxy.core.tasks.workspace import MergeMethod

_ROUTE = "/admin/v1/tasks"
_PAGE = 100


class Tasks:
    """The tasks of a running daemon. All methods block until the daemon has responded: an asynchronous program calls
    them in threads (`asyncio.to_thread(tasks.wait, "cart-total")`), also several at the same time.

    They raise `NoDaemon` if no daemon responds, and `DaemonError` with the daemon's message if it rejects the request,
    for example with the status 404 if there is no such task, and 409 if its state does not permit the operation.
    """

    def __init__(self, url: str | None = None, key: str | None = None) -> None:
        """`url` is the address of the daemon, with or without `/v1`, and `key` one of its admin keys.

        Without them, `FORGE_PROXY_URL` and `FORGE_PROXY_KEY` apply, and else `http://127.0.0.1:8081` without a key.
        """
        url = url or os.environ.get("FORGE_PROXY_URL") or DEFAULT_URL
        self._remote = AdminClient(url, key or os.environ.get("FORGE_PROXY_KEY"))

    def submit(self, submission: TaskSubmission, *, idempotency_key: str | None = None) -> TaskInfo:
        """Submit a task. The daemon has stored it when the method returns, and continues it after any restart.

        With an `idempotency_key`, submitting the same again returns the existing task.
        """
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key is not None else None
        body = submission.model_dump(mode="json", exclude_unset=True)
        return TaskInfo.model_validate(self._remote.ask("POST", _ROUTE, body, headers=headers))

    def list(self, status: JobStatus | None = None) -> Iterator[TaskSummary]:
        """Yield the tasks, newest first; with `status` only those in this state."""
        query: dict[str, Any] = {"limit": _PAGE, **({"status": status} if status is not None else {})}
        while True:
            page = TaskPage.model_validate(self._remote.ask("GET", _ROUTE, query=query))
            yield from page.data
            if page.next is None:
                return
            query["before"] = page.next

    def get(self, task_id: str) -> TaskInfo:
        """Return the current state of a task: its progress, why attempts have failed, and its result."""
        return TaskInfo.model_validate(self._get(task_id))

    def events(self, task_id: str, *, after: int = 0, sub_tasks: bool = False) -> Generator[SentEvent]:
        """Yield the events of a task with ids greater than `after` as they happen, until it ends.

        With `sub_tasks` also those of its sub-tasks, which have the key `task` in their data. If the daemon restarts,
        the events continue. A task that waits for a person has not ended: close the generator, or use `wait`.
        """
        path, query = f"tasks/{quote(task_id, safe='')}/events", {"sub_tasks": sub_tasks}
        return self._remote.events(path, is_end, query, after=after)

    def wait(self, task_id: str, *, timeout: float | None = None) -> TaskInfo:
        """Wait until a task waits for a person or has ended, and return its state then.

        `status` is then `requires_action` (its branch can be reviewed), `halted`, `completed`, `failed` or `cancelled`.
        Raises `WaitTimeout` after `timeout` seconds. The task continues, and the program may wait again.
        """
        is_last = partial(is_end_of_work, latest=self.get(task_id).last_event)
        path = f"tasks/{quote(task_id, safe='')}/events"
        try:
            with closing(self._remote.events(path, is_last, seconds=timeout)) as events:
                for event in events:
                    if is_last(event):
                        break
        except WaitTimeout:
            status = self.get(task_id).status
            raise WaitTimeout(f"the task {task_id} is still {status} after {timeout:g} s; it continues") from None
        return self.get(task_id)

    def plan(self, task_id: str) -> TaskPlan:
        """Return the plan of a task, the commits of its steps, and its sub-tasks."""
        return TaskPlan.model_validate(self._get(task_id, "plan"))

    def calls(self, task_id: str) -> TaskCallPage:
        """Return the calls of a task and of its sub-tasks to models."""
        return TaskCallPage.model_validate(self._get(task_id, "calls"))

    def context(self, task_id: str, call: int | None = None) -> TaskContext:
        """Return the prompt of a call and its response; without `call`, a number from 1, those of the latest one."""
        return TaskContext.model_validate(self._get(task_id, "context", **({} if call is None else {"call": call})))

    def diff(self, task_id: str) -> TaskDiff:
        """Return what a task has changed since its base, as a unified diff, with the commits of both."""
        return TaskDiff.model_validate(self._get(task_id, "diff"))

    def approve(
        self, task_id: str, *, head: str | None = None, base: str | None = None, method: MergeMethod = "merge",
        approver: str = "",
    ) -> TaskInfo:  # fmt: skip
        """Merge the branch of a task into its base branch.

        `head` and `base` are the commits that were reviewed (`diff`): if the branches have others, nothing is merged.
        """
        return self._post(task_id, "approve", head=head, base=base, method=method, approver=approver)

    def changes(self, task_id: str, comment: str) -> TaskInfo:
        """Request changes to a finished branch. Another attempt is made on it, with the comment in its prompt."""
        return self._post(task_id, "changes", comment=comment)

    def reject(self, task_id: str, *, approver: str = "") -> TaskInfo:
        """End a task without a merge. Its branch is deleted."""
        return self._post(task_id, "reject", approver=approver)

    def answer(self, task_id: str, answer: Literal["retry", "skip", "stop"], note: str = "") -> TaskInfo:
        """Answer a halted task: make new attempts, whose prompts contain the note; skip the current step; or end it."""
        return self._post(task_id, "answer", answer=answer, note=note)

    def retry(self, task_id: str, step: int = 1) -> TaskInfo:
        """Repeat a waiting task from a step on, counted from 1. The commits of this and all later steps are dropped."""
        return self._post(task_id, "retry", step=step)

    def cancel(self, task_id: str) -> TaskInfo:
        """Cancel a task, at once or when its current phase ends. Its branch is kept."""
        return self._post(task_id, "cancel")

    def delete(self, task_id: str) -> None:
        """Delete a task that has ended, with its prompts and responses."""
        self._remote.ask("DELETE", _path(task_id))

    def _get(self, task_id: str, part: str = "", **query: Any) -> dict[str, Any]:
        return self._remote.ask("GET", _path(task_id, part), query=query)

    def _post(self, task_id: str, action: str, **body: Any) -> TaskInfo:
        return TaskInfo.model_validate(self._remote.ask("POST", _path(task_id, action), body or None))


def _path(task_id: str, part: str = "") -> str:
    return f"{_ROUTE}/{quote(task_id, safe='')}{part and f'/{part}'}"
