"""`setup_backend`: what it returns, its errors, and its end."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from forge_proxy import (
    BackendChoiceError,
    BackendError,
    BudgetMode,
    BudgetResolutionError,
    CompactStrategy,
    NoCompact,
    Settings,
    SettingsError,
    SlidingWindowCompact,
    ThinkingNotSupportedError,
    ToolDef,
    ToolSpec,
    UnsupportedModelError,
    Workflow,
    WorkflowRunner,
    respond_tool,
    setup_backend,
)
from forge_proxy.backends.llama_server.instance import CannotStart
from forge_proxy.core.backend_errors import BackendUnreachable
from forge_proxy.core.jsontypes import Json
from tests.fakes.llama_server import Fake
from tests.fakes.processes import Process, closed_port, has_ended, messages_server, model_server, ollama_server, until

CUSTOMER: dict[str, Json] = {"type": "object", "properties": {"customer": {"type": "string"}}, "required": ["customer"]}


def invoices() -> Workflow:
    def find_invoice(customer: str) -> dict[str, int]:
        return {"amount": 240}

    look = ToolDef(ToolSpec.from_json_schema("find_invoice", "find the invoice", CUSTOMER), find_invoice)
    tools = {tool.name: tool for tool in (look, respond_tool())}
    return Workflow("invoices", "finds invoices", tools, ["find_invoice"], "respond", "You help with invoices.")


@pytest.fixture(autouse=True)
def _own_state_folder(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setenv("XDG_STATE_HOME", "/nonexistent")


@pytest.fixture
def ollama() -> Generator[Process]:
    with ollama_server("qwen3:8b") as process:
        yield process


async def test_a_workflow_completes_on_the_embedded_model() -> None:
    async with setup_backend(backend="embedded", request_options={"temperature": 0}) as backend:
        runner = WorkflowRunner(client=backend.client, context_manager=backend.context)

        result = await runner.run(invoices(), "Please find the invoice for customer Anna.")

        assert backend.server is not None
        pid = backend.server.status().pid

    assert result == "The amount is 240."
    assert backend.budget.tokens == backend.context.budget_tokens == 2048
    assert backend.client.resolved_mode == "native"
    assert (backend.client.last_usage or {}).keys() == {"input_tokens", "output_tokens"}
    assert pid is not None
    until(lambda: has_ended(pid), "its server has ended with the block")


async def test_the_server_starts_with_the_window_of_the_budget(tmp_path: Path) -> None:
    fake = Fake(tmp_path)
    ours = Settings.model_validate({"backend": {"llama_server": {"binary": fake.path}}})

    async with setup_backend(
        ours, gguf_path=fake.model, budget_mode=BudgetMode.FORGE_FAST, n_slots=2, cache_type_k="q8_0", ctx_override=8192
    ) as backend:
        assert backend.budget.tokens == await backend.client.get_context_length() == 4096

    whole, half = (start["flags"] for start in fake.starts)
    assert [flags[flags.index("-c") + 1] for flags in (whole, half)] == ["16384", "8192"]  # of both slots
    assert half[half.index("--cache-type-k") + 1] == "q8_0"


async def test_an_ollama_model_is_loaded_with_its_budget(ollama: Process) -> None:
    async with setup_backend(
        url=ollama.url, model="qwen3:8b", budget_mode=BudgetMode.MANUAL, manual_tokens=8192
    ) as backend:
        result = await WorkflowRunner(backend.client, backend.context).run(invoices(), "Find Anna's invoice.")

    assert backend.kind == "ollama"
    assert backend.budget.tokens == 8192
    assert result == "Anna"  # what this Ollama responds with
    until(lambda: ollama.printed.count('"asked"') == 3, "what it printed has been read")
    asked = [json.loads(line) for line in ollama.printed.splitlines() if '"asked"' in line]
    assert [chat["options"] for chat in asked] == [{"num_ctx": 8192}] * 3
    assert [len(chat["messages"]) for chat in asked] == [0, 2, 4]  # it is loaded once


async def test_the_window_of_ollama_is_known_once_the_model_is_loaded(ollama: Process) -> None:
    async with setup_backend(url=ollama.url, model="qwen3:8b") as backend:
        assert backend.budget.tokens == 4096


async def test_unsupported_thinking_raises_its_own_error(ollama: Process) -> None:
    async with setup_backend(url=ollama.url, model="qwen3:8b", think=True) as backend:
        with pytest.raises(ThinkingNotSupportedError, match="does not support thinking"):
            await backend.client.send([{"role": "user", "content": "hi"}])


async def test_strategy_and_threshold_are_passed_to_the_context_manager() -> None:
    strategy = SlidingWindowCompact(3)

    async with setup_backend(backend="embedded", strategy=strategy, compact_threshold=0.5) as backend:
        assert backend.context.strategy is strategy
        assert backend.context.trigger_tokens == 1024


@pytest.mark.parametrize(("name", "kind"), [("sliding", SlidingWindowCompact), ("none", NoCompact)])
async def test_settings_select_the_compaction_strategy(name: str, kind: type[CompactStrategy]) -> None:
    said = Settings.model_validate({"compaction": {"strategy": name, "threshold": 0.25}})

    async with setup_backend(said, backend="embedded") as backend:
        assert isinstance(backend.context.strategy, kind)
        assert backend.context.trigger_tokens == 512


async def test_a_server_that_reports_no_window_requires_a_manual_budget() -> None:
    with model_server() as server:
        with pytest.raises(BudgetResolutionError, match="does not report its context window; set budget_mode"):
            async with setup_backend(url=server.url, backend="openai"):
                pass
        async with setup_backend(
            url=server.url, backend="openai", budget_mode=BudgetMode.MANUAL, manual_tokens=4096
        ) as backend:
            assert backend.budget.tokens == 4096
            assert backend.server is None


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"backend": "ollamma"}, SettingsError, "^backend: "),
        ({"ctx_override": 3}, SettingsError, "^ctx_override: .*256"),
        ({"budget_mode": "manual"}, SettingsError, "^budget: mode manual needs tokens"),
        ({"extra_flags": ["--port", "1"]}, SettingsError, "^extra_flags: "),
        ({"modell": "qwen3"}, TypeError, "no argument 'modell'; available: backend, model,"),
        ({"port": 1}, TypeError, "no argument 'port'"),
        ({"backend": "openai"}, BackendChoiceError, "needs --backend-url"),
        ({"backend": "llama-server", "n_slots": 2}, BackendChoiceError, "^n_slots is for a llama.cpp server"),
        ({"backend": "ollama", "slot_id": 1}, BackendChoiceError, "^slot_id is for a llama.cpp server"),
        ({"backend": "embedded", "api_key": "k"}, BackendChoiceError, "^api_key is for a running server"),
        ({"backend": "anthropic", "api_key": "k", "think": True}, BackendChoiceError, "^think is for"),
        ({"backend": "embedded", "recommended_sampling": True}, UnsupportedModelError, "tiny-tools"),
    ],
)
async def test_errors_name_the_argument(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        async with setup_backend(**options):
            pass


async def test_an_unreachable_server_is_an_error() -> None:
    with closed_port() as port, pytest.raises(BackendUnreachable):
        async with setup_backend(url=f"http://127.0.0.1:{port}", backend="llama-server"):
            pass


async def test_a_wrong_key_is_an_error_that_names_the_setting() -> None:
    with messages_server() as server, pytest.raises(BackendError, match=r"answered 401.*backend\.api_key"):
        async with setup_backend(backend="anthropic", url=server.url, api_key="wrong", model="says"):
            pass


async def test_a_model_that_fails_to_load_is_an_error_and_leaves_no_process(tmp_path: Path) -> None:
    fake = Fake(tmp_path)
    fake.behaves("crashes")
    ours = Settings.model_validate({"backend": {"llama_server": {"binary": fake.path}}})

    with pytest.raises(CannotStart, match="out of memory"):
        async with setup_backend(ours, gguf_path=fake.model):
            pass

    until(lambda: has_ended(fake.pid), "its process has ended")


async def test_the_environment_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGE_PROXY_BACKEND__KIND", "openai")
    monkeypatch.setenv("FORGE_PROXY_NO_SUCH", "1")

    async with setup_backend(backend="embedded") as backend:
        assert backend.kind == "embedded"
