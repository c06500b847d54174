"""`/admin/v1/config` and `/admin/v1/reload`: the settings that hold, and reading them again."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from forge_proxy.api.admin.ports import Configuration


class ReloadedNow(BaseModel):
    """What reading the settings again came to."""

    applied: list[str] = Field(description="Settings that have another value now.")
    needs_restart: list[str] = Field(description="Settings that were changed and count from the next start on.")


class SettingsDesk:
    """The endpoints."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    async def read(self) -> dict[str, Any]:
        """All settings as they hold now, those changed since the start among them. Secrets are masked."""
        return dict(self._configuration.shown())

    async def reload(self) -> ReloadedNow:
        """Read file and environment again: what can be changed is, and what was changed by this API goes back to them.

        A mistake in them is a 400, and then nothing is changed. SIGHUP does the same.
        """
        done = await self._configuration.reload()
        return ReloadedNow(applied=list(done.applied), needs_restart=list(done.needs_restart))
