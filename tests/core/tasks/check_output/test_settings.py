"""A task does not pass its checks by loosening them."""

from __future__ import annotations

import pytest

from forge_proxy.core.tasks.check_output.check_file import parse_check_file
from forge_proxy.core.tasks.check_output.settings import find_changed_settings
from forge_proxy.core.tasks.errors import RepositoryUnusable
from forge_proxy.core.tasks.models import CheckCommand
from tests.folding import folded


def test_a_changed_settings_file_is_a_finding() -> None:
    assert find_changed_settings("ruff.toml", b"a = 1", b"a = 1") == ()
    for before, after in ((b"a = 1", b"a = 2"), (b"a = 1", None), (None, b"a = 1")):
        (found,) = find_changed_settings("ruff.toml", before, after)
        assert (found.check, found.path) == ("settings", "ruff.toml")


def test_a_project_may_change_but_not_the_tables_of_its_tools() -> None:
    before = b"[project]\ndependencies = []\n[tool.ruff]\nline-length = 100\n"
    more = b'[project]\ndependencies = ["x"]\n[tool.ruff]\nline-length = 100\n'
    looser = b"[project]\ndependencies = []\n[tool.ruff]\nline-length = 500\n[tool.mypy]\nignore_errors = true\n"

    assert find_changed_settings("pyproject.toml", before, more) == []
    assert [found.message.split()[0] for found in find_changed_settings("pyproject.toml", before, looser)] == [
        "[tool.ruff]", "[tool.mypy]",
    ]  # fmt: skip
    assert len(find_changed_settings("pyproject.toml", before, None)) == 1
    (invalid,) = find_changed_settings("pyproject.toml", before, b"[")
    assert invalid.message == "the file is not valid TOML"


def test_a_check_file_has_fixers_and_checks() -> None:
    parsed = parse_check_file(
        b"""
fix:
  - {name: prettier, run: [npx, prettier, --write, "{files}"]}
checks:
  - name: tests
    run: python -m pytest -k 'not slow'
    timeout: 60
"""
    )

    assert parsed.fix == (CheckCommand(name="prettier", run=("npx", "prettier", "--write", "{files}")),)
    assert parsed.checks == (CheckCommand(name="tests", run=("python", "-m", "pytest", "-k", "not slow"), timeout=60),)
    assert parse_check_file(None).checks == parse_check_file(b"").checks == ()


@folded
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"checks: [{name: a}]", r"checks\.0\.run: Field required"),
        (b"checks: [{name: a, run: ''}]", r"checks\.0\.run: "),
        (b"tests: []", "tests: Extra inputs are not permitted"),
        (b"- a", "valid dictionary"),
        (b"checks: [", "is not valid YAML"),
        (b'checks: [{name: a, run: "\'"}]', "checks"),
        (b"\xff", "is not valid YAML"),
        (b"!!python/object/apply:os.system [true]", "is not valid YAML"),
    ],
)
def test_an_invalid_check_file_is_reported_with_the_field(content: bytes, reason: str) -> None:
    with pytest.raises(RepositoryUnusable, match=reason):
        parse_check_file(content)
