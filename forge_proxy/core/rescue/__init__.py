"""Recovers tool calls from model output text: `rescue` for a complete response, `StreamingParser` for a stream.

Pure and total: no input raises. `grammar` is the markup as tables, `context` decides whether a position is code, a
quotation or text for display only, and `readers` parse the calls. `templates` learns the markup of one model from its
chat template, which is tried before the tables. On top of them `parser` locates the parts of a text, `rescue` decides
which of them are calls, and `streaming` does so while the text arrives.

To support another model family, add its markup in `grammar/markup.py`, the shape of the call body in
`readers/call_bodies.py`, or a form without markup in `readers/bare_calls.py`.
"""

from forge_proxy.core.rescue.grammar.learned_form import LearnedForm, read_form
from forge_proxy.core.rescue.output_buffer import OutputPiece, PieceKind
from forge_proxy.core.rescue.readers.repair import repair_object
from forge_proxy.core.rescue.rescue import (
    RecoveredCall,
    RepairedArguments,
    RescueResult,
    estimate_parse_time,
    repair_arguments,
    rescue,
)
from forge_proxy.core.rescue.streaming import StreamingParser

__all__ = [
    "LearnedForm",
    "OutputPiece",
    "PieceKind",
    "RecoveredCall",
    "RepairedArguments",
    "RescueResult",
    "StreamingParser",
    "estimate_parse_time",
    "read_form",
    "repair_arguments",
    "repair_object",
    "rescue",
]
