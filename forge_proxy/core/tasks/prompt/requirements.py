"""The section that describes the form of the response."""

from __future__ import annotations

from collections.abc import Sequence

from forge_proxy.core.tasks.models import ResponseForm
from forge_proxy.core.tasks.operations import ResponseKind
from forge_proxy.core.tasks.scopes import WriteScope

_RULES = """\
- Change only what the task requires. Keep everything else as it is.
- `search` is copied from the file, with its whitespace, and occurs exactly once in it. A few lines are enough.
- Never omit code with a placeholder such as `... rest of the code ...`.
- A path is either created or replaced as a whole, or edited, but not both."""
_JSON_FILES = """\
Respond with one JSON object:

- `explanation`: what you did and why, in a few sentences.
- `files`: new files, each with `path` and the complete `content`.
- `edits`: changes of existing files, each with `path` and a list of `edits` with `search` and `replace`."""
_BLOCKS_FILES = """\
Respond with a few sentences of explanation, and then with one block for each file.

A new file, complete:

### file path/to/new_file.py
```
the content
```

Changes of an existing file, as pairs of the text to find and its replacement:

### edit path/to/existing_file.py
```search
text of the file
```
```replace
new text
```

If the content contains a line of backticks, use a longer fence around it."""
_PLAN = """\
Respond with one JSON object:

- `explanation`: how the steps lead to the result.
- `steps`: the steps in order. Each has an `id`, a `description` that is complete without the other steps, its
  `target_files`, the `context_files` that it has to read, and the `capability_tier` that it demands.

Each file of the task is a target of a step. A step writes only its targets. A context file exists, or an earlier step
writes it."""
_SUB_TASKS = """
A step may have `sub_tasks`, at least two, which run at the same time and write different files; the step's own targets
are those of its sub-tasks."""


def render_requirements(kind: ResponseKind, form: ResponseForm, scope: WriteScope, *, sub_tasks: bool = False) -> str:
    """Return the section for a kind and a form of response."""
    if kind == "plan":
        return _PLAN + (_SUB_TASKS if sub_tasks else "")
    parts = [_JSON_FILES if form == "json" else _BLOCKS_FILES, _RULES, _render_scope(scope)]
    return "\n\n".join(part for part in parts if part)


def _render_scope(scope: WriteScope) -> str:
    lines = [f"You may write only: {_join(scope.may)}."]
    if scope.exact_paths is None and scope.must_not:
        lines.append(f"You may not write: {_join(scope.must_not)}.")
    return "\n".join(lines)


def _join(patterns: Sequence[str]) -> str:
    return ", ".join(f"`{pattern}`" for pattern in patterns)
