"""Rejects settings that prevent the daemon from starting. Used by `serve`, `check` and `config check`."""

from __future__ import annotations

from importlib.util import find_spec

from forge_proxy.api.auth import KeyRing
from forge_proxy.api.server import resolve_address
from forge_proxy.backends.chat_templates.files import TemplateFileError, read_template_file
from forge_proxy.backends.selection import refuse_contradictions, refuse_missing_program
from forge_proxy.settings import Settings
from forge_proxy.settings.errors import SettingsError
from forge_proxy.store.config import POSTGRES


def refuse_unusable(settings: Settings) -> None:
    """Raise an error if a daemon cannot start with these settings.

    Raises `BackendChoiceError`, `ServerConfigError`, `CannotListen` or `SettingsError`.
    """
    refuse_contradictions(settings.backend, settings.models)
    refuse_missing_program(settings.backend, settings.models)
    if (template := settings.backend.chat_template) is not None:
        try:
            read_template_file(template)
        except TemplateFileError as error:
            raise SettingsError(f"backend.chat_template {error}") from error
    resolve_address(settings.server)
    KeyRing(settings.server)  # reads the key files
    if (settings.store.url or "").startswith(POSTGRES) and find_spec("asyncpg") is None:
        raise SettingsError("store.url: PostgreSQL needs a driver: pip install 'forge-proxy[postgres]'")
    _refuse_temporal(settings)


def _refuse_temporal(settings: Settings) -> None:
    jobs = settings.jobs
    if jobs.scheduler != "temporal":
        return
    if not (settings.store.url or "").startswith(POSTGRES):
        raise SettingsError(
            f"jobs.scheduler: temporal needs a PostgreSQL database; set store.url to {POSTGRES}://user@host/name"
        )
    if find_spec("temporalio") is None:
        raise SettingsError("jobs.scheduler: temporal needs a package: pip install 'forge-proxy[temporal]'")
    key_file = jobs.temporal.api_key_file
    if key_file is not None and not jobs.temporal.tls:
        raise SettingsError("jobs.temporal.api_key_file: an API key needs TLS; set jobs.temporal.tls to true")
    if key_file is not None and not key_file.is_file():
        raise SettingsError(f"jobs.temporal.api_key_file: file not found: {key_file}")
