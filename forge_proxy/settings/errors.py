"""The error of settings that cannot be used."""

from __future__ import annotations

from forge_proxy.core.errors import ForgeError


class SettingsError(ForgeError):
    """The settings cannot be used; the message names the setting and says what to do, a line for each fault."""
