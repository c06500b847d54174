"""The results file: one run per line, flushed after each run, so that a kill loses only the interrupted run."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from pydantic import ValidationError
from pydantic_core import from_json

from forge_proxy.core.errors import ForgeError
from forge_proxy.core.validation import describe_fault
from forge_proxy.evals.record import RunKey, RunRecord

_BEGINNING = b'{"config":{"model":'
"""The beginning of every record."""


class ResultsError(ForgeError):
    """A results file cannot be read or written. The message names the file and the position."""

    @property
    def summary(self) -> str:
        return str(self)


def read_results(files: Iterable[Path]) -> Sequence[RunRecord]:
    """Return the records of some files. Of several records of a run, the last one. Raises `ResultsError`.

    Ignores a last line that was truncated by a kill.
    """
    found: list[RunRecord] = []
    for file in files:
        try:
            raw = file.read_bytes()
        except OSError as exc:
            raise ResultsError(f"{file}: {exc.strerror or exc}") from exc
        found += _read(file, raw[: _complete_size(raw)])
    return _latest(found)


def contains_runs(file: Path) -> bool:
    """Return whether a file is a results file, by its beginning. Raises `ResultsError`."""
    try:
        if not file.is_file():
            return False
        with file.open("rb") as opened:
            return opened.read(len(_BEGINNING)) == _BEGINNING
    except OSError as exc:
        raise ResultsError(f"{file}: {exc.strerror or exc}") from exc


class ResultsFile:
    """A results file opened for appending, locked for one process. `close` removes a new file without records."""

    def __init__(self, path: Path) -> None:
        """Raises `ResultsError`."""
        self.path = path
        try:
            self._is_new = not path.exists()
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file: BinaryIO = path.open("a+b")
        except OSError as exc:
            raise ResultsError(f"{path}: {exc.strerror or exc}") from exc
        try:
            self._lock()
            self.records = self._open()
        except ResultsError:
            self._file.close()
            raise

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_there = os.path.samestat(os.fstat(self._file.fileno()), self.path.stat())
        except OSError:
            is_there = False
        if not is_there:  # locked by another eval, or deleted by one that wrote no record
            raise ResultsError(f"{self.path}: another eval writes to it; wait for that or name another file")

    def _open(self) -> Sequence[RunRecord]:
        """Return the existing records, after removing a truncated last line. Raises `ResultsError`."""
        self._file.seek(0)
        raw = self._file.read()
        size = _complete_size(raw)
        records = _latest(_read(self.path, raw[:size]))
        if size < len(raw):
            self._file.truncate(size)
        self._is_in_line = size > 0 and not raw[:size].endswith(b"\n")
        return records

    def add(self, record: RunRecord) -> None:
        """Append a record and sync it to disk. Raises `ResultsError`."""
        try:
            if self._is_in_line:
                self._file.write(b"\n")
                self._is_in_line = False
            self._file.write(record.model_dump_json().encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as exc:
            raise ResultsError(f"{self.path}: {exc.strerror or exc}") from exc

    def close(self) -> None:
        """Release the lock."""
        if self._is_new and os.fstat(self._file.fileno()).st_size == 0:
            self.path.resolve().unlink(missing_ok=True)
        with suppress(OSError):  # closing flushes a record that `add` failed to write, and has reported
            self._file.close()


def _latest(records: Iterable[RunRecord]) -> Sequence[RunRecord]:
    """Return each run once: concatenated files can contain a run twice."""
    found: dict[RunKey, RunRecord] = {record.key: record for record in records}
    return tuple(found.values())


def _complete_size(raw: bytes) -> int:
    """Return the number of bytes to read: all except a last line that was truncated by a kill.

    Only the beginning of a record counts as truncated; other text is an error of the file.
    """
    start = raw.rfind(b"\n") + 1
    last = raw[start:]
    is_partial = last.startswith(_BEGINNING) or (start > 0 and _BEGINNING.startswith(last))
    return start if is_partial and not _is_json(last) else len(raw)


def _is_json(raw: bytes) -> bool:
    try:
        from_json(raw)
    except ValueError:
        return False
    return True


def _read(file: Path, raw: bytes) -> Iterable[RunRecord]:
    for number, line in enumerate(raw.splitlines(), 1):
        if not line.strip():
            continue
        try:
            yield RunRecord.model_validate_json(line)
        except ValidationError as exc:
            first = exc.errors()[0]
            why = ": ".join(part for part in (".".join(map(str, first["loc"])), describe_fault(first)) if part)
            raise ResultsError(f"{file}, line {number}: not a run of an eval: {why}") from exc
