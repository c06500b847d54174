"""The environment of git commands: no hooks, no pager, no prompts, no configuration but that of the repository.

A repository's own configuration may name programs (filters, file system monitors, diff drivers). They belong to the
user, but which files they process is decided by `.gitattributes`, which a task may change: none of them is run.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

_NONE = os.devnull
_SETTINGS = (
    ("core.hooksPath", _NONE),
    ("core.fsmonitor", "false"),
    ("core.attributesFile", _NONE),
    ("core.excludesFile", _NONE),
    ("core.pager", "cat"),
    ("core.editor", "false"),
    ("core.sshCommand", "false"),
    ("core.alternateRefsCommand", "true"),
    ("core.quotePath", "false"),
    ("core.safecrlf", "false"),
    ("core.trustctime", "true"),
    ("core.checkStat", "default"),
    ("core.logAllRefUpdates", "true"),
    ("checkout.workers", "4"),
    ("color.ui", "false"),
    ("commit.gpgSign", "false"),
    ("credential.helper", ""),
    ("diff.renames", "true"),
    ("diff.noprefix", "false"),
    ("diff.orderFile", _NONE),
    ("diff.mnemonicPrefix", "false"),
    ("gc.auto", "0"),
    ("i18n.commitEncoding", "UTF-8"),
    ("i18n.logOutputEncoding", "UTF-8"),
    ("log.showSignature", "false"),
    ("maintenance.auto", "false"),
    ("protocol.allow", "never"),
    ("submodule.recurse", "false"),
)
_FULL = (("core.sparseCheckout", "false"), ("index.sparse", "false"))
_VARIABLES = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": _NONE,
    "GIT_CONFIG_GLOBAL": _NONE,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "false",
    "SSH_ASKPASS": "false",
    "GIT_EDITOR": "false",
    "GIT_PAGER": "cat",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "LC_ALL": "C.UTF-8",
    "HOME": _NONE,
}


def build_environment(
    author: tuple[str, str],
    *,
    git_dir: Path | None,
    work_tree: Path | None,
    filters: Sequence[str],
    is_full: bool = True,
) -> Mapping[str, str]:
    """Return the environment of a git command. `filters` are the keys of the repository's `filter.*` settings.

    With `is_full`, a work tree has all files of its commit, also if the user's checkouts are sparse.

    With `git_dir`, git does not search for a repository: it never reads the `.git` of a worktree, which a check may
    have replaced.
    """
    name, email = author
    places = {"GIT_DIR": git_dir, "GIT_WORK_TREE": work_tree}
    full = _FULL if is_full else ()
    settings = (*_SETTINGS, *full, *((key, "false" if key.endswith(".required") else "") for key in filters))
    numbered = [(str(index), key, value) for index, (key, value) in enumerate(settings)]
    return {
        **_VARIABLES,
        "PATH": os.environ.get("PATH", os.defpath),
        "GIT_AUTHOR_NAME": name,
        "GIT_AUTHOR_EMAIL": email,
        "GIT_COMMITTER_NAME": name,
        "GIT_COMMITTER_EMAIL": email,
        **{variable: str(place) for variable, place in places.items() if place is not None},
        "GIT_CONFIG_COUNT": str(len(settings)),
        **{f"GIT_CONFIG_KEY_{index}": key for index, key, _ in numbered},
        **{f"GIT_CONFIG_VALUE_{index}": value for index, _, value in numbered},
    }
