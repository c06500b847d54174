"""Reads a settings file: finds it, parses it as YAML, expands `${env.NAME}`. No message quotes a line of it.

A file is refused if it is larger than a settings file can be, if it sets a key twice, or if its aliases multiply it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from forge_proxy.settings.errors import SettingsError

VARIABLE = "FORGE_PROXY_CONFIG"
"""Names the settings file if the command line does not."""
_MAX_BYTES = 1024 * 1024
_MAX_VALUES = 100_000
_MAX_DEPTH = 50
_REFERENCE = re.compile(r"\$(\$?)\{([^}]*)\}")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_SHOWN = re.compile(r"""['"](?:<[a-z ]+>|\\?[^\w\s])['"]""")
"""What a YAML error may quote: a kind of token, or a single character that is no letter."""


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A settings file: its sections, and the environment variables that were expanded, by the path of the value."""

    path: Path
    sections: Mapping[str, Any]
    expanded: Mapping[str, str] = field(default_factory=dict[str, str])


def find_file(named: Path | None, environment: Mapping[str, str]) -> Path | None:
    """The file to read: the one that is named, else that of `FORGE_PROXY_CONFIG`, else `forge-proxy/config.yaml` in
    `$XDG_CONFIG_HOME` (~/.config), if it is there.
    """
    if named is not None:
        return named
    if told := environment.get(VARIABLE):
        return Path(told)
    folder = environment.get("XDG_CONFIG_HOME", "")
    try:
        usual = (Path(folder) if folder.startswith("/") else Path.home() / ".config") / "forge-proxy" / "config.yaml"
        return usual if usual.is_file() else None
    except (OSError, RuntimeError):  # there is no home, or it cannot be looked into
        return None


def read_file(path: Path, environment: Mapping[str, str] = os.environ) -> SettingsFile:
    """Read a file. Raises `SettingsError`."""
    written = _parse(path, _read_text(path))
    if written is None:
        return SettingsFile(path, {})
    if not isinstance(written, dict):
        raise SettingsError(f"{path}: expected sections such as 'server:' and 'backend:'")
    expansion = _Expansion(path, environment)
    sections = expansion.expand(written, ())
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
        return yaml.load(text, _Loader)  # noqa: S506  # a safe one
    except yaml.YAMLError as exc:
        mark = getattr(exc, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise SettingsError(f"{path}: {where}{_describe(exc)}") from None  # its text quotes the lines
    except RecursionError:
        raise SettingsError(f"{path}: nested too deeply") from None
    except ValueError:  # a date or a number that there is not
        raise SettingsError(f"{path}: not YAML: a value looks like a date or number and is none; quote it") from None


def _describe(error: yaml.YAMLError) -> str:
    """What is wrong, without words of the file."""
    if isinstance(error, _SetTwice):
        return str(error.problem)
    problem = str(getattr(error, "problem", None) or "a character that is not allowed")
    if r"'\t'" in problem:
        return "not YAML: a tab; indent with spaces"
    shown = _QUOTED.sub(lambda quoted: quoted[0] if _SHOWN.fullmatch(quoted[0]) else "...", problem)
    return f"not YAML: {shown}"


class _SetTwice(yaml.MarkedYAMLError):
    """A key that stands twice in one mapping: YAML forbids it, and PyYAML takes the last."""


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, which refuses duplicate keys."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Refuse a mapping that sets a key twice."""
        node = super().compose_mapping_node(anchor)
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and not key.tag.endswith(":merge"):
                if key.value in seen:
                    raise _SetTwice(problem=f"{key.value} is set twice", problem_mark=key.start_mark)
                seen.add(key.value)
        return node


class _Expansion:
    """Expands `${env.NAME}` in the values of a file, with a bound on their number: an alias costs nothing to write."""

    def __init__(self, path: Path, environment: Mapping[str, str]) -> None:
        self._path = path
        self._environment = environment
        self._left = _MAX_VALUES
        self.faults: list[str] = []
        self.expanded: dict[str, str] = {}

    def expand(self, value: Any, at: tuple[str, ...]) -> Any:
        """The value with its references replaced; what is wrong with them goes to `faults`. Raises `SettingsError`."""
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
            shown = inner if re.fullmatch(r"[A-Za-z_]\w*", inner) else "NAME"
            self.faults.append(
                f"{at}: ${{{shown}}} is not expanded here; write ${{env.{shown}}} for the environment variable, or "
                f"$${{{shown}}} for the characters themselves"
            )
            return ""
        name = inner.removeprefix("env.")
        value = self._environment.get(name)
        if value is None:
            self.faults.append(f"{at}: ${{env.{name}}}: the environment variable {name} is not set")
            return ""
        self.expanded[at] = name
        return value
