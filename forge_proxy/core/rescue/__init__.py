"""Reads tool calls out of text: `rescue` a whole answer, `Scan` one that is still being written.

Pure and total: no input raises. Callers know only these names; forms are added in `forms.py` and its readers.
"""

from forge_proxy.core.rescue.rescue import Found, Rescued, rescue
from forge_proxy.core.rescue.scan import Scan

__all__ = ["Found", "Rescued", "Scan", "rescue"]
