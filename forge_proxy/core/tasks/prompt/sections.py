"""The sections of a system prompt, and their order."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

SectionName: TypeAlias = Literal[
    "role",
    "output_requirements",
    "project_instructions",
    "repository_structure",
    "playbooks",
    "task",
    "target_files",
    "direct_dependencies",
    "interface_context",
    "exploration_results",
    "previous_errors",
]
PromptOrder: TypeAlias = Literal["stable", "shared"]
"""`shared`: role and requirements follow the sections that all operations of a task have in common."""
STABLE_ORDER: tuple[SectionName, ...] = get_args(SectionName)
SHARED_ORDER: tuple[SectionName, ...] = (*STABLE_ORDER[2:5], *STABLE_ORDER[:2], *STABLE_ORDER[5:])
_TITLES: Mapping[SectionName, str] = {
    "output_requirements": "Output requirements",
    "project_instructions": "Project instructions",
    "repository_structure": "Repository structure",
    "playbooks": "Playbooks",
    "task": "Task",
    "target_files": "Target file contents",
    "direct_dependencies": "Direct dependencies",
    "interface_context": "Interface context",
    "exploration_results": "Exploration results",
    "previous_errors": "Previous errors",
}


def render_sections(sections: Mapping[SectionName, str], order: PromptOrder = "stable") -> str:
    """Return the system prompt. Empty sections are omitted."""
    parts: list[str] = []
    for name in list_sections(sections, order):
        text = sections[name].strip("\n")
        title = _TITLES.get(name)
        parts.append(f"## {title}\n\n{text}" if title else text)
    return "\n\n".join(parts) + "\n"


def list_sections(sections: Mapping[SectionName, str], order: PromptOrder = "stable") -> tuple[SectionName, ...]:
    """Return the names of the sections that are not empty, in order."""
    names = STABLE_ORDER if order == "stable" else SHARED_ORDER
    return tuple(name for name in names if sections.get(name, "").strip())


def render_file(path: str, content: str) -> str:
    """Return a file for a prompt. Its fence is longer than any in its content."""
    longest = max((len(found) for found in re.findall("`{3,}", content)), default=2)
    fence = "`" * (longest + 1)
    end = "" if content.endswith("\n") or not content else "\n"
    return f"### {path}\n\n{fence}\n{content}{end}{fence}"
