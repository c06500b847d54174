"""Reads tool calls out of text: `rescue` a whole answer, `Scan` one that is still being written.

Pure and total: no input raises. Callers know only these names; forms are added in `forms.py` and its readers.
"""

from forge_proxy.core.rescue.rescue import Found, Mended, Rescued, mend_arguments, rescue
from forge_proxy.core.rescue.scan import Scan
from forge_proxy.core.rescue.speech import Piece, PieceKind

__all__ = ["Found", "Mended", "Piece", "PieceKind", "Rescued", "Scan", "mend_arguments", "rescue"]
