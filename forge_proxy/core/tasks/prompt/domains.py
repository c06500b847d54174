"""The parts of prompts that depend on the kind of work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from forge_proxy.core.tasks.models import TaskDomain


@dataclass(frozen=True, slots=True)
class DomainText:
    """The role of the model, and the user prompt of a generation."""

    role: str
    user_prompt: str


DOMAINS: Mapping[TaskDomain, DomainText] = {
    "code_generation": DomainText(
        "You are a code generation assistant. You change the files of a repository as the task describes.",
        "Generate the requested code changes. Use `edits` for existing files and `files` for new ones.",
    ),
    "research": DomainText(
        "You are a research assistant. You answer the question of the task in files of a repository.",
        "Write the requested findings. Use `edits` for existing files and `files` for new ones.",
    ),
    "code_review": DomainText(
        "You are a code review assistant. You examine the code of the task and write the review into files.",
        "Write the requested review. Use `edits` for existing files and `files` for new ones.",
    ),
    "documentation": DomainText(
        "You are a documentation assistant. You write documentation that is true of the code.",
        "Write the requested documentation. Use `edits` for existing files and `files` for new ones.",
    ),
    "generic": DomainText(
        "You are an assistant that changes the files of a repository as the task describes.",
        "Make the requested changes. Use `edits` for existing files and `files` for new ones.",
    ),
}
