"""What `import forge_proxy` gives, and what it costs those who want little of it."""

from __future__ import annotations

import ast
import builtins
import inspect
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import forge_proxy
from forge_proxy import settings
from forge_proxy.core.errors import ForgeError
from tests.folding import folded

SOURCE = Path(forge_proxy.__file__ or "")


def typed_names() -> dict[str, str]:
    """What type checkers are told: names, by the modules they come from."""
    (told,) = [node for node in ast.parse(SOURCE.read_text()).body if isinstance(node, ast.If)]
    lines = [line for line in told.body if isinstance(line, ast.ImportFrom)]
    return {one.name: str(line.module) for line in lines for one in line.names}


def loaded_by(statement: str) -> set[str]:
    """The modules that a program has loaded after a statement."""
    program = f"import sys; {statement}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


@folded
@pytest.mark.parametrize(("name", "module"), typed_names().items())
def test_each_name_is_what_its_module_calls_so(name: str, module: str) -> None:
    __import__(module)

    assert getattr(forge_proxy, name) is getattr(sys.modules[module], name)


def test_type_checkers_and_programs_see_the_same_names() -> None:
    public = {name for name in dir(forge_proxy) if name[0].isupper() or name in ("setup_backend", "respond_tool")}

    assert public - {"TYPE_CHECKING", "Any"} == set(typed_names())
    assert SOURCE.with_name("py.typed").exists()


def test_the_page_of_the_python_api_describes_every_public_name_and_no_other() -> None:
    page = (SOURCE.parents[1] / "docs" / "python-api.md").read_text()
    described = set(re.findall(r"^::: forge_proxy\.(\w+)$|`forge_proxy\.([A-Z]\w*)`", page, re.MULTILINE))

    assert {directive or prose for directive, prose in described} == set(typed_names())


def test_a_name_that_there_is_not_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Wrokflow'"):
        _ = forge_proxy.Wrokflow  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]


def test_importing_the_package_imports_none_of_its_parts() -> None:
    loaded = {name for name in loaded_by("import forge_proxy") if name.startswith("forge_proxy.")}

    assert loaded == {"forge_proxy._version"}


def test_workflows_with_a_client_of_ones_own_load_no_http() -> None:
    loaded = loaded_by("from forge_proxy import ContextManager, Guardrails, LLMClient, Workflow, WorkflowRunner")

    assert not loaded & {"aiohttp", "anthropic", "fastapi", "httpx", "starlette", "uvicorn"}


NOT_MET_BY_PROGRAMS = (
    "forge_proxy.api.admin",  # answered over HTTP
    "forge_proxy.api.disconnect",
    "forge_proxy.api.access_denied",
    "forge_proxy.batches",  # answered over HTTP
    "forge_proxy.cli",  # printed by the commands
    "forge_proxy.core.files",  # answered over HTTP
    "forge_proxy.core.store_errors",  # of runs, as below
    "forge_proxy.core.requests",
    "forge_proxy.core.rescue.golden_cases",  # printed by `forge-proxy rescue`
    "forge_proxy.core.files",  # answered over HTTP, as the next ones
    "forge_proxy.core.stored_responses",
    "forge_proxy.core.tasks",  # of tasks, which are submitted over HTTP
    "forge_proxy.tasks",
    "forge_proxy.evals",
    "forge_proxy.tools",  # of runs, which are submitted over HTTP
    "forge_proxy.wire.clients.messages",  # answered over HTTP
    "forge_proxy.core.jobs",
    "forge_proxy.workflows.runs",
    "forge_proxy.workflows.tool_registry",
)
"""The parts of the package whose errors no function of the Python API raises."""


def errors() -> Iterator[type[ForgeError]]:
    """The whole tree of errors."""
    for module in pkgutil.walk_packages(forge_proxy.__path__, "forge_proxy."):
        if not module.name.startswith("forge_proxy.store.migrations"):
            import_module(module.name)
    left = [ForgeError]
    while left:
        error = left.pop()
        yield error
        left += error.__subclasses__()


def test_every_error_that_a_program_can_meet_is_exported() -> None:
    met = [error for error in errors() if error.__module__.startswith("forge_proxy.")]
    met = [error for error in met if not error.__module__.startswith(NOT_MET_BY_PROGRAMS)]

    assert [error for error in met if getattr(forge_proxy, error.__name__, None) is not error] == []
    assert len(met) > 30


def documented(owner: object) -> Iterator[str]:
    """The docstrings of a public object and of its public methods."""
    yield inspect.getdoc(owner) or ""
    for name, member in vars(owner).items() if inspect.isclass(owner) else ():
        if not name.startswith("_"):
            yield inspect.getdoc(member) or ""


@folded
@pytest.mark.parametrize("name", sorted(set(forge_proxy.__all__) - {"Json", "LLMResponse", "MessageFormat"}))
def test_errors_that_a_docstring_names_can_be_imported(name: str) -> None:
    for text in documented(getattr(forge_proxy, name)):
        for sentence in re.findall(r"[Rr]aises?\b(.*?)(?:\.\s|\.?$)", text, re.DOTALL):
            for error in re.findall(r"`([A-Z]\w+)`", sentence):
                assert error in forge_proxy.__all__ or hasattr(builtins, error), (name, sentence)


TWICE = {"ValidationResult"}
"""Names of which both seeds have one: the verdict on a response in a loop, and the result of a check (decision 43)."""


def test_each_public_class_name_exists_once_in_the_package() -> None:
    modules: dict[str, list[str]] = {}
    for file in SOURCE.parent.rglob("*.py"):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules.setdefault(node.name, []).append(str(file.relative_to(SOURCE.parent)))

    assert {name for name, files in modules.items() if len(files) > 1} == TWICE
    assert sorted(modules["ValidationResult"]) == [
        "core/tasks/findings.py",
        "workflows/sdk/guardrail_components.py",
    ]


def test_all_names_are_listed_for_star_imports() -> None:
    assert set(forge_proxy.__all__) == set(typed_names()) | {"__version__"}
    assert set(forge_proxy.__all__) <= set(dir(forge_proxy))


@pytest.mark.parametrize(("old", "present"), [("Checked", "CheckedResponse"), ("Refused", "RequestFormatRejected")])
def test_a_name_of_before_works_with_a_warning(old: str, present: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"forge_proxy.{old} is now {present}"):
        assert getattr(forge_proxy, old) is getattr(forge_proxy, present)


def test_the_former_name_of_build_settings_works_with_a_warning() -> None:
    with pytest.warns(DeprecationWarning, match=r"settings\.given is now build_settings; the old name ends with 0\.3"):
        assert settings.given({"server": {"port": 8082}}).server.port == 8082


def test_renamed_attributes_of_the_python_api_still_work_with_a_warning() -> None:
    budget = forge_proxy.Budget(forge_proxy.BudgetMode.MANUAL, 4096, "set by hand")

    with pytest.warns(DeprecationWarning, match=r"Budget\.because is now reason; the old name ends with 0\.3"):
        assert budget.because == "set by hand"
