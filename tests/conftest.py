"""Each test belongs to a tier, by its folder.

`unit`: pure functions. `app`: parts of the daemon in the process of the test. `process`: real daemons, commands and
servers. `live`: a real llama.cpp. `--tiers unit,app` selects the first two only, as `make quick` does; it also
omits tests with the mark `long`. A single test, or one of its cases, in a file of another tier has the mark of its own.
A test of the first two tiers fails if it starts a process.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Generator
from functools import cache
from pathlib import Path

import httpx
import httpx2
import pytest
from hypothesis import settings

from tests.fakes.postgres import Postgres, postgres
from tests.fakes.recorded_migrations import record_migrations
from tests.properties import SCALE

# In CI the examples of a commit are always the same: its verdict says something about the commit. Everywhere else each
# run tries new ones.
settings.register_profile(
    "forge-proxy",
    max_examples=max(5, round(100 * SCALE)),
    deadline=None,
    print_blob=True,
    derandomize=bool(os.environ.get("CI")),
    database=None if os.environ.get("CI") else settings.get_profile("default").database,
)
settings.load_profile("forge-proxy")

# Each client of httpx reads the 150 certificates of the machine, which takes it 20 ms. Tests share them.
for library in (httpx, httpx2):
    setattr(library._transports.default, "create_ssl_context", cache(library.create_ssl_context))  # noqa: B010

TESTS = Path(__file__).parent
TIERS = {
    "unit": ("core", "fuzz", "settings", "templates", "wire"),
    "app": (
        "api", "backends", "cli", "contracts", "daemon", "engine", "evals", "hardware", "harness", "schemas", "store",
        "jobs", "telemetry", "tools", "workflows",
    ),
    "process": (
        "attack", "checks", "docs", "examples", "git", "processes", "system", "tasks", "temporal", "transcripts",
    ),
    "live": ("live",),
}  # fmt: skip
STARTS_PROCESSES = {
    "api/messages/test_sdk.py",
    "backends/llama_server/test_manager.py",
    "backends/test_anthropic.py",
    "backends/test_chat_templates.py",
    "backends/test_template_sources.py",
    "backends/test_scheme.py",
    "cli/test_completion.py",
    "cli/test_connect_daemon.py",
    "cli/test_minimum.py",
    "cli/test_remote.py",
    "contracts/test_request_store.py",
    "contracts/test_response_store.py",
    "contracts/test_scheduler.py",
    "contracts/test_store.py",
    "daemon/test_allocator.py",
    "daemon/test_background_responses.py",
    "daemon/test_proxy_server.py",
    "daemon/test_responses.py",
    "daemon/test_setup.py",
    "engine/test_self_test.py",
    "engine/test_process_pool.py",
    "evals/test_generated_processes.py",
    "evals/test_results.py",
    "hardware/test_machine.py",
    "settings/test_schema.py",
    "store/test_database.py",
    "store/test_faults.py",
    "store/test_migrations.py",
    "store/test_opening.py",
    "test_public_names.py",
    "tools/test_mcp.py",
    "tools/test_mcp_faults.py",
    "tools/test_mcp_http_faults.py",
    "tools/test_executors.py",
}
"""Files of the tier `process` in folders of another: processes, or servers on real ports with real SDKs."""
REAL_CLIENTS = {TESTS / "harness" / name for name in ("test_clients.py", "test_prefix_cache.py")}
"""Files in which every test has the mark `harness`: 2,600 tests that only `make harness` selects."""
_TIER_OF = {folder: tier for tier, folders in TIERS.items() for folder in folders}
_ORDER = ["live", "process", "app", "unit"]
_HARMLESS = {"uname"}
"""The module `platform` of the standard library runs it once; SDKs ask it for the processor."""
LONGEST = {
    "api/admin/test_runs.py",
    "api/test_length.py",
    "api/test_loops.py",
    "backends/llama_server/test_manager.py",
    "checks/test_checks.py",
    "checks/test_sandbox.py",
    "core/rescue/test_cost.py",
    "core/rescue/test_forms.py",
    "docs/test_pages.py",
    "examples/test_examples.py",
    "fuzz/test_responses.py",
    "live/test_dashboard.py",
    "schemas/test_routes.py",
    "settings/test_secrets.py",
    "system/test_crowds.py",
    "system/test_large_bodies.py",
    "system/test_managed.py",
    "system/test_models.py",
    "system/test_slow_readers.py",
    "system/test_tasks.py",
    "system/test_tasks_killed.py",
    "templates/test_forms.py",
    "tools/test_mcp.py",
    "tools/test_mcp_faults.py",
    "wire/test_large_json.py",
}
"""The first files of their tier. What takes long comes first, so that no worker is left alone with it in the end."""
if stale := [file for file in STARTS_PROCESSES | LONGEST if not (TESTS / file).exists()]:
    raise pytest.UsageError(f"tests/conftest.py: these files do not exist: {', '.join(stale)}")


# A shell starts its background jobs so, as nohup does, and the daemons and commands of the tests would inherit it.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session")
def postgres_server() -> Generator[Postgres]:
    """One PostgreSQL server of each worker. A test creates its own database, and does not stop the server."""
    with postgres() as server:
        yield server


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tiers", default=",".join(TIERS), help="collect the test files of these tiers only")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore the test files and folders of other tiers: to import them only to deselect their tests takes seconds."""
    tiers = _selected_tiers(config)
    if collection_path.match("test_*.py"):
        is_excluded = "not harness" in config.option.markexpr and collection_path in REAL_CLIENTS
        return True if is_excluded or tier_of(collection_path) not in tiers else None
    possible = {"process", _TIER_OF.get(collection_path.name, "process")}  # of the files in a folder of tests
    return True if collection_path.parent == TESTS and possible.isdisjoint(tiers) else None


def _selected_tiers(config: pytest.Config) -> set[str]:
    """Return the tiers of `--tiers`. Raises `pytest.UsageError` for one that does not exist."""
    tiers = set(str(config.getoption("--tiers")).split(","))
    if unknown := tiers - set(TIERS):
        raise pytest.UsageError(f"--tiers: {', '.join(sorted(unknown))}: choose from {', '.join(TIERS)}")
    return tiers


@cache
def tier_of(path: Path) -> str:
    """The tier of a test file. Raises `pytest.UsageError` for a folder that has none."""
    inside = path.relative_to(TESTS)
    if inside.as_posix() in STARTS_PROCESSES:
        return "process"
    if len(inside.parts) == 1:
        return "unit"
    if inside.parts[0] not in _TIER_OF:
        raise pytest.UsageError(f"tests/{inside.parts[0]}: add this folder to a tier in tests/conftest.py")
    return _TIER_OF[inside.parts[0]]


def _tier_of_item(item: pytest.Item) -> str:
    """The mark of a test if it has one of a tier, else the tier of its file."""
    return next((mark.name for mark in item.iter_markers() if mark.name in TIERS), tier_of(item.path))


def _position(item: pytest.Item) -> tuple[int, bool]:
    """The place of a test in the order. The tests of one file stay together."""
    return _ORDER.index(tier_of(item.path)), item.path.relative_to(TESTS).as_posix() not in LONGEST


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without garbage collections: nearly all objects that are made stay to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before `-m` selects by the marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    tiers = _selected_tiers(config)
    excluded: list[pytest.Item] = []
    selected: list[pytest.Item] = []
    for item in items:
        tier = _tier_of_item(item)
        item.add_marker(tier)
        (selected if tier in tiers else excluded).append(item)
    selected.sort(key=_position)
    config.hook.pytest_deselected(items=excluded)
    items[:] = selected


def pytest_collection_finish() -> None:
    """What was imported and collected stays to the end: no garbage collection needs to look at it again."""
    gc.collect()
    gc.freeze()
    record_migrations()


class _ProcessGuard:
    """Fails tests that start a process although their tier has none: `make quick` is for tests that start none."""

    def __init__(self) -> None:
        self.test: str | None = None
        sys.addaudithook(self._check)

    def _check(self, event: str, args: tuple[object, ...]) -> None:
        if event == "subprocess.Popen" and self.test and args[0] not in _HARMLESS:
            raise AssertionError(
                f"{self.test} starts {args[0]}: mark it with `process`, or add its file to STARTS_PROCESSES"
            )


_GUARD = _ProcessGuard()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    _GUARD.test = item.nodeid if _tier_of_item(item) in ("unit", "app") else None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown() -> None:
    _GUARD.test = None  # the last test of a worker also ends what all of its tests shared
