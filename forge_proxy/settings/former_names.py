"""Former names of settings in files, environment variables and command lines. They work until 0.3 with a warning.

Each source is renamed before the sources are merged, so that a source overrides another one by either name.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from forge_proxy.core.deprecation import describe_rename
from forge_proxy.core.jsontypes import is_object

_LOG = logging.getLogger("forge_proxy.settings")
"""Before the log is configured, a warning is one line on stderr."""


def rename_settings(values: Mapping[str, Any], former_names: Mapping[str, str], source: str) -> dict[str, Any]:
    """Return nested settings by their present names, and log a warning for each former name.

    `former_names` maps dotted paths. If a source sets a setting by both names, the current one applies.
    """
    for old, present in former_names.items():
        values = _rename(values, old.split("."), present.rpartition(".")[2], describe_rename(old, present), source)
    return dict(values)


def _rename(values: Mapping[str, Any], path: list[str], present: str, message: str, source: str) -> Mapping[str, Any]:
    name, *rest = path
    inner = values.get(name)
    if rest:
        return {**values, name: _rename(inner, rest, present, message, source)} if is_object(inner) else values
    if name not in values:
        return values
    fields = {"event": "setting renamed", "source": source, "note": message}
    _LOG.warning("%s: %s", source, message, extra={"log_fields": fields})
    return {present: inner, **{key: value for key, value in values.items() if key != name}}
