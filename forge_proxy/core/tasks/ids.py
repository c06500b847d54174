"""Ids of tasks and sub-tasks. They name worktrees and branches, so each of them is a valid branch name (D26)."""

from __future__ import annotations

import re

from forge_proxy.core.errors import InvalidRequest

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
SUB_TASK_MARK = ".sub."
"""Separates the id of a sub-task from that of its parent."""
MAX_LENGTH = 128
"""The longest id of a sub-task, which contains those of the tasks above it. It is also the limit of the ids of jobs."""


def find_id_fault(text: str) -> str | None:
    """Return why a text cannot be the id of a task, a step or a sub-task; None if it can."""
    if _ID.fullmatch(text) is None:
        return "expected 1 to 64 letters, digits, dots, underscores and hyphens, beginning with a letter or a digit"
    if ".." in text or text.endswith((".", ".lock")):
        return "git permits no branch name with '..', or with '.' or '.lock' at its end"
    return None


def check_id(text: str, at: str) -> str:
    """Return an id. Raises `InvalidRequest` at the field `at` if it is not valid."""
    if fault := find_id_fault(text):
        raise InvalidRequest(at, fault)
    return text


def sub_task_id(parent: str, sub_task: str) -> str:
    """Return the id under which a sub-task of `parent` runs."""
    return f"{parent}{SUB_TASK_MARK}{sub_task}"


def is_sub_task_id(task_id: str) -> bool:
    """Whether an id is that of a sub-task."""
    return SUB_TASK_MARK in task_id


def find_part_fault(text: str) -> str | None:
    """Return why an id cannot be part of the ids of sub-tasks; None if it can.

    No two pairs of ids give the same compound id, and each compound id is a valid branch name.
    """
    mark = SUB_TASK_MARK
    if mark in text or text.startswith(mark[1:]) or text.endswith(mark[:-1]):
        return f"{text!r} contains {mark!r}, which separates the ids of sub-tasks, or begins or ends with a part of it"
    return None


def branch_of(task_id: str) -> str:
    """Return the branch of a task."""
    return f"forge/{task_id}"
