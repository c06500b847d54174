"""`/admin/v1/config` and `/admin/v1/reload`: the settings in force, and reloading them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from forge_proxy.api.admin.ports import LiveConfiguration


class ReloadInfo(BaseModel):
    """The result of a reload."""

    applied: list[str] = Field(description="The settings that changed.")
    needs_restart: list[str] = Field(description="The settings that changed and apply after a restart.")


class SettingsEndpoints:
    """The endpoints of `/config` and `/reload`."""

    def __init__(self, configuration: LiveConfiguration) -> None:
        self._configuration = configuration

    async def read(self) -> dict[str, Any]:
        """Show all current settings, including changes since the start. Secrets are masked."""
        return dict(self._configuration.to_json())

    async def reload(self) -> ReloadInfo:
        """Reload file and environment, and apply what can change without a restart. Changes by this API are undone.

        If the settings are wrong, the response is a 400 and nothing is changed. SIGHUP does the same.
        """
        result = await self._configuration.reload()
        return ReloadInfo(applied=list(result.applied), needs_restart=list(result.needs_restart))
