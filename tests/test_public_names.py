"""What `import forge_proxy` gives, and what it costs those who want little of it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import forge_proxy

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


@pytest.mark.parametrize(("name", "module"), typed_names().items())
def test_each_name_is_what_its_module_calls_so(name: str, module: str) -> None:
    __import__(module)

    assert getattr(forge_proxy, name) is getattr(sys.modules[module], name)


def test_type_checkers_and_programs_are_told_the_same_names() -> None:
    public = {name for name in dir(forge_proxy) if name[0].isupper() or name in ("setup_backend", "respond_tool")}

    assert public - {"TYPE_CHECKING", "Any"} == set(typed_names())
    assert SOURCE.with_name("py.typed").exists()


def test_a_name_that_there_is_not_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Wrokflow'"):
        _ = forge_proxy.Wrokflow  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]


def test_importing_the_package_imports_none_of_its_parts() -> None:
    assert not [name for name in loaded_by("import forge_proxy") if name.startswith("forge_proxy.")]


def test_workflows_with_a_client_of_ones_own_load_no_http() -> None:
    loaded = loaded_by("from forge_proxy import ContextManager, Guardrails, LLMClient, Workflow, WorkflowRunner")

    assert not loaded & {"aiohttp", "anthropic", "fastapi", "httpx", "starlette", "uvicorn"}
