"""Three kinds of repository, from the inspection to the merge: a small Python package, a TypeScript package, this one.

The TypeScript package needs packages from npm, so its test has the mark `harness`.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from forge_proxy.checks.checks import CheckSettings, RepositoryChecks
from forge_proxy.core.tasks.findings import Baseline
from forge_proxy.core.tasks.models import CheckCommand, ValidationConfig
from tests.fakes.checked_project import PYTEST, CheckedProject, create_project
from tests.fakes.processes import ROOT
from tests.fakes.repository import UserRepository, repositories_of
from tests.harness.packages import NotInstalled, Npm

pytestmark = pytest.mark.usefixtures("bubblewrap")


async def attempt(project: CheckedProject, baseline: Baseline, files: Mapping[str, str]) -> list[str]:
    """Write, fix and check files in a clean worktree, as an attempt does; return the findings."""
    await project.repositories.reset(project.worktree)
    request = await project.write(files)
    await project.checks.fix(request)
    return await project.find(request, baseline)


async def merge(project: CheckedProject) -> UserRepository:
    """Commit and merge what is written; return the repository."""
    changed = await project.repositories.changed_files(project.worktree)
    base = project.worktree.base_commit
    commit = await project.repositories.commit(project.worktree, "Change", base, changed)
    await project.repositories.merge(
        str(project.repository.path), project.worktree.branch, "main",
        expected_head=commit, expected_base=base, method="squash", message="Change",
    )  # fmt: skip
    assert project.repository.git("status", "--porcelain") == ""
    return project.repository


async def test_a_small_python_package(tmp_path: Path) -> None:
    files = {
        "pyproject.toml": '[project]\nname = "shop"\n[tool.pytest.ini_options]\npythonpath = ["src"]\n',
        "src/shop/__init__.py": "",
        "src/shop/cart.py": "class Cart:\n    def __init__(self):\n        self.items = []\n",
        "tests/test_cart.py": "from shop.cart import Cart\n\n\ndef test_empty():\n    assert Cart().items == []\n",
        ".forge/checks.yaml": f"checks:\n- {{name: tests, run: {shlex.join(PYTEST.run)}}}\n",
        ".gitignore": "__pycache__/\n",
    }
    project = await create_project(tmp_path, files)
    baseline = await project.baseline()
    cart = files["src/shop/cart.py"]
    method = "\n    def total(self) -> int:\n        return sum(price for _, price in self.items)\n"

    (broken,) = await attempt(project, baseline, {"src/shop/cart.py": cart.replace("[]", "None") + method})
    assert broken.startswith("tests: tests/test_cart.py:5: tests/test_cart.py::test_empty ")
    assert await attempt(project, baseline, {"src/shop/cart.py": f"import os\n{cart}{method}"}) == []
    repository = await merge(project)

    assert repository.files()["src/shop/cart.py"] == f"{cart}{method}".strip()


_TYPESCRIPT = Npm("typescript", "typescript@5")

_TSCONFIG = """{
  "compilerOptions": {"strict": true, "outDir": "build", "module": "nodenext", "types": []},
  "include": ["src"]
}
"""
_CART_TS = """export function total(prices: number[]): number {
  return prices.reduce((a, b) => a + b, 0);
}
"""
_CART_TEST = """import { test } from "node:test";
import assert from "node:assert";
import { total } from "../build/cart.js";

test("total", () => assert.equal(total([1, 2]), 3));
"""


@pytest.mark.harness
async def test_a_typescript_package(tmp_path: Path) -> None:
    try:
        _TYPESCRIPT.install()
    except NotInstalled as error:
        pytest.skip(str(error))
    files = {
        "package.json": '{"name": "shop", "type": "module"}\n',
        "tsconfig.json": _TSCONFIG,
        "src/cart.ts": _CART_TS,
        "test/cart.test.js": _CART_TEST,
        ".forge/checks.yaml": "checks:\n- {name: types, run: tsc}\n- {name: tests, run: node --test test/}\n",
        ".gitignore": "node_modules\nbuild/\n",
    }
    project = await create_project(tmp_path, files, has_environment=False)
    (project.repository.path / "node_modules").symlink_to(_TYPESCRIPT.folder / "node_modules")
    baseline = await project.baseline()
    cart = files["src/cart.ts"]

    types = await attempt(project, baseline, {"src/cart.ts": cart.replace("a + b, 0", "a + b, '0'")})
    tests = await attempt(project, baseline, {"src/cart.ts": cart.replace(", 0", ", 1")})
    good = await attempt(
        project, baseline, {"src/cart.ts": cart.replace("(a, b) => a + b", "(sum, price) => sum + price")}
    )

    assert baseline.findings == ()
    assert types[0].startswith("types: src/cart.ts:2:")
    assert "TS2" in types[0]
    assert [line.split()[0] for line in tests] == ["tests:"]
    assert good == []
    assert "sum + price" in (await merge(project)).files()["src/cart.ts"]


def _clone(folder: Path) -> None:
    """Clone this repository, with its present branch as `main` and the virtual environment of these tests."""
    cloned = subprocess.run(["git", "clone", "-q", str(ROOT), str(folder)], capture_output=True, text=True, check=False)
    if cloned.returncode:
        pytest.skip(f"this folder cannot be cloned: {cloned.stderr}")
    UserRepository(folder).git("checkout", "-q", "-B", "main")
    (folder / ".venv").symlink_to(sys.prefix)


async def test_a_clone_of_this_repository(tmp_path: Path) -> None:
    clone = tmp_path / "home" / "repo"
    clone.parent.mkdir()
    _clone(clone)
    repository = UserRepository(clone)
    repositories = repositories_of(tmp_path / "state", clone)
    state = await repositories.inspect(str(clone), "main", "t1")
    worktree = await repositories.create_worktree(state.path, "t1", state.base_commit)
    checks = RepositoryChecks(repositories, CheckSettings())
    project = CheckedProject(repository, repositories, checks, worktree)
    command = CheckCommand(
        name="tests", run=("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/core/tasks/test_scopes.py")
    )
    project.config = ValidationConfig(commands=(command,))
    baseline = await project.baseline()
    scopes = project.read("forge_proxy/core/tasks/scopes.py")

    broken = await attempt(
        project, baseline, {"forge_proxy/core/tasks/scopes.py": scopes.replace('"[^/]*"', '"[^x]*"')}
    )
    good = await attempt(
        project, baseline, {"forge_proxy/core/tasks/scopes.py": f"import os\n{scopes}\n\n\nUSED = 1  \n"}
    )

    assert baseline.findings == ()
    assert baseline.collected_tests is not None
    assert baseline.collected_tests > 0
    assert broken
    assert all(line.startswith("tests: ") for line in broken)
    assert good == []
    merged = (await merge(project)).git("show", "HEAD:forge_proxy/core/tasks/scopes.py")
    assert merged == f"{scopes}\n\nUSED = 1".strip()
