"""Old names of public attributes, which work until 0.3 with a warning. `forge_proxy.__getattr__` has those of classes.

This belongs in `core` because values of core, the daemon and the workflow library have such attributes.
"""

from __future__ import annotations

import warnings
from typing import Any


def renamed_attribute(old: str, present: str) -> Any:
    """Return a property `old` that warns and returns the attribute `present`."""

    def read(self: object) -> object:
        message = f"{type(self).__name__}.{old} is now {present}; the old name ends with 0.3"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return getattr(self, present)

    return property(read, doc=f"The former name of `{present}`; deprecated.")
