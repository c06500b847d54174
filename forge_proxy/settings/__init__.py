"""The complete settings tree, composed of the sections that each package defines.

Precedence: command line, environment (`FORGE_PROXY_SERVER__PORT=9000`), YAML file, defaults. Unknown names in the file
or in the environment are rejected with a suggestion. Error messages never contain a value that may be secret.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from json import loads
from pathlib import Path
from typing import Any, get_origin

from pydantic import BaseModel, Field, ValidationError
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from forge_proxy.api.config import ServerConfig
from forge_proxy.backends.catalog import ModelEntries
from forge_proxy.backends.config import BackendConfig
from forge_proxy.batches.config import BatchesConfig, FilesConfig
from forge_proxy.core.budget import BudgetPolicy
from forge_proxy.core.compaction.policy import CompactionPolicy
from forge_proxy.core.deprecation import RenamedFields, describe_rename
from forge_proxy.core.guardrails import GuardPolicy
from forge_proxy.core.sampling import SamplingPolicy
from forge_proxy.core.validation import describe_fault, iter_fields, suggest_name
from forge_proxy.jobs.config import JobsConfig
from forge_proxy.settings.errors import SettingsError as SettingsError
from forge_proxy.settings.file import VARIABLE, SettingsFile, read_file
from forge_proxy.settings.former_names import rename_settings
from forge_proxy.store.config import StoreConfig
from forge_proxy.tasks.config import TasksConfig, TiersConfig
from forge_proxy.telemetry.config import LedgerConfig, LogConfig, TelemetryConfig
from forge_proxy.tools.config import ToolSettings
from forge_proxy.workflows.runs.config import RunsConfig

PREFIX = "FORGE_PROXY_"
_NESTED = "__"
_COMMAND_VARIABLES = {f"{PREFIX}URL", f"{PREFIX}KEY", VARIABLE}
"""Variables that CLI commands read to locate a daemon or the settings file. They are not settings."""
_QUOTABLE_TYPES = (
    "literal_error",
    "int_",
    "float_",
    "bool_",
    "finite_number",
    "greater_than",
    "less_than",
    "multiple_of",
)
"""Pydantic error types for numbers, switches and literals, whose input is never secret. All other errors name only the
setting.
"""
_QUOTABLE = re.compile(r"-?\d{1,9}(?:\.\d{1,9})?|[A-Za-z_-]{1,12}")
"""Input that such an error may quote: a number or a short word, but not an API key set in the wrong place."""


_NO_SECTION = "expected a section with settings in it"
_NO_VARIABLES: Mapping[str, str] = {}


class Settings(BaseSettings):
    """The whole configuration."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter=_NESTED,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        nested_model_default_partial_update=True,
    )

    server: ServerConfig = Field(default_factory=ServerConfig)
    backend: BackendConfig = Field(default_factory=BackendConfig)
    models: ModelEntries = Field(default_factory=dict, description="Models by name. If empty, the backend's own model.")
    budget: BudgetPolicy = Field(default_factory=BudgetPolicy)
    compaction: CompactionPolicy = Field(default_factory=CompactionPolicy)
    sampling: SamplingPolicy = Field(default_factory=SamplingPolicy)
    guardrails: GuardPolicy = Field(default_factory=GuardPolicy)
    jobs: JobsConfig = Field(default_factory=JobsConfig)
    runs: RunsConfig = Field(default_factory=RunsConfig)
    batches: BatchesConfig = Field(default_factory=BatchesConfig)
    tasks: TasksConfig = Field(default_factory=TasksConfig)
    tiers: TiersConfig = Field(default_factory=TiersConfig)
    files: FilesConfig = Field(default_factory=FilesConfig)
    store: StoreConfig = Field(default_factory=StoreConfig)
    tools: ToolSettings = Field(default_factory=ToolSettings, description="How the tools of runs are executed.")
    telemetry: TelemetryConfig = Field(default_factory=TelemetryConfig)
    ledger: LedgerConfig = Field(default_factory=LedgerConfig)
    log: LogConfig = Field(default_factory=LogConfig)


def load(file: Path | None, overrides: Mapping[str, Any]) -> Settings:
    """Load the settings from a YAML file, the environment and the command line (`overrides`, a nested mapping).

    Raises `SettingsError`.
    """
    read = read_file(file) if file else SettingsFile(Path(), {})
    if faults := [f"{file}: {path}: {_NO_SECTION}" for path in _values_for_sections(read.sections)]:
        raise SettingsError("\n".join(faults))
    _refuse_unknown_variables()
    present = rename_settings(read.sections, former_names(), str(file))
    return _build(overrides, replace(read, sections=present))


def build_settings(values: Mapping[str, Any]) -> Settings:
    """Build settings from nested values and defaults, without reading a file or the environment.

    Raises `SettingsError`.
    """
    return _build(values)


def given(values: Mapping[str, Any]) -> Settings:
    """The former name of `build_settings`; deprecated."""
    warnings.warn(describe_rename("settings.given", "build_settings"), DeprecationWarning, stacklevel=2)
    return build_settings(values)


def _build(values: Mapping[str, Any], file: SettingsFile | None = None) -> Settings:
    """Build the settings: `values` over environment and file or, without a file, from `values` only."""
    sections: Mapping[str, Any] = file.sections if file else {}

    class Sourced(Settings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            if file is None:
                return (init_settings,)
            variables = rename_settings(env_settings(), former_names(), "environment")
            return (
                init_settings,
                InitSettingsSource(settings_cls, variables),
                InitSettingsSource(settings_cls, dict(sections)),
            )

    try:
        return Sourced(**dict(values))
    except ValidationError as exc:
        faults = [
            (error["loc"], _describe_error(error, file.expanded if file else _NO_VARIABLES)) for error in exc.errors()
        ]
        raise SettingsError(
            "\n".join(
                f"{file.path}: {fault}" if file and _set_by(sections, values, at) else fault for at, fault in faults
            )
        ) from exc
    except ValueError as exc:  # an environment variable that must be JSON and is not
        raise SettingsError("\n".join(_json_variable_faults()) or str(exc)) from exc


def set_by_file(file: Path | None, overrides: Mapping[str, Any], section: str) -> bool:
    """Return whether the file sets a section and neither the command line nor the environment does."""
    return file is not None and _set_by(read_file(file).sections, overrides, (section,))


def names(model: type[BaseModel] = Settings, prefix: str = "") -> list[str]:
    """Return the dotted paths of all settings, including sections."""
    return [path for path, _ in iter_fields(model, prefix)]


def former_names(model: type[BaseModel] = Settings, prefix: str = "") -> dict[str, str]:
    """Return the former dotted paths of settings, each with the current one."""
    paths: dict[str, str] = {}
    if issubclass(model, RenamedFields):
        paths = {prefix + old: prefix + present for old, present in model.former_names.items()}
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            paths |= former_names(field.annotation, f"{prefix}{field.alias or name}.")
    return paths


def _values_for_sections(sections: Mapping[str, Any]) -> Iterator[str]:
    """Yield the sections that a file sets to a scalar, which an option or variable of the section would replace."""
    for path, field in iter_fields(Settings):
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            *outer, name = path.split(".")
            inside = _find_value(sections, outer)
            if isinstance(inside, Mapping) and not isinstance(inside.get(name) or {}, Mapping):  # pyright: ignore[reportUnknownMemberType]
                yield path


def _find_value(values: object, at: Sequence[str]) -> object:
    for key in at:
        values = values.get(key) if isinstance(values, Mapping) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return values  # pyright: ignore[reportUnknownVariableType]


def _json_variable_faults() -> Iterator[str]:
    """Yield a message for each invalid JSON variable: sections, objects, and lists without comma syntax."""
    for name, field in iter_fields(Settings):
        variable, kind = _variable(name), field.annotation
        is_section = isinstance(kind, type) and issubclass(kind, BaseModel)
        is_list = get_origin(kind) is list
        if not (is_section or is_list or get_origin(kind) is dict) or NoDecode in field.metadata:
            continue
        text = next((value for key, value in os.environ.items() if key.upper() == variable), None)
        try:
            loads(text or "{}")
        except ValueError:
            expected = 'a JSON list, such as ["--mlock"]' if is_list else "a JSON object"
            yield f"{variable}: expected {expected}{', or a variable for each setting' if is_section else ''}"


def _set_by(sections: Mapping[str, Any], overrides: Mapping[str, Any], at: Sequence[str | int]) -> bool:
    """Return whether the value at a path comes from the file: the file sets it and no other source overrides it."""
    if not _contains(sections, at) or _contains(overrides, at):
        return False
    variable = _variable(".".join(map(str, at)))
    variables = [name.upper() for name in os.environ if name.upper().startswith(PREFIX)]
    return not any(_covers(name, variable) or _covers(variable, name) for name in variables)


def _covers(outer: str, inner: str) -> bool:
    return inner == outer or inner.startswith(outer + _NESTED)


def _contains(values: object, at: Sequence[str | int]) -> bool:
    """Return whether nested values contain the path, or a scalar at one of its parents."""
    for key in at:
        if not isinstance(values, Mapping):
            return True
        if key not in values:
            return False
        values = values[key]  # pyright: ignore[reportUnknownVariableType]
    return True


def _refuse_unknown_variables() -> None:
    variables = {_variable(name) for name in (*names(), *former_names())} | _COMMAND_VARIABLES
    unknown = [name for name in os.environ if name.startswith(PREFIX) and name.upper() not in variables]
    if unknown:
        raise SettingsError(
            "\n".join(
                f"{name}: no such setting{suggest_name(name.upper(), variables, prefix=PREFIX, separator=_NESTED)}"
                for name in sorted(unknown)
            )
        )


def _variable(name: str) -> str:
    return PREFIX + name.replace(".", _NESTED).upper()


def _describe_error(error: Any, expanded: Mapping[str, str] = _NO_VARIABLES) -> str:  # `Any`: pydantic's ErrorDetails
    path = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        return f"{path}: no such setting{suggest_name(path, names())}"
    if error["type"] == "model_type":
        return f"{path}: {_NO_SECTION}"
    fault = f"{path}: {describe_fault(error)}"
    if error["type"] in ("bool_parsing", "bool_type"):
        fault = f"{path}: expected on or off"
    if path in expanded:
        return f"{fault} (the value of ${{env.{expanded[path]}}})"
    is_shown = error["type"].startswith(_QUOTABLE_TYPES) and _QUOTABLE.fullmatch(str(error["input"]))
    return f"{fault} (got {error['input']!r})" if is_shown else fault
