"""docs/tasks.md is whole: it names every field, status, event and command, and its example is a valid submission."""

from __future__ import annotations

import json
import re

import typer
import yaml

from forge_proxy.api.admin.task_models import TaskSubmission
from forge_proxy.cli.tasks import tasks
from forge_proxy.core.tasks.check_output.check_file import parse_check_file
from forge_proxy.core.tasks.models import ForgeTaskInput, TaskDefinition, TaskStatus, ValidationConfig
from tests.docs.guides import GUIDES

TEXT = (GUIDES / "tasks.md").read_text()
PAGE = re.sub(r"^```.*?^```$", "", TEXT, flags=re.DOTALL | re.MULTILINE)
"""Without its code blocks."""
NAMED = {word for quoted in re.findall(r"`([^`]+)`", PAGE) for word in re.findall(r"[\w-]+", quoted)}
SOURCES = GUIDES.parent / "forge_proxy" / "tasks"


def test_the_example_is_a_submission_with_every_field() -> None:
    (example,) = re.findall(r"^```json\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
    body = json.loads(example)

    TaskSubmission.model_validate(body)
    assert {*body} == {*TaskSubmission.model_fields}
    assert {*body["task"]} == {*TaskDefinition.model_fields}
    assert {*body["task"]["validation"]} == {*ValidationConfig.model_fields}


def test_every_field_is_described() -> None:
    described = {*ForgeTaskInput.model_fields, *TaskDefinition.model_fields} - {
        "task",
        "repository",
        "base",
        "description",
    }

    assert described <= NAMED


def test_every_result_and_every_event_is_named() -> None:
    source = "".join(file.read_text() for file in SOURCES.glob("*.py"))
    events = set(re.findall(r'(?:run\.event|NewEvent)\(\s*"(\w+)"', source)) - {"status"}

    assert {*TaskStatus.__args__, *events} - {"cancelled"} <= NAMED  # pyright: ignore[reportAttributeAccessIssue]


def test_every_command_is_named() -> None:
    group = typer.main.get_command(tasks)

    commands = {f"tasks {name}" for name in group.commands}  # pyright: ignore[reportAttributeAccessIssue]
    rows = " ".join(re.findall(r"^\| (`tasks.*?) \|", PAGE, re.MULTILINE))
    assert {name for name in commands if name not in rows} == set()


def test_the_check_file_of_the_page_can_be_read() -> None:
    (example,) = re.findall(r"^```text\n# \.forge/checks\.yaml\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)

    assert yaml.safe_load(example)
    assert [check.name for check in parse_check_file(example.encode()).checks] == ["types", "tests"]
