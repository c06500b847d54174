"""The settings that hold, and reading them again while requests are answered (`/admin/v1/reload`, SIGHUP)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import structlog

from forge_proxy.api.admin.ports import ReloadResult, WrongSettings
from forge_proxy.api.auth import KeyRing, read_keys
from forge_proxy.api.config import ServerConfig, ServerConfigError
from forge_proxy.api.origins import is_private
from forge_proxy.core.errors import ForgeError
from forge_proxy.core.guardrails import GuardPolicy
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.live_value import LiveValue
from forge_proxy.settings import Settings, SettingsError
from forge_proxy.settings.masking import masked
from forge_proxy.telemetry.systemd import Systemd

_KEYS = ("api_keys", "api_keys_file", "admin_keys", "admin_keys_file", "allow_public_without_keys")
_LIVE = ("guardrails.", "budget.", "compaction.", "sampling.", *(f"server.{name}" for name in _KEYS))


class LiveSettings:
    """`EvalConfiguration`, and the one writer of what it changes. `read` reads file, environment and command line."""

    def __init__(
        self,
        settings: Settings,
        read: Callable[[], Settings],
        guardrails: LiveValue[GuardPolicy],
        engine: Engine,
        door: KeyRing,
    ) -> None:
        self._started_with = settings
        self._read = read
        self._guardrails = guardrails
        self._budgets = engine.budgets
        self._fitting = engine.fitting
        self._sampling = engine.sampling
        self._door = door
        self._one_at_a_time = asyncio.Lock()

    @property
    def now(self) -> Settings:
        """Those that hold, with what was changed since the start."""
        live = {
            "guardrails": self._guardrails.now,
            "budget": self._budgets.wish,
            "compaction": self._fitting.policy,
            "sampling": self._sampling.policy,
        }
        return self._started_with.model_copy(update=live)

    def shown(self) -> JsonObject:
        """See `api.admin.ports.Configuration`."""
        return masked(self.now)

    async def reload(self) -> ReloadResult:
        """See `api.admin.ports.Configuration`. What was changed by the admin API goes back to what is written."""
        async with self._one_at_a_time:
            before = self.now
            try:
                written = await asyncio.to_thread(self._read)
                server = _with_keys_of(written.server, before.server)
                await asyncio.to_thread(KeyRing, server)
            except (SettingsError, ServerConfigError) as exc:
                raise WrongSettings(str(exc)) from exc
            if written.budget != before.budget:
                await self._budgets.switch(written.budget)
            self._guardrails.now = written.guardrails
            self._fitting.policy = written.compaction
            self._sampling.policy = written.sampling
            self._door.renew(server)
            self._started_with = self._started_with.model_copy(update={"server": server})
            changed = list(_changed(before.model_dump(), written.model_dump()))
        applied = tuple(name for name in changed if name.startswith(_LIVE))
        return ReloadResult(applied, tuple(name for name in changed if not name.startswith(_LIVE)))


class SettingsReloader:
    """SIGHUP: the settings are read again, one time after the other, and the log says what came of it."""

    def __init__(self, live: LiveSettings, systemd: Systemd) -> None:
        self._live = live
        self._systemd = systemd
        self._tasks: set[asyncio.Task[None]] = set()

    def request(self) -> None:
        """Called by the event loop. One that waits already reads what is written by then, so there is one at most."""
        if len(self._tasks) > 1:
            return
        task = asyncio.create_task(self._reload())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Stop what is under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _reload(self) -> None:
        log = structlog.get_logger()
        self._systemd.reloading()
        try:
            done = await self._live.reload()
        except ForgeError as error:
            log.warning("not reloaded", error=error.summary)
        else:
            log.info("reloaded", applied=done.applied, needs_restart=done.needs_restart)
        finally:
            self._systemd.ready("the settings were read again")


def _with_keys_of(written: ServerConfig, held: ServerConfig) -> ServerConfig:
    """What holds of the server, with the keys that are written now. Raises `ServerConfigError`."""
    server = held.model_copy(update={name: getattr(written, name) for name in _KEYS})
    if not (read_keys(server) or server.allow_public_without_keys or is_private(server.host)):
        raise ServerConfigError(
            f"server.host {server.host} is reached by other machines, and there would be no server.api_keys any more"
        )
    return server


def _changed(before: dict[str, Any], after: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """The dotted names of settings that differ."""
    for name in {**before, **after}:  # of what is named by the user, as models are, there may be more or fewer
        old, value = before.get(name), after.get(name)
        if isinstance(value, dict) and isinstance(old, dict):
            yield from _changed(old, value, f"{prefix}{name}.")  # pyright: ignore[reportUnknownArgumentType]
        elif value != old:
            yield prefix + name
