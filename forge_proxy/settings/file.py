"""Finds a settings file, parses it as YAML and expands `${env.NAME}`. Error messages never quote lines of the file.

Files are rejected if they are larger than 1 MB, set a key twice, or expand by aliases to more than 100,000 values.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from platformdirs.unix import Unix

from forge_proxy.settings.errors import SettingsError

VARIABLE = "FORGE_PROXY_CONFIG"
"""Environment variable with the path of the settings file, used if the command line sets none."""
_MAX_BYTES = 1024 * 1024
_MAX_VALUES = 100_000
_MAX_DEPTH = 50
_REFERENCE = re.compile(r"\$(\$?)\{([^}]*)\}")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_QUOTABLE = re.compile(r"""['"](?:<[a-z ]+>|\\?[^\w\s])['"]""")
"""Text that a YAML error may quote: a token type, or a single punctuation character."""


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A settings file: its sections, and the names of expanded environment variables by the path of the value."""

    path: Path
    sections: Mapping[str, Any]
    expanded: Mapping[str, str] = field(default_factory=dict[str, str])


def find_file(named: Path | None) -> Path | None:
    """Return the file to read: `named`, else `FORGE_PROXY_CONFIG`, else `forge-proxy/config.yaml` in
    `$XDG_CONFIG_HOME` (default `~/.config`, also on macOS) if it exists.
    """
    if named is not None:
        return named
    if path := os.environ.get(VARIABLE):
        return Path(path)
    try:
        usual = Unix("forge-proxy").user_config_path / "config.yaml"
        return usual if usual.is_file() else None
    except (OSError, RuntimeError):  # no home directory, or no permission to read it
        return None


def read_file(path: Path, environment: Mapping[str, str] = os.environ) -> SettingsFile:
    """Read a file. Raises `SettingsError`."""
    parsed = _parse(path, _read_text(path))
    if parsed is None:
        return SettingsFile(path, {})
    if not isinstance(parsed, dict):
        raise SettingsError(f"{path}: expected sections such as 'server:' and 'backend:'")
    expansion = _Expansion(path, environment)
    sections = expansion.expand(parsed, ())
    if expansion.faults:
        raise SettingsError("\n".join(f"{path}: {fault}" for fault in expansion.faults))
    return SettingsFile(
        path, {str(key): value for key, value in sections.items() if value is not None}, expansion.expanded
    )


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            read = file.read(_MAX_BYTES + 1)
    except IsADirectoryError as exc:
        raise SettingsError(f"{path}: is a folder; name the settings file in it") from exc
    except (OSError, ValueError) as exc:
        raise SettingsError(f"{path}: {getattr(exc, 'strerror', None) or 'not a file name'}") from exc
    if len(read) > _MAX_BYTES:
        raise SettingsError(f"{path}: larger than 1 MB: not a settings file")
    try:
        text = read.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise SettingsError(f"{path}: a binary file, not settings in YAML (UTF-8)") from None
    return text


def _parse(path: Path, text: str) -> object:
    try:
        return yaml.load(text, _Loader)  # noqa: S506  # a subclass of SafeLoader
    except yaml.YAMLError as exc:
        mark = getattr(exc, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise SettingsError(f"{path}: {where}{_describe(exc)}") from None  # str(exc) quotes lines of the file
    except RecursionError:
        raise SettingsError(f"{path}: nested too deeply") from None
    except ValueError:  # an impossible date or number
        raise SettingsError(f"{path}: not YAML: a value looks like a date or number but is invalid; quote it") from None


def _describe(error: yaml.YAMLError) -> str:
    """Describe a YAML error without quoting the file."""
    if isinstance(error, _DuplicateKey):
        return str(error.problem)
    problem = str(getattr(error, "problem", None) or "a character that is not allowed")
    if r"'\t'" in problem:
        return "not YAML: a tab; indent with spaces"
    redacted = _QUOTED.sub(lambda quoted: quoted[0] if _QUOTABLE.fullmatch(quoted[0]) else "...", problem)
    return f"not YAML: {redacted}"


class _DuplicateKey(yaml.MarkedYAMLError):
    """A duplicate key in one mapping. YAML forbids it; PyYAML keeps the last value."""


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader that rejects duplicate keys."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Raise an error if a mapping sets a key twice."""
        node = super().compose_mapping_node(anchor)
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and not key.tag.endswith(":merge"):
                if key.value in seen:
                    raise _DuplicateKey(problem=f"{key.value} is set twice", problem_mark=key.start_mark)
                seen.add(key.value)
        return node


class _Expansion:
    """Expands `${env.NAME}` in the values of a file. The number of values is limited, because aliases multiply them."""

    def __init__(self, path: Path, environment: Mapping[str, str]) -> None:
        self._path = path
        self._environment = environment
        self._left = _MAX_VALUES
        self.faults: list[str] = []
        self.expanded: dict[str, str] = {}

    def expand(self, value: Any, at: tuple[str, ...]) -> Any:
        """Return the value with its references replaced, and add invalid references to `faults`.

        Raises `SettingsError` if there are too many values or they are nested too deeply.
        """
        self._left -= 1
        if self._left < 0 or len(at) > _MAX_DEPTH:
            raise SettingsError(
                f"{self._path}: too many or too deeply nested values, perhaps by aliases (&name, *name)"
            )
        if isinstance(value, dict):
            return {key: self.expand(inner, (*at, str(key))) for key, inner in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        if isinstance(value, list):
            return [self.expand(inner, (*at, str(index))) for index, inner in enumerate(value)]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        if isinstance(value, str) and "${" in value:
            return _REFERENCE.sub(lambda found: self._resolve(found, ".".join(at)), value)
        return value

    def _resolve(self, found: re.Match[str], at: str) -> str:
        escaped, inner = found.groups()
        if escaped:
            return f"${{{inner}}}"
        if not inner.startswith("env."):
            name = inner if re.fullmatch(r"[A-Za-z_]\w*", inner) else "NAME"
            self.faults.append(
                f"{at}: ${{{name}}} is not expanded here; write ${{env.{name}}} for the environment variable, or "
                f"$${{{name}}} for the literal text"
            )
            return ""
        name = inner.removeprefix("env.")
        value = self._environment.get(name)
        if value is None:
            self.faults.append(f"{at}: ${{env.{name}}}: the environment variable {name} is not set")
            return ""
        self.expanded[at] = name
        return value
