"""Which paths of a repository a task may name at all; `git/files.py` checks the rest when it opens a file."""

from __future__ import annotations

import re
import unicodedata

MAX_FILE_BYTES = 1024 * 1024
"""Larger files are neither read nor written."""
_MAX_PATH_BYTES = 4096
_MAX_NAME_BYTES = 255
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SHORT_GIT = re.compile(r"git~\d+")
"""Windows' short name of `.git`."""
_IGNORED_BY_HFS = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
"""Characters that macOS ignores in file names."""


def find_path_fault(path: str) -> str | None:
    """Return why a path cannot be that of a file in a repository; None if it can.

    Rejects what git rejects on any operating system, because a branch is checked out on others, too.
    """
    if not path:
        return "the path is empty"
    if path.startswith(("/", "~")) or re.match(r"[A-Za-z]:", path):
        return "the path is absolute; write it relative to the top folder of the repository"
    if "\\" in path or _CONTROL.search(path):
        return "the path contains a backslash or a control character; separate folders with '/'"
    try:
        if len(path.encode()) > _MAX_PATH_BYTES:
            return f"the path is longer than {_MAX_PATH_BYTES} bytes"
    except UnicodeEncodeError:
        return "the path is not valid Unicode"
    faults = (_find_name_fault(name) for name in path.split("/"))
    return next((fault for fault in faults if fault), None)


def fold_case(path: str) -> str:
    """Return the form of a path in which two paths are equal that only differ in case or in Unicode normalization.

    File systems of macOS and Windows treat such paths as the same file.
    """
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def _find_name_fault(name: str) -> str | None:
    if name in ("", "."):
        return "the path has an empty component or '.'; write it without"
    if name == "..":
        return "the path leaves the repository by '..'"
    folded = _IGNORED_BY_HFS.sub("", name).casefold().split(":")[0].rstrip(". ")
    if folded == ".git" or _SHORT_GIT.fullmatch(folded):
        return "the path is inside '.git', which belongs to git"
    if len(name.encode()) > _MAX_NAME_BYTES:
        return f"a component of the path is longer than {_MAX_NAME_BYTES} bytes"
    return None
