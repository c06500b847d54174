"""The metrics of a daemon over a real llama.cpp: what a guarded request adds, and who may read them."""

from __future__ import annotations

import httpx
import openai
import pytest
from prometheus_client.parser import text_string_to_metric_families

from forge_proxy import ProxyServer, Settings
from tests.live.weather import ASK_PARIS, MODEL, TOOLS


def samples_of(url: str, key: str) -> dict[str, float]:
    """Return the samples at `/metrics`, each by its name and its labels' values."""
    answer = httpx.get(url.removesuffix("/v1") + "/metrics", headers={"authorization": f"Bearer {key}"})
    assert answer.status_code == 200
    families = text_string_to_metric_families(answer.text)
    return {"|".join([one.name, *one.labels.values()]): one.value for family in families for one in family.samples}


@pytest.mark.parametrize("streams", [False, True])
def test_a_guarded_request_is_in_the_metrics(streams: bool) -> None:
    settings = Settings.model_validate({"server": {"admin_keys": ["secret"]}, "backend": {"kind": "embedded"}})
    with ProxyServer(settings, port=0) as proxy:
        with openai.OpenAI(base_url=proxy.url, api_key="none", max_retries=0, timeout=60) as client:
            answer = client.chat.completions.create(
                model=MODEL, messages=ASK_PARIS, tools=TOOLS, temperature=0, stream=streams
            )
            if isinstance(answer, openai.Stream):
                list(answer)
        shown = samples_of(proxy.url, "secret")

    of_request = f"{MODEL}|chat_completions"
    assert sum(count for name, count in shown.items() if name.startswith(f"forge_requests_total|{MODEL}|")) == 1
    assert shown[f"forge_time_to_first_token_seconds_sum|{of_request}"] > 0
    assert shown[f"forge_request_duration_seconds_count|{of_request}"] == 1
    assert shown[f"forge_tokens_total|{MODEL}|prompt"] > 50
    assert shown[f"forge_model_load_seconds_count|{MODEL}"] == 1
    assert shown[f"forge_context_window_tokens|{MODEL}"] > 0
    assert shown["forge_backend_up"] == 1
    assert shown["forge_queue_depth|waiting"] == 0


def test_metrics_need_an_admin_key_unless_they_are_public() -> None:
    statuses: dict[tuple[bool, str], int] = {}
    for is_public in (False, True):
        server = {"admin_keys": ["secret"], "api_keys": ["client"], "metrics_public": is_public}
        settings = Settings.model_validate({"server": server, "backend": {"kind": "embedded"}})
        with ProxyServer(settings, port=0) as proxy:
            for key in ("", "client", "secret"):
                headers = {"authorization": f"Bearer {key}"} if key else {}
                answer = httpx.get(proxy.url.removesuffix("/v1") + "/metrics", headers=headers)
                statuses[is_public, key] = answer.status_code

    assert statuses == {
        (False, ""): 401,
        (False, "client"): 401,
        (False, "secret"): 200,
        (True, ""): 200,
        (True, "client"): 200,
        (True, "secret"): 200,
    }
