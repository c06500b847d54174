"""An application with its admin API, a scripted model and a managed model server that only tests use."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import httpx

from forge_proxy.api.admin.ports import BackendControl, ServerStateName, ServerStatusReport
from forge_proxy.api.admin.services import AdminServices, BackendSelection
from forge_proxy.api.app import create_app
from forge_proxy.api.auth import KeyRing
from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.backends.sampling import read_recommendations
from forge_proxy.core.errors import UnknownModel
from forge_proxy.daemon.database import build_response_storage, shared_database
from forge_proxy.daemon.jobs import build_jobs, store_url
from forge_proxy.daemon.reload import LiveSettings
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.budgets import Budgets
from forge_proxy.engine.config import EngineConfig
from forge_proxy.engine.memory import MEGABYTE, MemoryBudget
from forge_proxy.engine.sampling import Sampling
from forge_proxy.hardware.machine import MachineHardware
from forge_proxy.settings import Settings, load
from forge_proxy.store.config import StoreConfig
from forge_proxy.telemetry.event_feed import EventFeed
from tests.fakes.says import Said
from tests.fakes.scripted import ScriptedHttp, StillClock

JsonDict = dict[str, Any]
ADMIN = "/admin/v1"
_RECOMMENDATIONS = read_recommendations()


@dataclass
class Managed:
    """A managed model server."""

    state: ServerStateName = "ready"
    model: str = "first"
    did: list[str] = field(default_factory=list[str])

    def status(self) -> ServerStatusReport:
        return ServerStatusReport(self.state, self.model, 4711, 2, "as told")

    async def start(self) -> None:
        self.did.append("start")
        self.state = "ready"

    async def stop(self) -> None:
        self.did.append("stop")
        self.state = "stopped"

    async def restart(self) -> None:
        self.did.append("restart")

    async def use(self, model: str) -> None:
        if model not in ("first", "second"):
            raise UnknownModel(model, ["first", "second"])
        self.model = model

    def logs(self, lines: int) -> Sequence[str]:
        return [f"line {number}" for number in range(5)][-lines:]


def written(**settings: Any) -> Callable[[], Settings]:
    """Return settings as a file would contain them."""
    return lambda: load(None, settings)


@asynccontextmanager
async def state_in(folder: str) -> AsyncGenerator[None]:
    """Have the application keep its state in a folder."""
    with patch.dict(os.environ, {"XDG_STATE_HOME": folder}):
        yield


@asynccontextmanager
async def world(
    *script: Said,
    read: Callable[[], Settings] | None = None,
    control: BackendControl | None = None,
    heard: list[Any] | None = None,
    says: Sequence[Said] = (),
    events: EventFeed | None = None,
    **settings: Any,
) -> AsyncGenerator[httpx.AsyncClient]:
    """Yield a client of the application with these settings; `read` reloads them. The responses of its one model,
    `scripted`, are a `script`, or those that `says` returns. Without `events` the feeds are closed: a response without
    an end would never arrive.
    """
    now = load(None, settings)
    observe = (heard if heard is not None else []).append
    backend = OpenAICompatible("http://scripted", ScriptedHttp(script or says))
    budgets = Budgets(backend, StillClock(), observe, now.budget)
    sampling = Sampling(observe, _RECOMMENDATIONS, now.sampling)
    engine = Engine(
        EngineConfig(
            backend,
            StillClock(),
            observe,
            budgets=budgets,
            sampling=sampling,
            guardrails=now.guardrails,
            compaction=now.compaction,
        )
    )
    if events is None:
        events = EventFeed()
        events.close()
        engine.active.close()
    keys = KeyRing(now.server)
    live = LiveSettings(now, read or written(**settings), engine, keys)
    admin = AdminServices(
        engine,
        backend,
        BackendSelection("openai", "a test wants it", "a test started it"),
        live,
        MachineHardware(root=Path("/nowhere"), system="none"),
        StillClock(),
        MemoryBudget(100 * MEGABYTE),
        control,
    )
    with TemporaryDirectory() as folder:
        store = now.store if now.store.url else StoreConfig(url=f"sqlite+aiosqlite:///{folder}/runs.db")
        settings_of_runs = now.model_copy(update={"store": store})
        async with (
            state_in(folder),  # tasks have worktrees there
            shared_database(store_url(settings_of_runs)) as database,
            build_jobs(
                settings_of_runs,
                engine,
                observe,
                database,
                responses := build_response_storage(settings_of_runs, database),
                MemoryBudget(100 * MEGABYTE),
            ) as services,
        ):
            app = create_app(
                engine,
                backend,
                now.server,
                replace(admin, runs=services.runs, jobs=services.jobs, tasks=services.tasks, events=events),
                keys,
                responses=responses,
                background=services.background,
            )
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
                yield client


def error(answer: httpx.Response) -> tuple[int, str | None, str | None]:
    """Return status, code and field of an error, which must have OpenAI's format and a request id."""
    body = answer.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert answer.headers["x-request-id"]
    return answer.status_code, body["error"]["code"], body["error"]["param"]
