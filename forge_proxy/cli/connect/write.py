"""Reads and writes the files of a client, keeps copies of the old files, and restores them."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from forge_proxy.cli.connect.merge import merge_text, parse
from forge_proxy.cli.connect.setups import ClientConfigFile
from forge_proxy.cli.connect.text import as_text
from forge_proxy.core.errors import ForgeError

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
        new = as_text(file) if old is None else merge_text(file, old)
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


def read_values(file: ClientConfigFile, home: Path) -> tuple[Path, Any]:
    """Return the path of the file and its values, None if it does not exist. Raises `CannotWrite`."""
    path = path_of(file, home)
    with _faults_named(path):
        return path, parse(file, path.read_bytes().decode()) if path.exists() else None


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
