"""Finds positions where something other than plain text may start: a call, reasoning, a message header, a token.

The search is one fast pattern, each of whose alternatives starts with a distinct character; `markup.py`, `headers.py`
and the readers then examine the position. `find_undecided_end` returns how much of the end of an incomplete text may be
the start of such a position.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from forge_proxy.core.rescue.grammar.json_keys import ARGUMENT_KEYS, NAME_KEYS
from forge_proxy.core.rescue.grammar.learned_form import LearnedForm, form_patterns
from forge_proxy.core.tool_names import offered_names

_KEYS = "|".join(
    (*NAME_KEYS, *ARGUMENT_KEYS, "type", "id", "tool_calls", "function_call", "tool_call_id", "role", "content")
)
_KEY = rf"[\"'“`]?(?:{_KEYS})[\"'”`]?\s{{0,8}}(?:=>|[:=])"
FENCE = re.compile(r"(?<!`)```[A-Za-z_]{0,12}[ \t]{0,4}\n\s{0,8}\Z")
CALL_FENCE = re.compile(
    r"```(?:tool_calls?|tool_code|tool|invoke|function_calls?|function)(?:[ \t]+(?P<name>[^\s`]{1,128}))?[ \t]*\n"
)
_REACH = 400
"""Characters before the end of an incomplete text within which an unfinished opener can start: the longest tag or
header, with its prefix.
"""
_BEGUN_OBJECT = r"\{\s{0,20}(?:[\"'“`]?[A-Za-z_]{0,24}[\"'”`]?\s{0,8}=?)?"
_UNFINISHED = re.compile(
    r"<(?:[|｜/\]\w][^<>\n]{0,140})?\Z|<<[functio]{0,8}>?\Z|<\|channel>[a-z]{0,8}\Z|<\|start\|>[^\n]{0,140}\Z"
    r"|<\|(?:open|close)\|>(?:(?!<\|sep\|>)[^\n]){0,150}\Z"
    r"|<[|｜\w][^<>\n]{0,60}=[ \t]*(?:\"[^\"\n]{0,200}(?:\"[^<>\n]{0,120})?|'[^'\n]{0,200}(?:'[^<>\n]{0,120})?)\Z"
    rf"|\[(?<!\]<\]minimax\[>\[)(?:[A-Z/_ ]{{0,22}}|\s{{0,8}}(?:[^\W\d][\w.:/-]{{0,127}}|{_BEGUN_OBJECT})?)\Z"
    rf"|{_BEGUN_OBJECT}\Z"
    r"|\](?:<\]?[minax]{0,7}\[?>?)?\Z|✿[A-Z]{0,8}✿?:?\Z|>(?<![\w\]\"'/|>-]>)(?:>{1,2}[^\s<>]{0,128})?\Z"
    r"|`{1,3}\Z|```[A-Za-z_]{1,20}(?:[ \t]{1,4}[^\s`]{0,128})?[ \t]{0,4}\n?\Z"
)
"""An opener that is still incomplete."""
_FIRST_CHARACTER = re.compile(r"[<\[{`✿>\]]")
"""The first character of every opener."""
_TOKEN_BEFORE = re.compile(r"(?:<\w{1,16}>|\]<\]minimax\[>\[)\s{0,4}\Z")
_WORD = re.compile(r"[\w.:/-]+")
_ANNOUNCING = ("Action:", "Call:", "TOOL_CALL", "call:")
_HEADS = ("Action:", "Call:", "TOOL_CALL\n")
_LONGEST = 256
"""Maximum characters of a name: a tool with a longer name is recognized only after markup that names it."""
_IN_QUOTES = rf"[\"'](?P<{{}}>[^\"'\n]{{{{1,{_LONGEST}}}}})[\"']"
_TRIGGER = re.compile(
    r"<(?:(?=[|｜])|(?=<function>>|TOOLCALL>)|/?(?:[\w.-]{1,24}[:|｜_])?(?=(?:tool|function|invoke|think|thought|reason|reflect|calls?\b"
    r"|start_f|end_f|cot_|s>|bos>|eos>|bot_|turn\||channel\||end_of_t|arg_))|(?=(?P<tag>[^<>\n]{1,256}+)>))"
    r"|\[(?=TOOL_CALLS?\]|/TOOL_CALLS?\]|ARGS\]|CALL_ID\]|/?THINK\]|BEGIN FINAL|END FINAL"
    rf"|\s{{0,8}}\{{\s{{0,20}}{_KEY}|\s{{0,8}}[^\W\d][\w.:/-]{{0,127}}\("
    rf"|\s{{0,8}}\{{\s{{0,20}}{_IN_QUOTES.format('listed')})"
    rf"|\{{(?=\s{{0,20}}{_KEY}|\s{{0,20}}{_IN_QUOTES.format('key')}\s{{0,8}}:)"
    r"|`(?=``(?:tool|invoke|function))"
    r"|✿(?=FUNCTION✿)|\](?=<\]minimax)|>(?<![\w\]\"'/|>-]>)(?=>>)"
    r"|\n(?=[ \t]{0,4}(?:Action:|Call:|TOOL_CALL\n|(?P<line>[^\s<>\[\]{}()\"'`,;=|｜\\✿]{1,256}+)\())"
)
"""Possible starts. If an alternative requires an offered tool name, its last matched group is that name."""
_FIRST = re.compile(r"\s{0,4}(?:(?:assistant\s)?to=|Action:|Call:|TOOL_CALL\n|call:|all\n)")
_FIRST_NAME = re.compile(r"\s{0,4}(?P<name>[^\s<>\[\]{}()\"'`,;=|｜\\✿]{1,256})")
_SLASH = re.compile("/")
_AFTER_FIRST_NAME = re.compile(r"\(|\s{0,2}\n\s{0,4}[{<]|\s?\{")
_FIRST_BEGUN = re.compile(r"\s{0,4}(?:assistant\s)?[\w.:/=-]{0,140}\s{0,12}\Z")
_NAME_BEGUN = re.compile(r"(?<![\w.:/-])[\w.:/-]+\s{0,4}\Z")
_NAME_BEFORE = re.compile(
    r"(?:<(?P<tag>\w{1,16})>\s{0,4})?(?<![\w.:/-])(?:functions\.)?(?P<name>[\w.:/-]{1,256}?)(?::\d{1,4})?\s{0,4}\Z"
)


class PrecedingName(NamedTuple):
    """The offered name before a token, its start, and the tag that replaces the opener, if any."""

    name: str
    start: int
    tag: str


class Openers:
    """Search for possible starts, for one set of offered names."""

    def __init__(self, names: tuple[str, ...], form: LearnedForm | None = None, *, general: bool = True) -> None:
        self._names = offered_names(tuple(name for name in names if 0 < len(name) <= _LONGEST))
        longest = max(map(len, self._names.sorted), default=0)
        self._reach = max(longest, len("functools")) + len("functions.") + 12
        self._longest_line_start = max(longest + 1, *map(len, _HEADS))
        self._first_characters = frozenset(name[0] for name in (*self._names.sorted, "functions."))
        self._general = general
        self._learned = form_patterns(form) if form else None
        self._trigger = _trigger_with(self._learned.opener_source, general=general) if self._learned else _TRIGGER

    def find_preceding_name(self, text: str, low: int, position: int) -> PrecedingName | None:
        """Return the offered name directly before a position, with the tag that replaces the opener, if any."""
        match = _NAME_BEFORE.search(text, low, position)
        if match is None:
            return None
        written_name = text[match.start("name") : position].rstrip()
        for name in (written_name, match["name"], f"functions.{written_name}"):
            if name in self._names:
                return PrecedingName(name, match.start(), match["tag"] or "")
        return None

    def find(self, text: str, start: int) -> int:
        """Return the first possible start at or after `start`; -1 for none."""
        for match in self._trigger.finditer(text, start):
            if match.lastindex is None or match[match.lastindex] in self._names:
                return match.start()
        return -1

    def opens_learned_form(self, text: str, position: int) -> bool:
        """Whether the markup that was learned from the model's template starts here."""
        return self._learned is not None and self._learned.begins.match(text, position) is not None

    def begins_with_call(self, text: str) -> bool:
        """Whether a response starts with a call without markup: a tool name, or words that announce a call."""
        if not self._general:
            return False
        if _FIRST.match(text):
            return True
        match = _FIRST_NAME.match(text)
        if not match:
            return False
        written_name = match["name"]
        names = (written_name, written_name.removeprefix("functions."))
        if _AFTER_FIRST_NAME.match(text, match.end()) and any(name in self._names for name in names):
            return True
        return any(name[: slash.start()] in self._names for name in names for slash in _SLASH.finditer(name))

    def find_undecided_end(self, text: str, start: int, *, first: bool) -> tuple[int, int]:
        """Return where the end of an incomplete text may belong to a later call, and where an incomplete opener starts;
        the length of the text for each that does not apply.

        `first` is whether `text` starts at the beginning of the response.
        """
        low = max(start, len(text) - _REACH)
        if first and _FIRST_BEGUN.match(text):
            return 0, 0
        marker = _FIRST_CHARACTER.search(text, low)
        incomplete = _UNFINISHED.search(text, marker.start()) if marker else None
        end = unfinished = incomplete.start() if incomplete else len(text)
        name = _NAME_BEGUN.search(text, max(low, end - self._reach), end)
        if marker:
            end = _find_lead_in(text, marker.start(), end)
        if name and self._may_be_name(name.group().rstrip()):
            end = min(end, _find_lead_in(text, marker.start(), name.start()) if marker else name.start())
        if self._learned and (begun := self._learned.unfinished.search(text, low)):
            end, unfinished = min(end, begun.start()), min(unfinished, begun.start())
        line = text.rfind("\n", low) + 1
        if line and self._may_begin_line(text[line:].lstrip(" \t")):
            end, unfinished = min(end, line - 1), min(unfinished, line - 1)
        return end, unfinished

    def _may_begin_line(self, rest: str) -> bool:
        """Whether a line that starts with `rest` may start a call."""
        if len(rest) > self._longest_line_start:
            return False
        if not rest or any(head.startswith(rest) for head in _HEADS):
            return True
        return rest.removesuffix("(") in self._names or self._names.any_begins_with(rest)

    def may_announce(self, words: str) -> bool:
        """Whether a text that starts with `words` may start with a call announced by a name or a word."""
        word = _WORD.match(words)
        if word is None:
            return False
        return word.end() == len(words) or word.group() in _ANNOUNCING or self._may_be_name(word.group())

    def _may_be_name(self, prefix: str) -> bool:
        """Whether a tool name may start with `prefix`, as before `[ARGS]` or Kimi's number and token."""
        if prefix[0] not in self._first_characters:
            return False
        if "functools".startswith(prefix) or "functions.".startswith(prefix):
            return True
        name = prefix.removeprefix("functions.")
        return self._names.any_begins_with(name) or name.split(":")[0] in self._names


def _find_lead_in(text: str, low: int, end: int) -> int:
    """Return the start of a fence or token directly before `end` that may belong to a call; `end` for none."""
    for before in (_TOKEN_BEFORE, FENCE, _TOKEN_BEFORE) if low < end else ():
        match = before.search(text, low, end)
        end = match.start() if match else end
    return end


@lru_cache(maxsize=16)
def _trigger_with(learned: str, *, general: bool) -> re.Pattern[str]:
    """Return the pattern of possible starts with a learned one, which has no groups, before all others or alone."""
    return re.compile(rf"(?:{learned})|{_TRIGGER.pattern}" if general else learned)


@lru_cache(maxsize=8)
def openers(names: tuple[str, ...], form: LearnedForm | None = None, *, general: bool = True) -> Openers:
    """Return the openers for these names. A small cache suffices, because `offered_names` caches the large part."""
    return Openers(names, form, general=general)
