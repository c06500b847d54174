"""Which offered tool a model meant by a name."""

from __future__ import annotations

import re
from collections.abc import Collection

_TWICE = re.compile(r"([\w-]+)[.:/]\1\Z")
_PREFIXES = ("functions.", "function.", "tools.", "tool.", "default_api.", "functions:", "tools:")


def resolve_name(said: str, names: Collection[str]) -> str | None:
    """The one offered name that `said` is, exactly or but for case and a prefix such as `functions.`; else None."""
    if said in names:
        return said
    whole = said.strip()
    prefix = next((prefix for prefix in _PREFIXES if whole.startswith(prefix)), "")
    bare = whole.removeprefix(prefix)
    for meant in (whole, bare):
        if meant in names:
            return meant
    twice = _TWICE.match(whole)  # a name space of the same name, as some templates write it: `read.read`
    if twice and twice[1] in names:
        return twice[1]
    alike = {name for name in names if name.casefold() in (whole.casefold(), bare.casefold())}
    return alike.pop() if len(alike) == 1 else None
