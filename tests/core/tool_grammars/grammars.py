"""Grammars for the tests: that of Codex's patches, and some that are recursive, ambiguous or tiny."""

from __future__ import annotations

from forge_proxy.core.chat import ToolGrammar, ToolSpec
from forge_proxy.core.jsontypes import JsonObject

PATCH = r"""
start: begin_patch hunk+ end_patch
begin_patch: "*** Begin Patch" LF
end_patch: "*** End Patch" LF?

hunk: add_hunk | delete_hunk | update_hunk
add_hunk: "*** Add File: " filename LF add_line+
delete_hunk: "*** Delete File: " filename LF
update_hunk: "*** Update File: " filename LF change_move? change?

filename: /(.+)/
add_line: "+" /(.*)/ LF -> line

change_move: "*** Move to: " filename LF
change: (change_context | change_line)+ eof_line?
change_context: ("@@" | "@@ " /(.+)/) LF
change_line: ("+" | "-" | " ") /(.*)/ LF
eof_line: "*** End of File" LF

%import common.LF
"""
"""The language of the patches that Codex's `apply_patch` takes, as its documentation of the tool defines it."""

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
