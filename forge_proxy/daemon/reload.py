"""The effective settings, and their reload while requests are served (`/admin/v1/reload`, SIGHUP)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import structlog

from forge_proxy.api.admin.ports import ReloadResult, WrongSettings
from forge_proxy.api.auth import AcceptedKeys, KeyRing, read_accepted_keys
from forge_proxy.api.config import ServerConfig, ServerConfigError
from forge_proxy.api.origins import is_private
from forge_proxy.core.errors import ForgeError
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.shielded_tasks import ShieldedTasks
from forge_proxy.settings import Settings, SettingsError
from forge_proxy.settings.masking import mask_secrets
from forge_proxy.telemetry.systemd import Systemd

_KEYS = ("api_keys", "api_keys_file", "admin_keys", "admin_keys_file", "allow_public_without_keys")
_LIVE = ("guardrails.", "budget.", "compaction.", "sampling.", *(f"server.{name}" for name in _KEYS))


class LiveSettings:
    """`api.admin.ports.LiveConfiguration`: the only writer of reloadable settings.

    `read` loads file, environment and command line.
    """

    def __init__(
        self,
        settings: Settings,
        read: Callable[[], Settings],
        engine: Engine,
        keys: KeyRing,
    ) -> None:
        self._started_with = settings
        self._read = read
        self._engine = engine
        self._keys = keys
        self._one_at_a_time = asyncio.Lock()
        self._changes = ShieldedTasks()

    @property
    def now(self) -> Settings:
        """The effective settings, including changes since the start."""
        policies = self._engine.policies
        return self._started_with.model_copy(
            update={
                "guardrails": policies.guardrails,
                "budget": policies.budget,
                "compaction": policies.compaction,
                "sampling": policies.sampling,
            }
        )

    def to_json(self) -> JsonObject:
        """See `api.admin.ports.LiveConfiguration`."""
        return mask_secrets(self.now)

    async def reload(self) -> ReloadResult:
        """See `api.admin.ports.LiveConfiguration`. Changes made by the admin API are discarded.

        Raises `WrongSettings`, or `BudgetUnchanged` if the model server cannot have the new window; both leave the
        settings as they were. Cancelling this call does not cancel the reload.
        """
        return await self._changes.run(self._reload())

    async def _reload(self) -> ReloadResult:
        async with self._one_at_a_time:
            before = self.now
            try:
                loaded = await asyncio.to_thread(self._read)
                server, keys = await asyncio.to_thread(_read_keys, loaded.server, before.server)
            except (SettingsError, ServerConfigError) as exc:
                raise WrongSettings(str(exc)) from exc
            await self._engine.apply(
                guardrails=loaded.guardrails,
                budget=loaded.budget if loaded.budget != before.budget else None,
                compaction=loaded.compaction,
                sampling=loaded.sampling,
            )
            self._keys.replace(keys)
            self._started_with = self._started_with.model_copy(update={"server": server})
            await self._engine.budgets.of()  # logs a new budget
            changed = list(_changed(before.model_dump(), loaded.model_dump()))
        applied = tuple(name for name in changed if name.startswith(_LIVE))
        return ReloadResult(applied, tuple(name for name in changed if not name.startswith(_LIVE)))


class SettingsReloader:
    """Reloads the settings on SIGHUP, one reload at a time, and logs the result."""

    def __init__(self, live: LiveSettings, systemd: Systemd) -> None:
        self._live = live
        self._systemd = systemd
        self._tasks: set[asyncio.Task[None]] = set()

    def request(self) -> None:
        """Request a reload; called by the event loop. At most one waits: it will read the latest file anyway."""
        if len(self._tasks) > 1:
            return
        task = asyncio.create_task(self._reload())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Cancel running reloads."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _reload(self) -> None:
        log = structlog.get_logger()
        self._systemd.notify_reloading()
        try:
            done = await self._live.reload()
        except ForgeError as error:
            log.warning("not reloaded", error=error.summary)
        else:
            log.info("reloaded", applied=done.applied, needs_restart=done.needs_restart)
        finally:
            self._systemd.notify_ready("settings reloaded")


def _read_keys(loaded: ServerConfig, current: ServerConfig) -> tuple[ServerConfig, AcceptedKeys]:
    """Return the current server settings with the API keys of the loaded ones, and these keys.

    Raises `ServerConfigError`.
    """
    server = current.model_copy(update={name: getattr(loaded, name) for name in _KEYS})
    keys = read_accepted_keys(server)
    if not (keys.api or server.allow_public_without_keys or is_private(server.host)):
        raise ServerConfigError(
            f"server.host {server.host} is reachable from other machines, and the new settings have no server.api_keys"
        )
    return server, keys


def _changed(before: dict[str, Any], after: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the dotted names of settings that differ."""
    for name in {**before, **after}:  # keys that the user chooses, such as models, may be added or removed
        old, value = before.get(name), after.get(name)
        if isinstance(value, dict) and isinstance(old, dict):
            yield from _changed(old, value, f"{prefix}{name}.")  # pyright: ignore[reportUnknownArgumentType]
        elif value != old:
            yield prefix + name
