"""Fixers and checks of real repositories: real git, real ruff, real pytest, real bubblewrap."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from forge_proxy.checks.checks import CheckSettings
from forge_proxy.core.tasks.errors import CheckUnavailable, RepositoryUnusable, UnsafePath
from forge_proxy.core.tasks.models import CheckCommand, ValidationConfig
from tests.fakes.checked_project import PYTEST, create_project

pytestmark = pytest.mark.usefixtures("bubblewrap")
_TIDY = "def double(number: int) -> int:\n    return 2 * number\n"
_UNTIDY = "import os\nimport sys\ndef double( number ):\n  return 2*number\n"


async def test_d21_fixers_tidy_up_what_a_model_has_written(tmp_path: Path) -> None:
    project = await create_project(tmp_path, {"a.py": _TIDY})
    request = await project.write({"a.py": _UNTIDY, "b.py": _UNTIDY})

    await project.checks.fix(request)

    assert project.read("a.py") == project.read("b.py") == "def double(number):\n    return 2 * number\n"
    assert await project.find(request) == []


async def test_d21_other_files_than_those_of_the_task_are_not_fixed(tmp_path: Path) -> None:
    project = await create_project(tmp_path, {"a.py": _TIDY, "other.py": _UNTIDY})

    await project.checks.fix(await project.write({"a.py": _UNTIDY}))

    assert project.read("other.py") == _UNTIDY


async def test_a_file_that_nobody_has_formatted_is_not_formatted(tmp_path: Path) -> None:
    """The few lines of a change would be lost among the new lines of the formatter in a review."""
    project = await create_project(tmp_path, {"a.py": "x=1\ny=2\n"})
    baseline = await project.baseline()
    request = await project.write({"a.py": "x=1\ny=3\n"})

    await project.checks.fix(request)

    assert project.read("a.py") == "x=1\ny=3\n"
    assert await project.find(request, baseline) == []


async def test_a_file_that_cannot_be_parsed_is_a_finding_with_its_place(tmp_path: Path) -> None:
    project = await create_project(tmp_path, {"a.py": _TIDY})
    request = await project.write({"a.py": "def double(:\n"})

    await project.checks.fix(request)

    assert "lint: a.py:1:12: invalid-syntax Expected a parameter or the end of the parameter list" in (
        await project.find(request)
    )


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tool-config/ruff.toml", 'lint.select = ["N"]\n'),
        ("ruff.toml", '[lint]\nselect = ["N"]\n'),
        (".ruff.toml", '[lint]\nselect = ["N"]\n'),
        ("pyproject.toml", '[tool.ruff.lint]\nselect = ["N"]\n'),
        ("pyproject.toml", '[project]\nname = "x"\n'),
        ("README", "nothing"),
    ],
)
async def test_d22_the_settings_of_ruff_are_those_of_the_repository_or_ours(
    tmp_path: Path, name: str, content: str
) -> None:
    project = await create_project(tmp_path, {name: content, "sub/ruff.toml": 'lint.select = ["ALL"]\n'})

    found = await project.find(await project.write({"sub/a.py": "import os\n\n\ndef Double():\n    pass\n"}))

    is_own = 'select = ["N"]' in content
    assert found == [
        "lint: sub/a.py:5:5: N802 Function name `Double` should be lowercase".replace("5:5", "4:5")
        if is_own
        else "lint: sub/a.py:1:8: F401 `os` imported but unused"
    ]


async def test_d22_tool_config_comes_before_other_settings(tmp_path: Path) -> None:
    files = {"tool-config/ruff.toml": 'lint.select = ["N"]\n', "ruff.toml": 'lint.select = ["F"]\n'}
    project = await create_project(tmp_path, files)

    assert await project.find(await project.write({"a.py": "import os\n"})) == []


async def test_only_new_findings_count(tmp_path: Path) -> None:
    project = await create_project(tmp_path, {"a.py": "import os\n\nx = 1\n"})
    baseline = await project.baseline()
    request = await project.write({"a.py": "import sys\n\n\nimport os\n\nx = 1\n"})

    assert [finding.code for finding in baseline.findings] == ["F401"]
    assert [line for line in await project.find(request, baseline) if "F401" in line] == [
        "lint: a.py:1:8: F401 `sys` imported but unused"
    ]


async def test_a_failed_test_is_a_finding_with_its_place_and_reason(tmp_path: Path) -> None:
    files = {
        "pkg.py": _TIDY,
        "tests/test_pkg.py": "from pkg import double\n\n\ndef test_double():\n    assert double(2) == 4\n",
    }
    project = await create_project(tmp_path, files, PYTEST)
    baseline = await project.baseline()
    request = await project.write({"pkg.py": _TIDY.replace("2 *", "3 *")})

    found = await project.find(request, baseline)

    assert baseline.collected_tests == 1
    assert found == ["tests: tests/test_pkg.py:5: tests/test_pkg.py::test_double assert 6 == 4\n+  where 6 = double(2)"]


async def test_a_test_that_failed_before_is_no_finding(tmp_path: Path) -> None:
    files = {
        "test_a.py": "import time\n\n\ndef test_a():\n    assert time.time() == 0\n\n\ndef test_b():\n    assert True\n"
    }
    project = await create_project(tmp_path, files, PYTEST)
    baseline = await project.baseline()

    assert await project.find(await project.write({"b.py": "x = 1\n"}), baseline) == []


async def test_a_removed_test_is_a_finding(tmp_path: Path) -> None:
    files = {"test_a.py": "def test_a():\n    assert True\n\n\ndef test_b():\n    assert True\n"}
    project = await create_project(tmp_path, files, PYTEST)
    baseline = await project.baseline()

    found = await project.find(await project.write({"test_a.py": "def test_a():\n    assert True\n"}), baseline)

    assert found == ["tests: collected only 1 tests are collected, and there were 2; keep all existing tests"]


async def test_d12_checks_run_in_their_order_and_report_how_long_they_took(tmp_path: Path) -> None:
    names = ("docs", "tests", "types")
    commands = [CheckCommand(name=name, run=("sh", "-c", f"echo {name} >> order")) for name in names]
    project = await create_project(tmp_path, {"a.py": _TIDY}, *commands)

    results = await project.checks.run(project.request("a.py"), await project.baseline())

    assert [result.check for result in results] == ["lint", "format", "types", "tests", "docs"]
    assert all(result.passed and result.seconds > 0 for result in results)
    assert project.read("order").split()[-3:] == ["types", "tests", "docs"]


async def test_commands_are_those_of_the_base_branch_and_never_those_of_the_task(tmp_path: Path) -> None:
    files = {".forge/checks.yaml": "checks:\n- {name: rules, run: [grep, -q, good, a.txt]}\n", "a.txt": "good\n"}
    project = await create_project(tmp_path, files)
    request = await project.write({"a.txt": "bad\n", ".forge/checks.yaml": "checks: []\n"})

    assert [line.split(" ")[0] for line in await project.find(request)] == ["rules:"]


async def test_a_later_command_takes_the_place_of_one_with_the_same_name(tmp_path: Path) -> None:
    files = {
        ".forge/checks.yaml": "checks:\n- {name: lint, run: [sh, -c, 'echo of the repository; exit 1']}\n",
        "a.py": "import os\n",
    }
    project = await create_project(tmp_path, files, CheckCommand(name="lint", run=("false",)))
    (found,) = await project.find(project.request("a.py"))
    assert "of the repository" in found

    project.config = ValidationConfig(commands=(CheckCommand(name="lint", run=("true",)),))
    assert await project.find(project.request("a.py")) == []
    project.config = ValidationConfig(skip=("lint",))
    assert await project.find(project.request("a.py")) == []


async def test_an_invalid_check_file_is_reported(tmp_path: Path) -> None:
    project = await create_project(tmp_path, {".forge/checks.yaml": "checks: 1\n"})

    with pytest.raises(RepositoryUnusable, match=r"\.forge/checks\.yaml on the base branch: checks: "):
        await project.baseline()


async def test_a_configured_fixer_takes_the_place_of_ruff(tmp_path: Path) -> None:
    fixer = CheckCommand(name="upper", run=("sed", "-i", "s/a/A/", "{files}"))
    project = await create_project(tmp_path, {"a.txt": "x\n"}, settings=CheckSettings(fix=(fixer,)))

    await project.checks.fix(await project.write({"a.txt": "banana\n", "b.py": "import os\nx=1\n"}))

    assert project.read("a.txt") == "bAnana\n"
    assert project.read("b.py").startswith("import os")


async def test_loosened_settings_of_a_tool_are_a_finding(tmp_path: Path) -> None:
    project = await create_project(tmp_path, {"pyproject.toml": "[tool.ruff]\nline-length = 80\n", "a.py": _TIDY})
    request = await project.write({"pyproject.toml": "[tool.ruff]\nline-length = 300\n", "a.py": _TIDY})

    (found,) = await project.find(request)

    assert found.startswith("settings: pyproject.toml: [tool.ruff] differs from the base branch")
    project.config = ValidationConfig(skip=("settings",))
    assert await project.find(project.request("pyproject.toml", "a.py")) == []


async def test_what_a_test_does_to_the_files_of_the_task_is_undone_and_a_finding(tmp_path: Path) -> None:
    """What is committed has to be what was checked."""
    attack = (
        "import os\n\n\ndef test_a():\n    open('a.py', 'w').write('evil')\n    os.remove('b.py')\n"
        "    os.chmod('c.py', 0o755)\n"
    )
    project = await create_project(tmp_path, {"test_a.py": attack}, PYTEST)
    request = await project.write({"a.py": _TIDY, "b.py": _TIDY, "c.py": _TIDY})

    found = await project.find(request)

    assert [line.split(" ")[:2] for line in found] == [["sources:", f"{name}.py:"] for name in "abc"]
    assert project.read("a.py") == project.read("b.py") == _TIDY


async def test_a_file_that_a_test_replaces_by_a_symlink_is_a_finding_and_the_target_stays(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("mine")
    attack = f"import os\n\n\ndef test_a():\n    os.remove('a.py')\n    os.symlink({str(target)!r}, 'a.py')\n"
    project = await create_project(tmp_path, {"test_a.py": attack}, PYTEST)
    request = await project.write({"a.py": _UNTIDY})

    (found,) = [line for line in await project.find(request) if "sources" in line]
    await project.checks.fix(request)

    assert found.startswith("sources: a.py:")
    assert target.read_text() == "mine"
    with pytest.raises(UnsafePath, match="is a symlink"):
        await project.checks.run(request, await project.baseline())


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (("no-such-program",), "no-such-program was not found"),
        (("./script",), "./script was not found"),
        (("python3", "-m", "no_such_module"), "python3 has no module no_such_module"),
    ],
)
async def test_a_check_whose_program_is_missing_is_not_passed(
    tmp_path: Path, run: tuple[str, ...], reason: str
) -> None:
    project = await create_project(tmp_path, {"script": "#!/bin/sh\n"}, CheckCommand(name="tests", run=run))

    with pytest.raises(CheckUnavailable, match=reason):
        await project.baseline()


async def test_a_test_that_never_ends_is_a_finding(tmp_path: Path) -> None:
    files = {"test_a.py": "def test_a():\n    pass\n"}
    project = await create_project(tmp_path, files, PYTEST.model_copy(update={"timeout": 10.0}))
    baseline = await project.baseline()

    found = await project.find(
        await project.write({"test_a.py": "import time\n\n\ndef test_a():\n    time.sleep(600)\n"}), baseline
    )

    assert found == ["tests: stopped the command was stopped: it ran longer than 10 s"]


async def test_without_a_sandbox_checks_run_if_the_settings_say_so(tmp_path: Path) -> None:
    command = PYTEST.model_copy(update={"run": (sys.executable, *PYTEST.run[1:])})
    files = {"test_a.py": "def test_a():\n    assert 1 == 2\n"}
    project = await create_project(tmp_path, files, command, settings=CheckSettings(is_sandboxed=False))

    (found,) = await project.find(project.request("test_a.py"))

    assert found == "tests: test_a.py:2: test_a.py::test_a assert 1 == 2"


async def test_ruff_runs_without_bubblewrap_because_it_executes_no_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = await create_project(tmp_path, {"a.py": "import os\n"})
    git = tmp_path / "programs"
    git.mkdir()
    for name in ("git", "sh"):
        (git / name).symlink_to(f"/usr/bin/{name}")
    monkeypatch.setenv("PATH", str(git))

    assert await project.find(project.request("a.py")) == ["lint: a.py:1:8: F401 `os` imported but unused"]
