"""Classifies the result of a tool: an error, a temporary error, or the state of work in progress.

Results are free text, so this is a heuristic. Only the beginning of a result is read: a page or a file that mentions an
error is not an error.
"""

from __future__ import annotations

import re
from enum import Enum, auto

_HEAD = 400
"""Characters at the beginning of a result that are read."""
_SHORT = 300
"""Characters up to which a result is read as one message; a longer one is read by its beginning and its fields."""
_BEGINNING = re.compile(
    r"""[^\w{"']{0,4}(?:\w{0,40}error\b|\w{0,40}exception\b|fail(?:ed|ure)\b|traceback\b|invalid\b|unknown\b|fatal\b
    |cannot\b|can't\b|could\ not\b|couldn't\b|unable\ to\b|no\ such\b|not\ found\b
    |(?:(?:permission|access)\ )?denied\b|forbidden\b|unauthori[sz]ed\b
    |(?:http|status|code)(?:\W{1,2}(?:status|code|error))?\W{0,2}[45]\d\d\b
    |[45]\d\d(?:\Z|:|\ -|\ (?:bad|conflict|forbidden|gateway|gone|internal|method|not|request|service|too|unauth)))""",
    re.IGNORECASE | re.VERBOSE,
)
_EMPTY = r"""(?:null|none|false|0|\[\s?\]|\{\s?\}|""|'')\s{0,3}[,}\]]"""
_FIELD = re.compile(
    rf"""["'](?:is_?error|failed)["']\s{{0,3}}:\s{{0,3}}true
    |["'](?:success|ok|succeeded)["']\s{{0,3}}:\s{{0,3}}false
    |["'](?:status|state|result|outcome)["']\s{{0,3}}:\s{{0,3}}["'](?:error|failed|failure|denied|rejected|[45]\d\d)\b
    |["'](?:status|status_?code|code)["']\s{{0,3}}:\s{{0,3}}[45]\d\d\b
    |["'](?:error|errors|error_?message|exception)["']\s{{0,3}}:\s{{0,3}}(?!{_EMPTY})[^\s,}}]
    |\bexit(?:ed)?(?:\ with)?(?:\ status|\ code)?\s{{0,2}}[:=]?\s{{0,2}}[1-9]\d{{0,2}}\b
    |\[\w{{0,40}}(?:Error|Exception)\]""",
    re.IGNORECASE | re.VERBOSE,
)
_MESSAGE = re.compile(
    r"""\b(?:does\ not\ exist|doesn't\ exist|not\ found|no\ such\ \w+|timed\ out|is\ not\ (?:allowed|permitted|valid)
    |errors?:|exception:|refused|rejected|denied|failed\ to|failed:)|\A\w+\ failed\b|(?<!\d\ )\bfailed\W{0,2}\Z""",
    re.IGNORECASE | re.VERBOSE,
)
_TRANSIENT = re.compile(
    r"""\btime(?:d[\s-]|[\s-]?)out|\A\W{0,4}busy\b|\b(?:database|device|resource|server|service|system)\ (?:is\ )?busy\b
    |\bis\ (?:currently\ )?(?:locked|overloaded)\b|\block\ (?:timeout|held)|deadlock|throttl
    |too\ many\ requests|rate[\s-]?limit|\b(?:try|retry)\ (?:it\ )?(?:again|later)|temporar(?:y|ily)\ (?:error|fail|un)
    |(?:service|server|temporarily)\ (?:is\ )?(?:un|not\ )available|connection\ (?:was\ )?(?:aborted|lost|reset)""",
    re.IGNORECASE | re.VERBOSE,
)
_TRANSIENT_ERROR = re.compile(
    r"\b(?:429|5\d\d)\b|busy|locked|unavailable|overloaded|internal server error|not (?:yet )?ready", re.IGNORECASE
)
"""What reads as transient only in an error: the number may be any, and a person can be busy."""
_UNDER_WAY = re.compile(
    r"""\b(?:pending|queued|running|in[\s_-]progress|processing|starting|waiting
    |not\ (?:yet\ )?(?:done|finished|complete|ready))\b""",
    re.IGNORECASE | re.VERBOSE,
)


_TRIGGERS = (
    "again", "busy", "code", "connection", "deadlock", "den", "err", "exce", "exist", "exit", "fail", "later", "lock",
    "no such", "not", "ok", "outcome", "out", "overload", "pending", "process", "progress", "queued", "rate", "refus",
    "reject", "result", "running", "scheduled", "starting", "stat", "success", "succeed", "tempor", "throttl",
    "too many", "unavail", "waiting",
)  # fmt: skip
"""Nearly all results contain none of these, and then match none of the patterns but `_BEGINNING`."""


class ResultKind(Enum):
    """The kind of a tool's result."""

    OK = auto()
    ERROR = auto()
    TRANSIENT = auto()
    """A temporary error: a timeout, a lock, a limit, an overloaded server."""
    UNDER_WAY = auto()
    """The state of work in progress, such as `pending`."""


def read_kind(result: str) -> ResultKind:
    """Return the kind of a result, read from its text as the model reads it."""
    head, is_short = result[:_HEAD].strip(), len(result) <= _SHORT
    begins_as_error = _BEGINNING.match(head)
    if not begins_as_error and not _has_trigger(head.lower()):
        return ResultKind.OK
    if begins_as_error or _FIELD.search(head) or (is_short and _MESSAGE.search(head)):
        is_transient = _TRANSIENT.search(head) or _TRANSIENT_ERROR.search(head)
        return ResultKind.TRANSIENT if is_transient else ResultKind.ERROR
    if is_short and _TRANSIENT.search(head):
        return ResultKind.TRANSIENT
    return ResultKind.UNDER_WAY if is_short and _UNDER_WAY.search(head) else ResultKind.OK


def _has_trigger(text: str) -> bool:
    return any(trigger in text for trigger in _TRIGGERS)


def is_usable(result: str) -> bool:
    """Whether a result is not an error, so that the model can use it."""
    return read_kind(result) in (ResultKind.OK, ResultKind.UNDER_WAY)
