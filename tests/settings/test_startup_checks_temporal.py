"""Settings with which no daemon can share jobs through Temporal."""

from __future__ import annotations

from typing import Any

import pytest

from forge_proxy.settings import SettingsError, build_settings
from forge_proxy.settings.startup_checks import refuse_unusable

POSTGRES = {"url": "postgresql+asyncpg://user@db.example/forge"}


@pytest.mark.parametrize(
    ("store", "jobs", "message"),
    [
        ({}, {}, "jobs.scheduler: temporal needs a PostgreSQL database; set store.url"),
        (POSTGRES, {"temporal": {"api_key_file": "/none"}}, "set jobs.temporal.tls to true"),
        (POSTGRES, {"temporal": {"api_key_file": "/none", "tls": True}}, "api_key_file: file not found: /none"),
    ],
)
def test_settings_that_temporal_cannot_work_with(store: dict[str, str], jobs: dict[str, Any], message: str) -> None:
    settings = build_settings({"store": store, "jobs": {"scheduler": "temporal", **jobs}})

    with pytest.raises(SettingsError, match=message):
        refuse_unusable(settings)


def test_the_same_settings_do_not_matter_to_the_local_scheduler() -> None:
    refuse_unusable(build_settings({"jobs": {"serve_queues": ["lines"], "temporal": {"api_key_file": "/none"}}}))


def test_settings_for_temporal() -> None:
    settings = build_settings({"store": POSTGRES, "jobs": {"scheduler": "temporal", "serve_queues": ["lines", "runs"]}})

    refuse_unusable(settings)
    with pytest.raises(SettingsError, match=r"jobs.serve_queues.1: expected .*lines"):
        build_settings({"jobs": {"serve_queues": "runs, line"}})

    assert settings.jobs.serve_queues == ("lines", "runs")
