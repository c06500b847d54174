"""Finds placeholders with which a model omits code, such as `# ... rest of the code unchanged`.

A comment is a placeholder if it consists of dots, if it begins with dots and states that something stays, or if it
states nothing else. Comments of real programs are rarely of that kind: `tests/core/tasks/test_elision.py` counts them.
"""

from __future__ import annotations

import re

_OPENERS = r"""(?:\#+|//+|/\*+|--+|;+|%+|<!--|\{/\*|\(\*|"{3}|'{3})"""
_CLOSERS = r"""(?:\*+/\}?|-->|\*\)|"{3}|'{3})"""
_COMMENT = re.compile(rf"\s*{_OPENERS}[ \t]*(?P<text>.*?)[ \t]*{_CLOSERS}?\s*")
_DOTS = r"(?:\.{3,}|…+)"
_BARE = re.compile(rf"\[?{_DOTS}\]?")
_THING = (
    r"(?:code|file|functions?|class|methods?|module|implementation|content|body|logic|imports?|tests?|lines|document"
    r"|section)"
)
_STAYS = (
    r"(?:(?:remains?|stays?|is|are|goes|continues?|kept) )?"
    r"(?:unchanged|omitted|here|above|below|as before|as is|as it is|the same|in place)\b.*"
)
_AFTER_DOTS = re.compile(
    rf"\[?{_DOTS}\s*\(?.*\b(?:rest|remain(?:s|ing|der)?|existing|previous|original|other|unchanged|omitted"
    r"|as before|snip(?:ped)?)\b.*",
    re.IGNORECASE,
)
_PHRASE = re.compile(
    rf"\[?\(?(?:the )?(?:(?:rest|remainder) of (?:the |this )?{_THING}(?: {_STAYS})?"
    rf"|(?:existing|remaining) (?:code|implementation|logic|content)(?: {_STAYS})?"
    rf"|(?:existing|remaining|previous|other|original) {_THING} {_STAYS}"
    rf"|{_THING} (?:remains? |stays? |is |are )?(?:unchanged|omitted)(?: here)?)\)?\]?",
    re.IGNORECASE,
)
_OUTSIDE_COMMENTS = re.compile(rf"[\[(<]?{_DOTS} .*\b(?:unchanged|omitted|rest of)\b.*", re.IGNORECASE)
_MAX_LENGTH = 200
"""Characters of a line; a placeholder is short."""


def find_elision(before: str, after: str) -> str | None:
    """Return the first line of `after` that omits code and is not a line of `before`; None if there is none."""
    known = {line.strip() for line in before.splitlines()}
    return next((line.strip() for line in after.splitlines() if line.strip() not in known and _is_elision(line)), None)


def _is_elision(line: str) -> bool:
    if len(line) > _MAX_LENGTH:
        return False
    comment = _COMMENT.fullmatch(line)
    if comment is None:
        return _OUTSIDE_COMMENTS.fullmatch(line.strip()) is not None
    text = comment["text"].strip()
    return any((_BARE.fullmatch(text), _PHRASE.fullmatch(text.strip(".…! ")), _AFTER_DOTS.fullmatch(text)))
