"""Reads tool calls out of text: `rescue` a whole answer, `Scan` one that is still being written.

Pure and total: no input raises. `walk` says what stands where and `rescue` what of it was meant. Markup is added in
`markup.py`, shapes of calls behind it in `bodies.py`, forms without markup in `forms.py`.
"""

from forge_proxy.core.rescue.general import mend_object
from forge_proxy.core.rescue.rescue import Found, Mended, Rescued, mend_arguments, rescue
from forge_proxy.core.rescue.scan import Scan
from forge_proxy.core.rescue.speech import Piece, PieceKind

__all__ = ["Found", "Mended", "Piece", "PieceKind", "Rescued", "Scan", "mend_arguments", "mend_object", "rescue"]
