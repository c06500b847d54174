"""The results file: a run a line, written so that a kill loses no more than the run it interrupts."""

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
"""Of each record that was ever written."""


class ResultsError(ForgeError):
    """A results file cannot be read or written. The message names the file and the position."""

    @property
    def summary(self) -> str:
        return str(self)


def read_results(files: Iterable[Path]) -> Sequence[RunRecord]:
    """The records of some files, each run once, the latest of it. Raises `ResultsError`.

    A last line that was torn off by a kill is passed over.
    """
    found: list[RunRecord] = []
    for file in files:
        try:
            raw = file.read_bytes()
        except OSError as exc:
            raise ResultsError(f"{file}: {exc.strerror or exc}") from exc
        found += _read(file, raw[: _whole(raw)])
    return _latest(found)


def holds_runs(file: Path) -> bool:
    """Whether there is a results file of that name, by how it begins. Raises `ResultsError`."""
    try:
        if not file.is_file():
            return False
        with file.open("rb") as opened:
            return opened.read(len(_BEGINNING)) == _BEGINNING
    except OSError as exc:
        raise ResultsError(f"{file}: {exc.strerror or exc}") from exc


class ResultsFile:
    """Opened for adding runs to it. One process at a time has it. One that is new and stays empty goes at the end."""

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
            self.there = self._open()
        except ResultsError:
            self._file.close()
            raise

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_there = os.path.samestat(os.fstat(self._file.fileno()), self.path.stat())
        except OSError:
            is_there = False
        if not is_there:  # taken, or taken away by one that wrote nothing to it
            raise ResultsError(f"{self.path}: another eval writes to it; wait for that or name another file")

    def _open(self) -> Sequence[RunRecord]:
        """What is there already, after a torn last line was cut off. A file that is not ours is left as it is."""
        self._file.seek(0)
        raw = self._file.read()
        whole = _whole(raw)
        there = _latest(_read(self.path, raw[:whole]))
        if whole < len(raw):
            self._file.truncate(whole)
        self._is_in_line = whole > 0 and not raw[:whole].endswith(b"\n")
        return there

    def add(self, record: RunRecord) -> None:
        """Write one more run, and wait until it is on the disk. Raises `ResultsError`."""
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
        with suppress(OSError):  # a record that `add` could not write is tried once more, and was told of then
            self._file.close()


def _latest(records: Iterable[RunRecord]) -> Sequence[RunRecord]:
    """Each run once: files that were put together can hold one twice."""
    found: dict[RunKey, RunRecord] = {record.key: record for record in records}
    return tuple(found.values())


def _whole(raw: bytes) -> int:
    """How much of it is to be read: all but a last line that a kill tore off.

    Only the beginning of a record is taken for such a line. Whatever else stands there somebody wrote on purpose.
    """
    begun = raw.rfind(b"\n") + 1
    last = raw[begun:]
    is_begun = last.startswith(_BEGINNING) or (begun > 0 and _BEGINNING.startswith(last))
    return begun if is_begun and not _is_json(last) else len(raw)


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
