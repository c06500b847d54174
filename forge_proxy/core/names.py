"""Which offered tool a model meant by a name."""

from __future__ import annotations

from collections.abc import Collection

_PREFIXES = ("functions.", "function.", "tools.", "tool.", "default_api.", "functions:", "tools:")


def resolve_name(said: str, names: Collection[str]) -> str | None:
    """The one offered name that `said` is, exactly or but for case and a prefix such as `functions.`; else None."""
    if said in names:
        return said
    bare = said.strip()
    for prefix in _PREFIXES:
        if bare.startswith(prefix):
            bare = bare.removeprefix(prefix)
            break
    if bare in names:
        return bare
    alike = [name for name in names if name.casefold() == bare.casefold()]
    return alike[0] if len(alike) == 1 else None
