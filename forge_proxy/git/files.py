"""Files of a worktree, opened component by component without following symlinks.

A check may have put a symlink, a device or a pipe at any place, also between two steps of one operation. Each folder is
therefore opened relative to the one above it and stays open, and a file is replaced as a whole.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from forge_proxy.core.tasks.errors import GitFailed, UnsafePath
from forge_proxy.core.tasks.paths import MAX_FILE_BYTES, find_path_fault, fold_case
from forge_proxy.core.tasks.workspace import FileContent

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_MODE = 0o644
_LFS = b"version https://git-lfs.github.com/spec/"


class WorktreeFiles:
    """The files below a folder. All methods raise `UnsafePath`, and block."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, path: str) -> FileContent | None:
        """Return a file; None if there is none."""
        try:
            with self._open_parent(path, create=False) as (parent, name):
                return _read_file(parent, name, path)
        except FileNotFoundError:
            return None

    def write(self, files: Mapping[str, bytes]) -> None:
        """Write files, with the folders that they need. All paths are checked before the first one is written.

        Existing files keep their mode. Raises `GitFailed` if the file system does not accept a file.
        """
        _check_names(files)
        for path, data in files.items():
            if len(data) > MAX_FILE_BYTES:
                raise UnsafePath(path, _too_large(len(data)))
            self.read(path)
        for path, data in files.items():
            try:
                with self._open_parent(path, create=True) as (parent, name):
                    _replace_file(parent, name, path, data)
            except OSError as error:
                raise GitFailed(f"{self._folder / path} cannot be written: {error.strerror or error}") from error

    @contextmanager
    def _open_parent(self, path: str, *, create: bool) -> Generator[tuple[int, str]]:
        """Open the folder of a file. Yields its descriptor and the name of the file."""
        if fault := find_path_fault(path):
            raise UnsafePath(path, fault)
        *folders, name = path.split("/")
        current = os.open(self._folder, _FOLDER)
        try:
            for folder in folders:
                following = _open_folder(current, folder, path, create=create)
                os.close(current)
                current = following
                if _exists(current, ".git"):
                    raise UnsafePath(path, f"{folder!r} is a submodule or a repository of its own")
            _check_case(current, name, path)
            yield current, name
        finally:
            os.close(current)


def _open_folder(parent: int, name: str, path: str, *, create: bool) -> int:
    _check_case(parent, name, path)
    try:
        return os.open(name, _FOLDER, dir_fd=parent)
    except FileNotFoundError:
        if not create:
            raise
    except OSError as error:
        raise UnsafePath(path, _explain(parent, name, error, "a folder")) from error
    with suppress(FileExistsError):
        os.mkdir(name, 0o755, dir_fd=parent)
    try:
        return os.open(name, _FOLDER, dir_fd=parent)
    except OSError as error:
        raise UnsafePath(path, _explain(parent, name, error, "a folder")) from error


def _read_file(parent: int, name: str, path: str) -> FileContent:
    try:
        descriptor = os.open(name, _READ, dir_fd=parent)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UnsafePath(path, _explain(parent, name, error, "a file")) from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UnsafePath(path, f"it is {_kind(status.st_mode)}, not a file")
        if status.st_size > MAX_FILE_BYTES:
            raise UnsafePath(path, _too_large(status.st_size))
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(MAX_FILE_BYTES + 1)  # it may grow meanwhile
    finally:
        os.close(descriptor)
    if len(data) > MAX_FILE_BYTES:
        raise UnsafePath(path, _too_large(len(data)))
    if data.startswith(_LFS):
        raise UnsafePath(path, "its content is stored in Git LFS, which tasks do not read")
    return FileContent(data, is_executable=bool(status.st_mode & stat.S_IXUSR))


def _replace_file(parent: int, name: str, path: str, data: bytes) -> None:
    """Write a new file and put it in place of the old one, which is complete or unchanged at any time."""
    mode = _NEW_MODE
    with suppress(FileNotFoundError):
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode):
            raise UnsafePath(path, f"it is {_kind(status.st_mode)}, not a file")
        mode = stat.S_IMODE(status.st_mode) & 0o777
    temporary = f".forge-{secrets.token_hex(8)}"
    descriptor = os.open(temporary, _CREATE, 0o600, dir_fd=parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(descriptor, mode)
        os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)  # relative to a descriptor
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=parent)
        raise


def _check_names(files: Mapping[str, bytes]) -> None:
    """Reject two new files whose names differ only in case."""
    seen: dict[str, str] = {}
    for path in files:
        if (other := seen.setdefault(fold_case(path), path)) != path:
            raise UnsafePath(path, f"it differs from {other!r} only in case")


def _check_case(folder: int, name: str, path: str) -> None:
    """Reject a name that differs only in case from an existing one, because they are one file on other systems."""
    if _exists(folder, name):
        return
    folded = fold_case(name)
    for other in os.listdir(folder):  # of a descriptor
        if fold_case(other) == folded:
            raise UnsafePath(path, f"it differs only in case from the existing {other!r}")


def _exists(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return True


def _explain(parent: int, name: str, error: OSError, wanted: str) -> str:
    """Say why something is not a folder or a file that can be opened."""
    with suppress(OSError):
        mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
        if stat.S_ISLNK(mode):
            target = os.readlink(name, dir_fd=parent)
            return f"{name!r} is a symlink to {target!r}, which is not followed; name the file itself"
        if error.errno in (errno.ENOTDIR, errno.ENXIO, errno.EISDIR):
            return f"{name!r} is {_kind(mode)}, not {wanted}"
    return f"{name!r} cannot be opened: {error.strerror or error}"


def _kind(mode: int) -> str:
    kinds = ((stat.S_ISDIR, "a folder"), (stat.S_ISLNK, "a symlink"), (stat.S_ISFIFO, "a named pipe"),
             (stat.S_ISSOCK, "a socket"), (stat.S_ISREG, "a file"))  # fmt: skip
    return next((kind for matches, kind in kinds if matches(mode)), "a device")


def _too_large(size: int) -> str:
    return f"the file has {size} bytes; tasks read and write at most {MAX_FILE_BYTES}"
