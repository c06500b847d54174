"""The profiles of compose.yaml, without a Docker engine. `make system-docker` starts them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from forge_proxy.api.config import ServerConfig

ROOT = Path(__file__).parents[2]
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
PROFILES = sorted({name for service in SERVICES.values() for name in service["profiles"]})


def test_what_starts_without_options_is_a_profile_like_the_others() -> None:
    (line,) = [line for line in (ROOT / ".env").read_text().splitlines() if not line.startswith("#")]

    assert line.partition("=")[::2] == ("COMPOSE_PROFILES", "cpu")
    assert set(PROFILES) == {"cpu", "nvidia", "ollama", "managed", "host"}


@pytest.mark.parametrize("profile", PROFILES)
def test_each_profile_is_one_proxy_on_this_machine_and_at_most_one_model_server(profile: str) -> None:
    chosen = {name: service for name, service in SERVICES.items() if profile in service["profiles"]}
    (proxy,) = [service for service in chosen.values() if "ports" in service]

    assert proxy["ports"] == ["127.0.0.1:${FORGE_PORT:-8081}:8081"]
    assert [*proxy.get("depends_on", [])] == [name for name, service in chosen.items() if service is not proxy]
    assert len(chosen) <= 2
    assert ["build" in service for service in chosen.values()].count(True) == 1


@pytest.mark.parametrize("name", [name for name, service in SERVICES.items() if "ports" in service])
def test_docker_waits_longer_for_a_proxy_than_it_drains(name: str) -> None:
    grace = int(SERVICES[name]["stop_grace_period"].removesuffix("s"))

    assert grace > ServerConfig().drain_seconds


@pytest.mark.parametrize("name", [name for name, service in SERVICES.items() if "ports" in service])
def test_what_a_proxy_keeps_outlives_its_container(name: str) -> None:
    assert "state:/state/forge-proxy" in SERVICES[name]["volumes"]
    assert SERVICES[name]["read_only"]


@pytest.mark.parametrize("name", [name for name, one in SERVICES.items() if "/models/" in str(one.get("command"))])
def test_what_needs_a_model_file_is_not_restarted_for_ever_without_it(name: str) -> None:
    assert SERVICES[name]["restart"] == "on-failure:5"
