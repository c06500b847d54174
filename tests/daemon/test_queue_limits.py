"""How many phases of each queue run at a time."""

from __future__ import annotations

import pytest

from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.daemon.jobs import queue_limits
from forge_proxy.engine.admission import Admission
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.clock import MonotonicClock
from forge_proxy.engine.config import EngineConfig
from forge_proxy.settings import Settings
from tests.fakes.scripted import ScriptedHttp


@pytest.mark.parametrize(
    ("setting", "slots", "limit"),
    [("auto", 8, 8), ("auto", 2, 4), ("auto", None, 4), (3, 8, 3)],
)
def test_s_fanout_tasks_use_all_slots_of_the_model_server(setting: str | int, slots: int | None, limit: int) -> None:
    backend = OpenAICompatible("http://scripted", ScriptedHttp(()))
    admission = Admission(backend, MonotonicClock(), lambda _: None, slots=slots)
    engine = Engine(EngineConfig(backend, MonotonicClock(), lambda _: None, admission=admission))
    settings = Settings.model_validate({"jobs": {"queues": {"tasks": setting}}})

    assert queue_limits(settings, engine)["tasks"]() == limit
