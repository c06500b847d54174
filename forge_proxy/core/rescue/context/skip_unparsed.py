"""How far something goes that looks like a call and cannot be read: no call begins inside it.

A broken or cut-off call may well hold the text of another one, in a file that it writes for example.
"""

from __future__ import annotations

import re

_CALL_ENDS = (
    r"</[\w:|｜ -]{0,24}(?:tool|function|invoke|call)"
    r"|<[|｜][^<>\"\s]{0,40}(?:end|eot|eom|call|return)[^<>\"\s]{0,20}[|｜]>|<\w{1,16}[|｜]>"
)
_TEXT_OR_BRACKET = re.compile(
    rf'(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"?)++|\]<\]|[{{}}\[\]]|{_CALL_ENDS}|\[/TOOL_CALLS?\]', re.DOTALL
)
_TEXT_OR_PARENTHESIS = re.compile(
    r"'''(?:[^\\']|\\.|'(?!''))*+(?:''')?|\"\"\"(?:[^\\\"]|\\.|\"(?!\"\"))*+(?:\"\"\")?"
    r"|\"[^\"\\]*+(?:\\.[^\"\\]*+)*+\"?|'[^'\\]*+(?:\\.[^'\\]*+)*+'?|[()\[\]{}]",
    re.DOTALL,
)


def past_brackets(text: str, at: int, reach: int | None = None) -> int:
    """The place after an object or a list, however broken: where its brackets are even, or what ends a call stands
    outside its texts; the end, or `reach` characters on, where neither comes.
    """
    depth = 0
    end = len(text) if reach is None else min(len(text), at + reach)
    for found in _TEXT_OR_BRACKET.finditer(text, at, end):
        what = found.group()
        if what.startswith('"'):
            continue
        if what not in "{}[]":
            return found.start()
        depth += 1 if what in "{[" else -1
        if depth == 0:
            return found.end()
    return end


def past_code(text: str, at: int) -> int:
    """The place after the parentheses of a call written as code, however broken; the end where they never close, or
    where another bracket than theirs does: more text may show that it stood in a string.
    """
    depth, closer = 0, ")" if text.startswith("(", at) else "]"
    for found in _TEXT_OR_PARENTHESIS.finditer(text, at):
        what = found.group()
        if what[0] not in "\"'":
            depth += 1 if what in "([{" else -1
            if depth == 0:
                return found.end() if what == closer else len(text)
    return len(text)
