"""DaemonMetrics add up what the records of requests say, and their labels stay few."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from forge_proxy.core.budget import Budget, BudgetMode
from forge_proxy.core.guardrails.turn import Outcome
from forge_proxy.core.requests.records import AttemptRecord, CallRecord, RequestOrigin, TokenCounts
from forge_proxy.engine.events import BudgetResolved, Event, RequestAbandoned, RequestFailed, ServerStateChanged
from forge_proxy.telemetry.metrics import DaemonMetrics, LiveState
from tests.fakes.records import record_with

RETRIED = record_with(
    result="retried",
    seconds=2.0,
    queued=0.5,
    backend_seconds=1.4,
    first_output=1.9,
    attempts=(
        AttemptRecord(1, "unknown_tool", "serch", "unknown", 0.7, TokenCounts(100, 50, 10)),
        AttemptRecord(2, None, "", "", 0.7, TokenCounts(120, 100, 20, 5)),
    ),
    calls=(CallRecord("search", Outcome.RETRIED), CallRecord("search", Outcome.RETRIED)),
)


def make_metrics(known: tuple[str, ...] = ("m",), state: LiveState | None = None) -> DaemonMetrics:
    async def read_state() -> LiveState:
        return state or LiveState(is_backend_up=True, waiting=3, running=2, default_model="m")

    return DaemonMetrics(known.__contains__, read_state)


async def scrape(metrics: DaemonMetrics) -> dict[str, float]:
    """Return each sample by its name and its labels' values."""
    text, content_type = await metrics.render("")
    assert content_type.startswith("text/plain")
    samples = [sample for family in text_string_to_metric_families(text.decode()) for sample in family.samples]
    return {"|".join([sample.name, *sample.labels.values()]): sample.value for sample in samples}


async def test_a_request_that_was_retried() -> None:
    metrics = make_metrics()
    metrics(RequestFailed(RETRIED))

    shown = await scrape(metrics)

    assert shown["forge_requests_total|m|retried|chat_completions"] == 1
    assert shown["forge_request_duration_seconds_sum|m|chat_completions"] == 2.0
    assert shown["forge_time_to_first_token_seconds_sum|m|chat_completions"] == 1.9
    assert abs(shown["forge_overhead_seconds_sum|chat_completions"] - 0.1) < 1e-9
    assert shown["forge_tokens_total|m|prompt"] == 220
    assert shown["forge_tokens_total|m|cached"] == 150
    assert shown["forge_tokens_total|m|completion"] == 30
    assert shown["forge_tokens_total|m|reasoning"] == 5
    assert shown["forge_tokens_total|m|retry"] == 110
    assert shown["forge_tool_calls_total|m|retried"] == 2
    assert shown["forge_retries_total|unknown_tool|m"] == 1
    assert shown["forge_prompt_cache_ratio_sum|m"] == 150 / 220


async def test_a_disconnected_client_counts_as_such_and_not_as_overhead() -> None:
    metrics = make_metrics()
    metrics(RequestAbandoned(record_with(result="abandoned", first_output=None)))

    shown = await scrape(metrics)

    assert shown["forge_client_disconnects_total|chat_completions"] == 1
    assert "forge_overhead_seconds_sum|chat_completions" not in shown
    assert "forge_time_to_first_token_seconds_sum|m|chat_completions" not in shown


async def test_the_state_is_read_at_each_scrape() -> None:
    shown = await scrape(make_metrics(state=LiveState(is_backend_up=False, waiting=7, running=1, default_model="m")))

    assert shown["forge_backend_up"] == 0
    assert shown["forge_queue_depth|waiting"] == 7
    assert shown["forge_queue_depth|running"] == 1


async def test_windows_and_loads_of_models() -> None:
    metrics = make_metrics()
    events: list[Event] = [
        ServerStateChanged("llama-server", "starting", None, "m"),
        ServerStateChanged("llama-server", "loading", None, "m"),
        ServerStateChanged("llama-server", "ready", None, "m"),
        ServerStateChanged("llama-server", "starting", None, "m"),
        ServerStateChanged("llama-server", "failed", "it died", "m"),
        ServerStateChanged("llama-server", "ready", None, "m"),  # ready without a start that was seen
        BudgetResolved("m", Budget(BudgetMode.BACKEND, 8192, "reported")),
    ]
    for event in events:
        metrics(event)

    shown = await scrape(metrics)

    assert shown["forge_model_load_seconds_count|m"] == 1
    assert shown["forge_context_window_tokens|m"] == 8192


async def test_the_window_of_the_default_model_whose_name_is_known_later() -> None:
    metrics = make_metrics()
    metrics(BudgetResolved(None, Budget(BudgetMode.BACKEND, 4096, "reported")))

    assert (await scrape(metrics))["forge_context_window_tokens|m"] == 4096


async def test_invented_names_of_models_clients_and_paths_add_no_time_series() -> None:
    metrics = make_metrics()
    for number in range(10_000):
        origin = RequestOrigin(f"/v1/audio/{number}", f"label {number}", f"program/{number}")
        metrics(RequestFailed(record_with(origin=origin, model=f"model {number}", served=f"model {number}")))

    shown = await scrape(metrics)

    assert shown["forge_requests_total|other|clean|/v1/audio"] == 10_000
    assert len(shown) < 150


async def test_even_a_backend_that_lists_thousands_of_models_adds_few() -> None:
    names = tuple(f"model {number}" for number in range(1000))
    metrics = make_metrics(names)
    for name in names:
        metrics(RequestFailed(record_with(served=name)))

    shown = await scrape(metrics)

    assert sum(name.startswith("forge_requests_total") for name in shown) == 65  # 64 names and "other"


async def test_openmetrics_for_a_scraper_that_prefers_it() -> None:
    text, content_type = await make_metrics().render("application/openmetrics-text; version=1.0.0")

    assert content_type.startswith("application/openmetrics-text")
    assert text.endswith(b"# EOF\n")
