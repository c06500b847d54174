"""A real Prometheus scrapes the daemon, and the examples for it are valid."""

from __future__ import annotations

import json
import re
from pathlib import Path

import httpx
import pytest
import yaml

from forge_proxy import ProxyServer, Settings
from tests.fakes.processes import until
from tests.fakes.prometheus import check_with_promtool, prometheus
from tests.live.weather import ASK_PARIS, MODEL, TOOLS

EXAMPLES = Path(__file__).parents[2] / "config/examples"
ALERTS = EXAMPLES / "prometheus-alerts.yaml"
EMBEDDED = Settings.model_validate({"backend": {"kind": "embedded"}, "server": {"admin_keys": ["secret"]}})
_NAMES = re.compile(r"forge_[a-z_]+")


def panel_expressions() -> list[str]:
    """Return the expressions of the dashboard, with values in place of Grafana's variables."""
    panels = json.loads((EXAMPLES / "grafana-dashboard.json").read_text())["panels"]
    values = {"$model": ".*", "$__rate_interval": "5m", "$__range": "1h"}
    expressions = [target["expr"] for panel in panels for target in panel["targets"]]
    return [re.sub(r"\$\w+", lambda found: values[found[0]], text) for text in expressions]


def test_the_scrape_configuration_and_the_alert_rules_are_valid() -> None:
    check_with_promtool("config", EXAMPLES / "prometheus.yaml")
    check_with_promtool("rules", ALERTS)


def test_the_expressions_of_the_dashboard_are_valid(tmp_path: Path) -> None:
    rules = [{"record": f"panel:{number}", "expr": text} for number, text in enumerate(panel_expressions())]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))

    check_with_promtool("rules", file)


def test_prometheus_scrapes_a_daemon_whose_clients_invent_names(tmp_path: Path) -> None:
    with ProxyServer(EMBEDDED, port=0) as proxy:
        for number in range(20):
            headers = {"authorization": f"Bearer key-{number}", "user-agent": f"program/{number}"}
            body = {"model": f"invented-{number}", "messages": ASK_PARIS, "tools": TOOLS, "temperature": 0}
            assert httpx.post(f"{proxy.url}/chat/completions", json=body, headers=headers, timeout=60).is_success
        base = proxy.url.removesuffix("/v1")
        metrics = httpx.get(f"{base}/metrics", headers={"authorization": "Bearer secret"}).text
        check_with_promtool("metrics", text=metrics)
        with prometheus(scrape_configuration(base.partition("//")[2]), tmp_path) as server:
            until(lambda: server.query('up{job="forge-proxy"}') == [1.0], "Prometheus has scraped the daemon")
            until(lambda: server.query(f'sum(forge_requests_total{{model="{MODEL}"}})') == [20.0], "all are counted")
            assert server.query("count(forge_requests_total)") < [5.0]
            assert server.query("forge_backend_up") == [1.0]


def scrape_configuration(target: str) -> str:
    """Return the example for this daemon, with its key, and scraped each second."""
    config = yaml.safe_load((EXAMPLES / "prometheus.yaml").read_text())
    del config["rule_files"]
    config["global"]["scrape_interval"] = "1s"
    (job,) = config["scrape_configs"]
    job["authorization"] = {"credentials": "secret"}
    job["static_configs"] = [{"targets": [target]}]
    return yaml.safe_dump(config)


@pytest.mark.parametrize("file", ["prometheus-alerts.yaml", "grafana-dashboard.json", "../../docs/monitoring.md"])
def test_every_metric_that_is_named_exists(file: str) -> None:
    with ProxyServer(EMBEDDED, port=0) as proxy:
        url = f"{proxy.url.removesuffix('/v1')}/metrics"
        metrics = httpx.get(url, headers={"authorization": "Bearer secret"}).text
    declared = set(re.findall(r"^# TYPE (\S+)", metrics, re.MULTILINE))
    parts = {f"{name}{part}" for name in declared for part in ("_bucket", "_sum", "_count")}

    named = set(_NAMES.findall((EXAMPLES / file).read_text()))

    assert len(named) > 4
    assert named <= declared | parts
