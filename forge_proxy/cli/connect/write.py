"""A client's files: shown as text, or merged into what is there, with a copy of that beside it."""

from __future__ import annotations

import json
import os
import re
import tomllib
from pathlib import Path
from typing import Any, cast

import yaml

from forge_proxy.cli.connect.clients import File, JsonDict
from forge_proxy.core.errors import ForgeError

_TABLE = re.compile(r"^\s*\[", re.MULTILINE)


class CannotWrite(ForgeError):
    """A client's file cannot be read, merged or written; it was left as it is."""


def as_text(file: File, values: JsonDict | None = None) -> str:
    """What the file holds."""
    values = file.values if values is None else values
    match file.format:
        case "json":
            return json.dumps(values, indent=2, ensure_ascii=False) + "\n"
        case "yaml":
            return yaml.safe_dump(values, sort_keys=False, allow_unicode=True)
        case "toml":
            return _as_toml(values)


def write(file: File, home: Path) -> tuple[Path, Path | None]:
    """Merge into the file below `home`; says which it was, and where what it held before is kept.

    Raises `CannotWrite`.
    """
    path = home / file.path.removeprefix("~/")
    try:
        old = path.read_text(encoding="utf-8") if path.exists() else None
        new = as_text(file) if old is None else _merged(file, old)
        backup = None
        if old is not None:
            backup = _free_name(path)
            backup.write_text(old, encoding="utf-8")
            backup.chmod(path.stat().st_mode & 0o777)
        _replace(path, new)
    except (OSError, UnicodeDecodeError) as exc:
        raise CannotWrite(f"{path}: {(exc.strerror if isinstance(exc, OSError) else None) or exc}") from exc
    except (ValueError, yaml.YAMLError) as exc:
        raise CannotWrite(f"{path} cannot be merged into ({' '.join(str(exc).split())}); it was left as it is") from exc
    return path, backup


def _merged(file: File, old: str) -> str:
    if file.format == "toml":
        return _merged_toml(old, file.values)
    held: Any = yaml.safe_load(old) if file.format == "yaml" else json.loads(old or "{}")
    if held is None:
        held = {}
    if not isinstance(held, dict):
        raise ValueError("it holds no object")  # noqa: TRY004  one kind of fault with those of the parsers
    return as_text(file, _merge(cast("JsonDict", held), file.values))


def _merge(held: JsonDict, ours: JsonDict) -> JsonDict:
    """What is held, with ours in it: objects are merged, in lists the entry of the same name is replaced."""
    merged = dict(held)
    for key, value in ours.items():
        there = held.get(key)
        if isinstance(value, dict) and isinstance(there, dict):
            merged[key] = _merge(cast("JsonDict", there), cast("JsonDict", value))
        elif isinstance(value, list) and isinstance(there, list):
            entries, own = cast("list[Any]", there), cast("list[Any]", value)
            names = [entry["name"] for entry in own]
            merged[key] = [one for one in entries if not (isinstance(one, dict) and one.get("name") in names)] + own  # pyright: ignore[reportUnknownMemberType]
        elif key in ("name", "version", "schema", "$schema") and there is not None:
            continue  # what a file calls itself
        else:
            merged[key] = value
    return merged


def _merged_toml(old: str, ours: JsonDict) -> str:
    """The text with our keys before its first table, and our tables at its end. Comments stay where they are."""
    tomllib.loads(old)
    simple = {key: value for key, value in ours.items() if not isinstance(value, dict)}
    first = _TABLE.search(old)
    head, rest = (old[: first.start()], old[first.start() :]) if first else (old, "")
    for key in simple:
        head = re.sub(rf"^\s*{re.escape(key)}\s*=.*\n?", "", head, flags=re.MULTILINE)
    for table in _tables(ours):
        rest = re.sub(rf"^\s*\[{re.escape(table)}\][^\n]*\n(?:(?!\s*\[)[^\n]*\n?)*", "", rest, flags=re.MULTILINE)
    tables = _as_toml({key: value for key, value in ours.items() if key not in simple})
    merged = f"{_as_toml(simple)}{head}{rest.rstrip()}\n\n{tables}".lstrip("\n")
    tomllib.loads(merged)  # a key of several lines was cut in two
    return merged


def _tables(values: JsonDict) -> list[str]:
    return [
        f"{key}.{name}" for key, value in values.items() if isinstance(value, dict) for name in cast("JsonDict", value)
    ]


def _as_toml(values: JsonDict) -> str:
    """Keys and values, then tables of tables: as deep as Codex has them."""
    lines = [f"{key} = {json.dumps(value)}" for key, value in values.items() if not isinstance(value, dict)]
    for key, value in values.items():
        if isinstance(value, dict):
            for name, table in cast("dict[str, JsonDict]", value).items():
                lines += ["", f"[{key}.{name}]", *(f"{one} = {json.dumps(inner)}" for one, inner in table.items())]
    return "\n".join(lines).lstrip("\n") + "\n" if lines else ""


def _free_name(path: Path) -> Path:
    names = (path.with_name(f"{path.name}.before-forge{number or ''}") for number in range(1000))
    return next(name for name in names if not name.exists())


def _replace(path: Path, text: str) -> None:
    """Write beside it first: what is there is replaced as a whole. A new file is for its owner alone: it has a key."""
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.touch(mode=0o600)
    beside.write_text(text, encoding="utf-8")
    beside.chmod(mode)
    beside.replace(path)
