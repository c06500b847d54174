"""`.forge/checks.yaml` of a repository, as committed on its base branch: its fixers and checks."""

from __future__ import annotations

import shlex
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from forge_proxy.core.jsontypes import is_object
from forge_proxy.core.tasks.errors import RepositoryUnusable
from forge_proxy.core.tasks.models import CheckCommand

CHECK_FILE = ".forge/checks.yaml"
"""Its path in a repository."""


def _split_run(entry: Any) -> Any:
    """Split `run` into words if it is one text, as a shell does; no shell runs it."""
    if is_object(entry) and isinstance(run := entry.get("run"), str):
        return {**entry, "run": shlex.split(run)}
    return entry


_Command = Annotated[CheckCommand, BeforeValidator(_split_run)]


class CheckFile(BaseModel):
    """The commands of a repository."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    fix: tuple[_Command, ...] = Field(default=(), max_length=20, description="Fixers, in place of ruff.")
    checks: tuple[_Command, ...] = Field(
        default=(), max_length=20, description="Checks, in the order in which they run."
    )


def parse_check_file(content: bytes | None) -> CheckFile:
    """Parse the file; an empty or missing one has no commands. Raises `RepositoryUnusable` with the field."""
    try:
        parsed = yaml.safe_load((content or b"").decode())
        return CheckFile.model_validate(parsed if parsed is not None else {})
    except ValidationError as error:
        first = error.errors()[0]
        at = ".".join(str(part) for part in first["loc"])
        raise RepositoryUnusable(f"{CHECK_FILE} on the base branch: {at}: {first['msg']}") from error
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise RepositoryUnusable(f"{CHECK_FILE} on the base branch is not valid YAML: {error}") from error
