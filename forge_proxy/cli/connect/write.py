"""Merges values into the files of a client, keeps copies of the old files, and restores them."""

from __future__ import annotations

import os
import re
import tempfile
import tomllib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import yaml

from forge_proxy.cli.connect.clients import ClientConfigFile, JsonDict
from forge_proxy.cli.connect.jsonc import edit_jsonc, read_jsonc
from forge_proxy.cli.connect.text import as_text, as_toml
from forge_proxy.core.errors import ForgeError

_TABLE = re.compile(r"^\s*\[", re.MULTILINE)
_COPY = ".before-forge"
_NO_FILE = "forge-proxy connect --write created the file; --undo removes it.\n"
"""The content of the copy if the file did not exist."""


class CannotWrite(ForgeError):
    """A file of a client cannot be read, merged or written; it is unchanged."""


def write(file: ClientConfigFile, home: Path) -> tuple[Path, Path | None]:
    """Merge into the file below `home`. Returns its path and the path of the copy of its old content.

    The copy is None if the file is new or already contains the values.

    Raises `CannotWrite`.
    """
    path = path_of(file, home)
    with _faults_named(path):
        old = path.read_bytes().decode() if path.exists() else None
        new = as_text(file) if old is None else _merge_text(file, old)
        if new == old:
            return path, None
        copy = path.with_name(f"{path.name}{_COPY}{max(_numbers_of_copies(path), default=-1) + 1 or ''}")
        _replace(copy, _NO_FILE if old is None else old, path.stat().st_mode & 0o777 if old is not None else 0o600)
        try:
            _replace(path, new)
        except OSError:
            copy.unlink(missing_ok=True)
            raise
        return path, copy if old is not None else None


def restore(file: ClientConfigFile, home: Path) -> Path | None:
    """Replace the file by its latest copy and delete the copy, or remove a file that `write` created.

    Returns its path; None if there is no copy.

    Raises `CannotWrite`.
    """
    path = path_of(file, home)
    with _faults_named(path):
        numbers = _numbers_of_copies(path)
        if not numbers:
            return None
        copy = path.with_name(f"{path.name}{_COPY}{max(numbers) or ''}")
        text = copy.read_bytes().decode()
        if text == _NO_FILE:
            path.unlink(missing_ok=True)
        else:
            _replace(path, text, copy.stat().st_mode & 0o777)
        copy.unlink()
    return path


def path_of(file: ClientConfigFile, home: Path) -> Path:
    """Return the first path of the file that exists, else its default path."""
    names = [home / name.removeprefix("~/") for name in (file.path, *file.other_paths)]
    return next((path for path in names if path.exists() or _numbers_of_copies(path)), names[0])


@contextmanager
def _faults_named(path: Path) -> Generator[None]:
    try:
        yield
    except UnicodeDecodeError as exc:
        raise CannotWrite(f"{path}: not UTF-8 text; the file is unchanged") from exc
    except OSError as exc:
        raise CannotWrite(f"{path}: {exc.strerror or exc}; the file is unchanged") from exc
    except (ValueError, yaml.YAMLError) as exc:
        message = " ".join(str(exc).split())
        raise CannotWrite(f"{path}: cannot be merged ({message}); the file is unchanged") from exc


def _merge_text(file: ClientConfigFile, old: str) -> str:
    if file.format == "toml":
        return _merge_toml(old, file.values)
    found: Any = yaml.safe_load(old) if file.format == "yaml" else read_jsonc(old)
    if found is None:
        found = {}
    if not isinstance(found, dict):
        raise ValueError("it is not an object")  # noqa: TRY004  the same type as the errors of the parsers
    merged = _merge(cast("JsonDict", found), file.values)
    if merged == found:
        return old
    return edit_jsonc(old, merged) if file.format == "json" else as_text(file, merged)


def _merge(found: JsonDict, values: JsonDict) -> JsonDict:
    """Return the old values with the new ones: objects are merged; in lists the entry of the same name is replaced."""
    merged = dict(found)
    for key, value in values.items():
        there = found.get(key)
        if isinstance(value, dict) and isinstance(there, dict):
            merged[key] = _merge(cast("JsonDict", there), cast("JsonDict", value))
        elif isinstance(value, list) and isinstance(there, list):
            entries, own = cast("list[Any]", there), cast("list[Any]", value)
            names = [entry["name"] for entry in own]
            merged[key] = [one for one in entries if not (isinstance(one, dict) and one.get("name") in names)] + own  # pyright: ignore[reportUnknownMemberType]
        elif key in ("name", "version", "schema", "$schema") and there is not None:
            continue  # how the user named the file
        else:
            merged[key] = value
    return merged


def _merge_toml(old: str, values: JsonDict) -> str:
    """Return the text with the new keys before its first table and the new tables at its end. Comments stay."""
    if _merge(found := tomllib.loads(old), values) == found:
        return old
    simple = {key: value for key, value in values.items() if not isinstance(value, dict)}
    first = _TABLE.search(old)
    head, rest = (old[: first.start()], old[first.start() :]) if first else (old, "")
    for key in simple:
        head = re.sub(rf"^\s*{re.escape(key)}\s*=.*\n?", "", head, flags=re.MULTILINE)
    for table in _tables(values):
        rest = re.sub(rf"^\s*\[{re.escape(table)}\][^\n]*\n(?:(?!\s*\[)[^\n]*\n?)*", "", rest, flags=re.MULTILINE)
    tables = as_toml({key: value for key, value in values.items() if key not in simple})
    merged = f"{as_toml(simple)}{head}{rest.rstrip()}\n\n{tables}".lstrip("\n")
    tomllib.loads(merged)  # raises if a multi-line key was cut in two
    return merged


def _tables(values: JsonDict) -> list[str]:
    return [
        f"{key}.{name}" for key, value in values.items() if isinstance(value, dict) for name in cast("JsonDict", value)
    ]


def _numbers_of_copies(path: Path) -> list[int]:
    """Return the numbers of the copies of a file. The name of the first copy has no number; it counts as 0."""
    pattern = re.compile(rf"{re.escape(path.name + _COPY)}(\d*)")
    names = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    return [int(found[1] or 0) for name in names if (found := pattern.fullmatch(name))]


def _replace(path: Path, text: str, mode: int | None = None) -> None:
    """Replace a file atomically. The target of a symbolic link is replaced, not the link.

    A new file is readable by its owner only, since it contains a key. Raises `OSError`.
    """
    target = path.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    there = target.stat() if target.exists() else None
    if there is not None and not there.st_mode & 0o222:
        raise PermissionError(None, "the file is read-only")
    if mode is None:
        mode = there.st_mode & 0o777 if there is not None else 0o600
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    beside = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        beside.chmod(mode)
        beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
