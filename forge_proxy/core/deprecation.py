"""Old names of public attributes and settings, which work until 0.3 with a warning. `forge_proxy.__getattr__` has
those of classes.

This belongs in `core` because values of core, the daemon and the workflow library have such names.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, model_validator

from forge_proxy.core.jsontypes import is_object


def describe_rename(old: str, present: str) -> str:
    """Return the warning about an old name."""
    return f"{old} is now {present}; the old name ends with 0.3"


def renamed_attribute(old: str, present: str) -> Any:
    """Return a property `old` that warns and returns the attribute `present`."""

    def read(self: object) -> object:
        message = describe_rename(f"{type(self).__name__}.{old}", present)
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return getattr(self, present)

    return property(read, doc=f"The former name of `{present}`; deprecated.")


class RenamedFields(BaseModel):
    """A model whose fields can also be set by their former names, with a warning."""

    former_names: ClassVar[Mapping[str, str]] = {}
    """Former names of fields, each with the current one. If both are set, the current one applies."""

    @model_validator(mode="before")
    @classmethod
    def _rename_fields(cls, values: object) -> object:
        if not is_object(values):
            return values
        renamed = dict(values)
        for old, present in cls.former_names.items():
            if old in renamed:
                warnings.warn(describe_rename(f"{cls.__name__}.{old}", present), DeprecationWarning, stacklevel=3)
                renamed.setdefault(present, renamed.pop(old))
        return renamed
