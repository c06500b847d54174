"""Files of worktrees: no path leads outside, whatever a model names and a check leaves behind."""

from __future__ import annotations

import os
import socket
import stat
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from forge_proxy.core.tasks.errors import GitFailed, UnsafePath
from forge_proxy.core.tasks.paths import MAX_FILE_BYTES, find_path_fault
from forge_proxy.core.tasks.workspace import FileContent
from forge_proxy.git.files import WorktreeFiles
from tests.fakes.full_disk import limit_file_size
from tests.fakes.repository import create_repository, repositories_of
from tests.folding import folded


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "worktree"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "a.py").write_bytes(b"x = 1\n")
    (tmp_path / "secret").write_bytes(b"secret")
    return folder


def reason_of(root: Path, path: str, *, data: bytes = b"new") -> str:
    """Return why a file is neither read nor written."""
    files = WorktreeFiles(root)
    with pytest.raises(UnsafePath) as reading:
        files.read(path)
    with pytest.raises(UnsafePath) as writing:
        files.write({path: data})
    assert reading.value.reason == writing.value.reason
    return reading.value.reason


@folded
@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("", "empty"),
        ("/etc/passwd", "absolute"),
        ("~/.ssh/id_rsa", "absolute"),
        ("C:/Windows", "absolute"),
        ("../secret", "leaves the repository"),
        ("src/../../secret", "leaves the repository"),
        ("src/..", "leaves the repository"),
        ("./src/a.py", "empty component or '.'"),
        ("src//a.py", "empty component or '.'"),
        ("src/", "empty component or '.'"),
        (".git/config", "inside '.git'"),
        (".GIT/hooks/pre-commit", "inside '.git'"),
        ("sub/.git/config", "inside '.git'"),
        (".git", "inside '.git'"),
        (".git./config", "inside '.git'"),
        (".git /config", "inside '.git'"),
        ("GIT~1/config", "inside '.git'"),
        (".g\u200cit/config", "inside '.git'"),
        (".git::$INDEX_ALLOCATION/config", "inside '.git'"),
        ("src\\a.py", "backslash"),
        ("a\x00b", "control character"),
        ("a\nb", "control character"),
        ("a" * 256, "longer than 255 bytes"),
        ("a/" * 2100 + "b", "longer than 4096 bytes"),
        ("\ud800", "not valid Unicode"),
    ],
)
def test_paths_that_are_rejected_by_their_text(path: str, reason: str) -> None:
    assert reason in (find_path_fault(path) or "")


@folded
@pytest.mark.parametrize("path", ["a", "src/a.py", ".gitignore", ".github/x", "git", "a b/ä.txt", "...", "x~1", ".a"])
def test_paths_that_are_accepted_by_their_text(path: str) -> None:
    assert find_path_fault(path) is None


def test_files_are_read_and_written_with_new_folders(root: Path) -> None:
    files = WorktreeFiles(root)

    files.write({"src/a.py": b"x = 2\n", "new/deep/b.py": b"y\n"})

    assert files.read("src/a.py") == FileContent(b"x = 2\n")
    assert files.read("new/deep/b.py") == FileContent(b"y\n")
    assert files.read("missing") is None
    assert files.read("missing/too") is None


def test_the_mode_of_a_file_stays_and_bytes_are_not_interpreted(root: Path) -> None:
    script = root / "run"
    script.write_bytes(b"#!/bin/sh\r\n")
    script.chmod(0o750)
    files = WorktreeFiles(root)

    files.write({"run": b"\xff\xfe\r\n\x00"})

    assert stat.S_IMODE(script.stat().st_mode) == 0o750
    assert files.read("run") == FileContent(b"\xff\xfe\r\n\x00", is_executable=True)


def test_symlinks_are_not_followed_at_any_place(root: Path, tmp_path: Path) -> None:
    (root / "link").symlink_to(tmp_path / "secret")
    (root / "inside").symlink_to("src/a.py")
    (root / "folder").symlink_to(tmp_path)
    (root / "broken").symlink_to(tmp_path / "created")

    assert "is a symlink to" in reason_of(root, "link")
    assert "'inside' is a symlink to 'src/a.py', which is not followed" in reason_of(root, "inside")
    assert "'folder' is a symlink" in reason_of(root, "folder/secret")
    assert "is a symlink" in reason_of(root, "broken")
    assert (tmp_path / "secret").read_bytes() == b"secret"
    assert not (tmp_path / "created").exists()


def test_pipes_sockets_devices_and_folders_are_no_files(root: Path) -> None:
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(root / "socket"))

    assert reason_of(root, "pipe") == "it is a named pipe, not a file"
    assert "is a socket, not a file" in reason_of(root, "socket")
    assert "is a folder, not a file" in reason_of(root, "src")
    assert "is a file, not a folder" in reason_of(root, "src/a.py/b")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can create devices")
def test_a_device_is_no_file(root: Path) -> None:
    os.mknod(root / "device", stat.S_IFCHR | 0o666, os.makedev(1, 5))

    assert reason_of(root, "device") == "it is a device, not a file"


def test_names_that_differ_only_in_case_are_rejected(root: Path) -> None:
    assert "differs only in case from the existing 'a.py'" in reason_of(root, "src/A.py")
    assert "differs only in case from the existing 'src'" in reason_of(root, "SRC/b.py")
    with pytest.raises(UnsafePath, match=r"differs from 'new\.py' only in case"):
        WorktreeFiles(root).write({"new.py": b"1", "NEW.py": b"2"})
    assert not (root / "new.py").exists()


def test_two_files_that_exist_and_differ_only_in_case_can_be_read(root: Path) -> None:
    (root / "Makefile").write_bytes(b"1")
    (root / "makefile").write_bytes(b"2")

    assert WorktreeFiles(root).read("makefile") == FileContent(b"2")


def test_files_over_the_limit_are_neither_read_nor_written(root: Path) -> None:
    (root / "large").write_bytes(b"x" * (MAX_FILE_BYTES + 1))
    (root / "limit").write_bytes(b"x" * MAX_FILE_BYTES)

    assert "has 1048577 bytes; tasks read and write at most 1048576" in reason_of(
        root, "large", data=b"x" * (MAX_FILE_BYTES + 1)
    )
    assert len((WorktreeFiles(root).read("limit") or FileContent(b"")).data) == MAX_FILE_BYTES


def test_a_pointer_of_git_lfs_is_rejected(root: Path) -> None:
    (root / "model.bin").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 1\n")

    assert "Git LFS" in reason_of(root, "model.bin")


def test_one_unsafe_path_prevents_all_writes(root: Path) -> None:
    with pytest.raises(UnsafePath):
        WorktreeFiles(root).write({"src/a.py": b"changed", "../b": b"x"})

    assert (root / "src" / "a.py").read_bytes() == b"x = 1\n"


def test_a_full_disk_leaves_the_file_as_it_was_and_nothing_else(root: Path) -> None:
    with limit_file_size(1000), pytest.raises(GitFailed, match="cannot be written: File too large"):
        WorktreeFiles(root).write({"src/a.py": b"x" * 5000})

    assert (root / "src" / "a.py").read_bytes() == b"x = 1\n"
    assert os.listdir(root / "src") == ["a.py"]  # noqa: PTH208


def test_a_file_with_another_hard_link_is_replaced_and_not_written_through(root: Path, tmp_path: Path) -> None:
    (root / "hard").hardlink_to(tmp_path / "secret")

    WorktreeFiles(root).write({"hard": b"new"})

    assert (tmp_path / "secret").read_bytes() == b"secret"


def test_a_folder_that_is_swapped_for_a_symlink_all_the_time_never_leads_outside(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.py").write_bytes(b"outside")
    stopped = threading.Event()

    def swap() -> None:
        number = 0
        while not stopped.is_set():
            number += 1
            for step in (
                lambda at=root / f"aside{number}": (root / "src").rename(at),
                lambda: (root / "src").symlink_to(outside),
                lambda: (root / "src").unlink(),
            ):
                with suppress(OSError):  # the writer has created the folder meanwhile
                    step()

    swapper = threading.Thread(target=swap)
    swapper.start()
    outcomes: set[str] = set()
    try:
        for number in range(3000):
            try:
                found = WorktreeFiles(root).read("src/a.py")
                assert found is None or found.data != b"outside"
                WorktreeFiles(root).write({"src/a.py": b"%d" % number})
                outcomes.add("written")
            except (UnsafePath, GitFailed):
                outcomes.add("rejected")
    finally:
        stopped.set()
        swapper.join()

    assert (outside / "a.py").read_bytes() == b"outside"
    assert [file.name for file in outside.iterdir()] == ["a.py"]
    assert "rejected" in outcomes


async def test_files_of_submodules_and_of_filters_are_rejected(tmp_path: Path) -> None:
    inner = create_repository(tmp_path / "inner")
    repository = create_repository(tmp_path / "repo", {".gitattributes": "*.bin filter=lfs diff=lfs\n", "a.py": "x\n"})
    repository.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner.path), "lib/inner")
    head = repository.commit({})
    repositories = repositories_of(tmp_path, repository.path)
    worktree = await repositories.create_worktree(str(repository.path), "t1", head)

    for path in ("lib/inner/a.py", "lib/inner"):
        with pytest.raises(UnsafePath, match="it is in the submodule 'lib/inner'"):
            await repositories.read(worktree, path)
        with pytest.raises(UnsafePath, match="it is in the submodule 'lib/inner'"):
            await repositories.write(worktree, {path: b"x"})
    with pytest.raises(UnsafePath, match="git's filter 'lfs' processes the file"):
        await repositories.write(worktree, {"model.bin": b"x"})
    await repositories.write(worktree, {"a.py": b"y\n"})
    commit = await repositories.commit(worktree, "one", head)

    assert repository.git("diff", "--name-only", head, commit) == "a.py"


async def test_line_endings_are_committed_as_they_were_written(tmp_path: Path) -> None:
    repository = create_repository(tmp_path / "repo", {"dos.txt": b"a\r\nb\r\n", "mixed.txt": b"a\r\nb\n"})
    repositories = repositories_of(tmp_path, repository.path)
    worktree = await repositories.create_worktree(str(repository.path), "t1", repository.head())

    await repositories.write(worktree, {"dos.txt": b"a\r\nc\r\n"})
    commit = await repositories.commit(worktree, "one", worktree.base_commit)

    assert repository.git("diff", "--stat", worktree.base_commit, commit).splitlines()[-1].strip() == (
        "1 file changed, 1 insertion(+), 1 deletion(-)"
    )
