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
_JSON_WHOLE_FILES = """\
Respond with one JSON object:

- `explanation`: what you did and why, in a few sentences.
- `files`: the files, each with `path` and the complete `content`.
- `edits`: an empty list."""
_BLOCKS_WHOLE_FILES = """\
Respond with a few sentences of explanation, and then with one block for each file, which has its complete content:

### file path/to/file.py
```
the content
```

If the content contains a line of backticks, use a longer fence around it."""
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
A step may have `sub_tasks`, at least two, which run at the same time and do not see each other's work. Each has targets
of its own. The `target_files` of the step are those of its sub-tasks, and files that several of them have to change,
such as a list of modules: their versions are merged."""
_WHOLE_FILES_RULES = """\
- Change only what the task requires. Keep everything else as it is.
- Never omit code with a placeholder such as `... rest of the code ...`."""


def render_requirements(
    kind: ResponseKind, form: ResponseForm, *, sub_tasks: bool = False, whole_files: bool = False
) -> str:
    """Return the section for a kind and a form of response. `whole_files`: without edits."""
    if kind == "plan":
        return _PLAN + (_SUB_TASKS if sub_tasks else "")
    if whole_files:
        return f"{_JSON_WHOLE_FILES if form == 'json' else _BLOCKS_WHOLE_FILES}\n\n{_WHOLE_FILES_RULES}"
    return f"{_JSON_FILES if form == 'json' else _BLOCKS_FILES}\n\n{_RULES}"


def render_scope(scope: WriteScope) -> str:
    """Return what may be written. It differs between the calls of a task, so it is not part of the requirements."""
    lines = [f"You may write only: {_join(scope.may)}."]
    if scope.exact_paths is None and scope.must_not:
        lines.append(f"You may not write: {_join(scope.must_not)}.")
    return "\n".join(lines)


def _join(patterns: Sequence[str]) -> str:
    return ", ".join(f"`{pattern}`" for pattern in patterns)
