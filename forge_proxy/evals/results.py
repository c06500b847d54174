"""The results file: a run a line, written so that a kill loses no more than the run it interrupts."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

from pydantic import ValidationError

from forge_proxy.core.errors import ForgeError
from forge_proxy.evals.record import RunKey, RunRecord


class ResultsError(ForgeError):
    """A results file cannot be read or written; the message says which and where."""

    @property
    def summary(self) -> str:
        return str(self)


def read_results(files: Iterable[Path]) -> Sequence[RunRecord]:
    """The records of some files, each run once, the latest of it. Raises `ResultsError`.

    A last line that was torn off by a kill is passed over.
    """
    found: dict[RunKey, RunRecord] = {}
    for file in files:
        try:
            raw = file.read_bytes()
        except OSError as exc:
            raise ResultsError(f"{file}: {exc.strerror or exc}") from exc
        found |= {record.key: record for record in _read(file, raw[: _whole(raw)])}
    return tuple(found.values())


class ResultsFile:
    """Opened for adding runs to it. One process at a time has it."""

    def __init__(self, path: Path) -> None:
        """Raises `ResultsError`."""
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file: BinaryIO = path.open("a+b")
        except OSError as exc:
            raise ResultsError(f"{path}: {exc.strerror or exc}") from exc
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            self._file.close()
            raise ResultsError(f"{path}: another eval writes to it; wait for that or name another file") from exc
        try:
            self.there = self._open()
        except ResultsError:
            self._file.close()
            raise

    def _open(self) -> Sequence[RunRecord]:
        """What is there already, after a torn last line was cut off."""
        self._file.seek(0)
        raw = self._file.read()
        whole = _whole(raw)
        there = tuple(_read(self.path, raw[:whole]))
        if whole < len(raw):
            self._file.truncate(whole)
        return there

    def add(self, record: RunRecord) -> None:
        """Write one more run, and wait until it is on the disk. Raises `ResultsError`."""
        try:
            self._file.write(record.model_dump_json().encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as exc:
            raise ResultsError(f"{self.path}: {exc.strerror or exc}") from exc

    def close(self) -> None:
        """Let others have it."""
        self._file.close()


def _whole(raw: bytes) -> int:
    """Where the last whole line ends."""
    return raw.rfind(b"\n") + 1


def _read(file: Path, raw: bytes) -> Iterable[RunRecord]:
    for number, line in enumerate(raw.splitlines(), 1):
        if not line.strip():
            continue
        try:
            yield RunRecord.model_validate_json(line)
        except ValidationError as exc:
            first = exc.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise ResultsError(f"{file}, line {number}: {where or 'no record'}: {first['msg']}") from exc
