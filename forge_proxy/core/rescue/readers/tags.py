"""Reads the arguments of a call that are written in tags: `<parameter=city>Oslo</parameter>` and its variants.

Values are raw text, kept unchanged; their type comes from the schema.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from forge_proxy.core.jsontypes import Json, read_value, skip_space
from forge_proxy.core.rescue.context.parse_context import ParseContext
from forge_proxy.core.rescue.grammar.markup import CLOSE, OPEN
from forge_proxy.core.rescue.readers.nested_tags import NAMED, PAIRED

_WRAPPERS = r"tool[_-]?calls?|function[_-]?calls?|tool_use|tool|call|calls"
_CALL_TAGS = {
    "": rf"{_WRAPPERS}|invoke|function",
    "invoke": rf"{_WRAPPERS}|invoke",
    "function": rf"{_WRAPPERS}|function",
}
"""Tags that may close a call, by the tag that opened it; the closer of another form is part of the value."""

_PARAMETER = re.compile(
    rf"(?P<tag>{OPEN}(?:parameter|param|argument|arg)(?:[\sĠ]*name)?\s*=)\s*(?:(?P<q>[\"'])(?P<quoted>[^\"'<>\n]{{1,128}}?)(?P=q)"
    r"(?P<more>\s[^<>]{0,120})?|(?P<key>[^\"'<>\n]{1,128}?)\s*)>"
)
_PAIR = re.compile(
    rf"{OPEN}arg_key>\s*(?P<key>.{{1,128}}?)\s*{CLOSE}arg_key>(?:\s|\\n)*(?:{OPEN}arg_type>.{{0,64}}?{CLOSE}arg_type>\s*)?"
    rf"(?P<open>{OPEN}arg_value>)?"
)
_PAIR_BEGINS = re.compile(rf"{OPEN}arg_key>")
_CHILD = re.compile(rf"(?P<open>{OPEN})(?P<key>[^\W\d][\w.-]{{0,127}})>")
_ENDING = rf"{CLOSE}(?:{_CALL_TAGS['']}|parameters|arguments|args)\s*>|</?[|｜]|<[|｜]|\[/|```"
_NEXT = rf"{OPEN}(?:parameter|param|argument|arg)(?:[\sĠ]*name)?\s*=|{OPEN}arg_key>"
_CUT = r"</?[\w:|｜]{0,20}\Z|\Z"
_PAIR_CLOSER = re.compile(rf"{CLOSE}arg_value\s*>(?=\s*(?:{_NEXT}|{_ENDING}|{_CUT}|</\w{{1,24}}>))")
_STOP = re.compile(rf"(?=\s*(?:{_NEXT}|{_ENDING}))")

CDATA = re.compile(r"\s{0,16}<!\[CDATA\[")
CDATA_END = re.compile(r"\]\]>(?=\s{0,16}</)")
_NAME_SPACE = re.compile(r"<([|｜]DSML[|｜]|[\w.-]{1,24}[:|｜])")
_MAX_SPACES = 4
"""Maximum namespaces in one call: each needs a separate pattern, and no model writes more."""


@lru_cache(maxsize=64)
def _closer(space: str, call: str) -> re.Pattern[str]:
    """Return the pattern that ends a value: the closer with the namespace of its opening tag (`""` for none), before
    text that may follow a value in this kind of call.

    Any other closer is part of the value, which may be code that writes such markup.
    """
    close = rf"(?:\]<\]minimax\[>\[)?</{re.escape(space)}\s?" if space else "</"
    ending = rf"{CLOSE}(?:{_CALL_TAGS[call]}|parameters|arguments|args)\s*>|\[/TOOL|```\s*\Z"
    special = r"</?[|｜]|<[|｜]" if space or not call else r"<[|｜][^<>\s]{1,40}[|｜]>\s*(?:\Z|<)"
    return re.compile(rf"{close}(?:parameter|param|argument|arg)\s*>(?=\s*(?:{_NEXT}|{ending}|{special}|{_CUT}))")


@dataclass(slots=True)
class Parameters:
    """Parsed arguments (`values`), the names of those that are raw text (`untyped`), and the position after them."""

    end: int
    values: dict[str, Json] = field(default_factory=dict[str, Json])
    untyped: set[str] = field(default_factory=set[str])
    repairs: set[str] = field(default_factory=set[str])
    open: bool = False
    """Whether the text ended inside a value."""
    doubtful: bool = False
    """Whether the closer of a nested call may have ended a value, because the text was truncated inside the value."""
    _closers: dict[re.Pattern[str], re.Match[str] | None] = field(
        default_factory=dict[re.Pattern[str], "re.Match[str] | None"]
    )

    _spaces: set[str] = field(default_factory=set[str])

    def find_closer(self, text: str, start: int, closer: re.Pattern[str]) -> re.Match[str] | None:
        """Return the first closer of a value at or after `start`, cached so that no text is searched twice."""
        match = self._closers.get(closer)
        if closer not in self._closers or (match and match.start() < start):
            match = self._closers[closer] = closer.search(text, start)
        return match

    def find_namespace(self, tag: str) -> str:
        """Return the namespace of the tag that opens a value, `""` for none."""
        match = _NAME_SPACE.search(tag)
        if not match or (match[1] not in self._spaces and len(self._spaces) == _MAX_SPACES):
            return ""
        self._spaces.add(match[1])
        return match[1]

    def add(self, key: str, value: Json, end: int, *, untyped: bool = True) -> None:
        """Add an argument. The last of equal keys wins."""
        if key in self.values and end > self.end:
            self.repairs.add("repeated parameters")
        self.values[key] = value
        self.untyped.discard(key)
        if untyped:
            self.untyped.add(key)
        self.end = end


def read_parameters(text: str, at: int, context: ParseContext, *, children: bool = False, call: str = "") -> Parameters:
    """Read consecutive arguments from `at` on. If `children` is true, any tag is the name of an argument. `call` is the
    tag that opened the call: `invoke`, `function`, or `""` if unknown.
    """
    parameters = Parameters(at)
    while not parameters.open:
        at = skip_space(text, parameters.end)
        parameter = _PARAMETER.match(text, at)
        if parameter:
            _put_parameter(text, parameter, parameters, call, context)
        elif pair := _PAIR.match(text, at):
            _put_pair(text, pair, parameters, context)
        elif not (children and _put_child(text, at, parameters, context)):
            break
    return parameters


def _put_parameter(text: str, opening: re.Match[str], parameters: Parameters, call: str, context: ParseContext) -> None:
    start = opening.end()
    more = opening["more"] or ""
    key = (opening["quoted"] or opening["key"]).strip()
    if more.rstrip().endswith("/"):
        parameters.add(key, "", start)
        return
    # With a namespace, the next parameter tag is certainly a tag, even if the closer before it is missing.
    tag = opening["tag"]
    space = parameters.find_namespace(tag)
    following = text.find(tag, start) if space else -1
    _put_value(text, key, start, parameters, _closer(space, call), context, stop=following)
    value = parameters.values.get(key)
    if 'string="true"' in more:
        parameters.untyped.discard(key)
    elif 'string="false"' in more and isinstance(value, str):
        read = read_value(value.strip(), 0)
        if read and read[1] == len(value.strip()):
            parameters.add(key, read[0], parameters.end, untyped=False)


def _put_pair(text: str, pair: re.Match[str], parameters: Parameters, context: ParseContext) -> None:
    following = _PAIR_BEGINS.search(text, pair.end())
    _put_value(
        text, pair["key"], pair.end(), parameters, _PAIR_CLOSER, context, stop=following.start() if following else -1
    )
    if pair["open"] is None:  # without a value tag, white space around the value is formatting
        parameters.values[pair["key"]] = str(parameters.values[pair["key"]]).strip()


def _put_value(
    text: str,
    key: str,
    start: int,
    parameters: Parameters,
    pattern: re.Pattern[str],
    context: ParseContext,
    *,
    stop: int = -1,
) -> None:
    """Add the value that starts at `start`, up to its closer or, if that is missing, to the next tag."""
    cdata = CDATA.match(text, start)
    cdata_end = parameters.find_closer(text, cdata.end(), CDATA_END) if cdata else None
    end, following = _find_value_end(text, cdata_end.end() if cdata_end else start, parameters, pattern, context, stop)
    if cdata and cdata_end and not text[cdata_end.end() : end].strip():
        parameters.add(key, join_cdata(text[cdata.end() : cdata_end.start()]), following)
        return
    value = text[start:end]
    parameters.add(key, value if pattern is _PAIR_CLOSER else strip_line_breaks(value), following)


def join_cdata(content: str) -> str:
    """Return the content of CDATA sections in a row: in XML, `]]>` ends in one and continues in the next."""
    return content.replace("]]><![CDATA[", "")


def _find_value_end(
    text: str, start: int, parameters: Parameters, pattern: re.Pattern[str], context: ParseContext, stop: int
) -> tuple[int, int]:
    """Return the end of the value and the start of the text after it. `stop` is the next tag, or -1 if unknown."""
    closer = parameters.find_closer(text, start, pattern)
    nested_tags = PAIRED if pattern is _PAIR_CLOSER else NAMED
    if closer and nested_tags.contains_value(text, start, closer.start()):
        if own := nested_tags.find_closer(text, start, pattern, context):
            return own.start(), own.end()
        parameters.doubtful = parameters.doubtful or nested_tags.contains_call(text, start, closer.start())
    if closer and not 0 <= stop < closer.start():
        return closer.start(), closer.end()
    parameters.repairs.add("closing tags")
    if stop < 0 or nested_tags is PAIRED:  # white space before the next tag is part of the format
        following = _STOP.search(text, start)
        parameters.open = following is None
        stop = following.start() if following else len(text)
    return stop, stop


def _put_child(text: str, at: int, parameters: Parameters, context: ParseContext) -> bool:
    opening = _CHILD.match(text, at)
    if not opening:
        return False
    key = opening["key"]
    end = skip_child(text, opening, context)
    if end is None:
        return False
    closing = text.rfind("</", opening.end(), end)
    value = text[opening.end() : closing]
    # After MiniMax's token, line breaks are part of the value.
    raw = opening["open"].startswith("]")
    parameters.add(key, value.removesuffix("]<]minimax[>[") if raw else strip_line_breaks(value), end)
    return True


def skip_child(text: str, opening: re.Match[str], context: ParseContext) -> int | None:
    """Return the position after the matching closing tag, counting nested tags of the same name; None without one."""
    depth = 0
    name = re.escape(opening["key"])
    if not context.may_search(len(text) - opening.start()):
        return None
    for tag in re.compile(rf"{OPEN}{name}>|({CLOSE}{name}\s*>)").finditer(text, opening.start()):
        depth += -1 if tag[1] else 1
        if depth == 0:
            context.spend_search(tag.end() - opening.start())
            return tag.end()
    context.spend_search(4 * (len(text) - opening.start()))  # a failed search scans the text to its end
    return None


def strip_line_breaks(value: str) -> str:
    """Return the value without the single line break that the format adds before and after it."""
    if value.startswith("\r\n"):
        return value[2:].removesuffix("\r\n")
    return value.removeprefix("\n").removesuffix("\n")
