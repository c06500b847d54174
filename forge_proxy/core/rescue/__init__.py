"""Reads tool calls out of text: `rescue` a whole answer, `StreamingParser` one that is still being written.

Pure and total: no input raises. `walk` says what stands where and `rescue` what of it was meant. Markup is added in
`markup.py`, shapes of calls behind it in `bodies.py`, forms without markup in `forms.py`.
"""

from forge_proxy.core.rescue.output_buffer import OutputPiece, PieceKind
from forge_proxy.core.rescue.readers.repair import mend_object
from forge_proxy.core.rescue.rescue import RecoveredCall, RepairedArguments, RescueResult, mend_arguments, rescue
from forge_proxy.core.rescue.streaming import StreamingParser

__all__ = [
    "OutputPiece",
    "PieceKind",
    "RecoveredCall",
    "RepairedArguments",
    "RescueResult",
    "StreamingParser",
    "mend_arguments",
    "mend_object",
    "rescue",
]
