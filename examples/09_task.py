"""A task in a git repository: the daemon changes a file on a branch of its own, and this program shows the change.

Needs a running daemon with a real model that may work there: `forge-proxy tasks allow REPOSITORY`.
"""

import sys
from pathlib import Path

from forge_proxy import TaskDefinition, TaskInfo, Tasks, TaskSubmission


def describe(tasks: Tasks, task: TaskInfo) -> str:
    """What a person has to know about a task that waits or has ended."""
    if task.status != "requires_action":
        return f"{task.status}: {task.halt or task.error}"
    return f"{task.branch} waits for a review\n{tasks.diff(task.id).diff}"


def main(repository: str, file: str, description: str) -> None:
    tasks = Tasks()
    definition = TaskDefinition(description=description, target_files=(file,))
    task = tasks.submit(TaskSubmission(repository=str(Path(repository).resolve()), task=definition))
    print(describe(tasks, tasks.wait(task.id)), end="")


if __name__ == "__main__":
    main(*sys.argv[1:])
