"""Finds the end of an unparsable candidate, inside which no call may start.

A broken or truncated call may contain the text of another one, for example in a file that it writes.
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


def skip_brackets(text: str, at: int, reach: int | None = None) -> int:
    """Return the position after a possibly broken object or list: where its brackets balance, or before markup outside
    its strings that ends a call; otherwise the end of the text, or `reach` characters further.
    """
    depth = 0
    end = len(text) if reach is None else min(len(text), at + reach)
    for match in _TEXT_OR_BRACKET.finditer(text, at, end):
        symbol = match.group()
        if symbol.startswith('"'):
            continue
        if symbol not in "{}[]":
            return match.start()
        depth += 1 if symbol in "{[" else -1
        if depth == 0:
            return match.end()
    return end


def skip_code(text: str, at: int) -> int:
    """Return the position after the brackets of a call written as code, however broken; the end of the text if they
    never close or a bracket of another kind closes them, since further text may show that it is inside a string.
    """
    depth, closer = 0, ")" if text.startswith("(", at) else "]"
    for match in _TEXT_OR_PARENTHESIS.finditer(text, at):
        symbol = match.group()
        if symbol[0] not in "\"'":
            depth += 1 if symbol in "([{" else -1
            if depth == 0:
                return match.end() if symbol == closer else len(text)
    return len(text)
