"""The settings error."""

from __future__ import annotations

from forge_proxy.core.errors import ForgeError


class SettingsError(ForgeError):
    """The settings are invalid. The message has one line per fault, naming the setting and the remedy."""
