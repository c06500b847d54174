"""Grammars for the tests: that of Codex's patches, and some that are recursive, ambiguous or tiny."""

from __future__ import annotations

from forge_proxy.core.chat import ToolGrammar, ToolSpec
from forge_proxy.core.jsontypes import JsonObject

PATCH = r"""
start: opening file+ closing
opening: "*** Begin Patch" LF
closing: "*** End Patch" LF?

file: added | deleted | updated
added: "*** Add File: " path LF added_line+
deleted: "*** Delete File: " path LF
updated: "*** Update File: " path LF ("*** Move to: " path LF)? edits?

path: /.+/
added_line: "+" /.*/ LF -> line
edits: (place | edit)+ ("*** End of File" LF)?
place: ("@@" | "@@ " /.+/) LF
edit: ("+" | "-" | " ") /.*/ LF

%import common.LF
"""
"""The language of the patches that Codex's `apply_patch` takes. Like Codex's own grammar of it, it has regular
expressions that match the empty text.
"""

SUMS = """
start: sum
sum: product | sum "+" product
product: atom | product "*" atom
atom: NUMBER | "(" sum ")" | "-" atom
%import common.NUMBER
%import common.WS_INLINE
%ignore WS_INLINE
"""
LISTS = """
// values in brackets
start: value
value: WORD | "[" [value ("," value)*] "]"
WORD: /[a-c]+/
"""
PATCH_GRAMMAR = ToolGrammar("lark", PATCH)
INPUT: JsonObject = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
APPLY_PATCH = ToolSpec("apply_patch", INPUT, "Apply a patch.", PATCH_GRAMMAR)
