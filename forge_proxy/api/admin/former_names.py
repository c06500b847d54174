"""Former names of routes and JSON fields of the admin API, which work until 0.3."""

from __future__ import annotations

import logging
from typing import Any

from pydantic import computed_field

from forge_proxy.core.deprecation import describe_rename

_LOG = logging.getLogger("forge_proxy.api")


class FormerName:
    """A former name. Each application has its own value, and logs the first use; as a dependency, that of a route."""

    def __init__(self, old: str, present: str) -> None:
        self._message = describe_rename(old, present)
        self._is_logged = False

    def __call__(self) -> None:
        """Log a warning if there was none yet."""
        if not self._is_logged:
            self._is_logged = True
            fields = {"event": "former name used", "note": self._message}
            _LOG.warning("%s", self._message, extra={"log_fields": fields})


def former_field(present: str, kind: Any) -> Any:
    """Return a field of a response that repeats the field `present` under its former name."""

    def read(self: object) -> object:
        return getattr(self, present)

    described = f"The former name of `{present}`, sent until 0.3."
    as_field = computed_field(return_type=kind, description=described, json_schema_extra={"deprecated": True})
    return as_field(property(read))
