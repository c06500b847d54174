"""Scans a text from start to end and yields the parts that are not plain text.

`rescue` parses a complete text and then selects the intended calls; `StreamingParser` parses an incomplete one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from forge_proxy.core.jsontypes import skip_space
from forge_proxy.core.rescue.context.display_only import DisplayOnlySpans, is_displayed, is_indented_or_quoted
from forge_proxy.core.rescue.context.parse_context import ParseContext
from forge_proxy.core.rescue.context.skip_unparsed import skip_brackets, skip_code
from forge_proxy.core.rescue.context.surroundings import FUNCTOOLS, TOOL_TAG, Surroundings
from forge_proxy.core.rescue.grammar.headers import (
    MESSAGE_END,
    THINK_CLOSE,
    THINK_OPEN,
    MessageHeader,
    is_mention,
    read_header,
)
from forge_proxy.core.rescue.grammar.learned_form import LearnedForm
from forge_proxy.core.rescue.grammar.markup import ARGUMENT_TOKEN, INVOKE, MINIMAX, NOISE, OPENER
from forge_proxy.core.rescue.grammar.openers import CALL_FENCE
from forge_proxy.core.rescue.readers.bare_calls import (
    read_first_form,
    read_loose_form,
    read_tool_tag,
    skip_broken_call,
    skip_first_form,
    skip_named_arguments,
    skip_other_object,
    starts_call,
)
from forge_proxy.core.rescue.readers.call_bodies import Body, read_body, read_invoke, read_named
from forge_proxy.core.rescue.readers.learned_calls import find_call_end, read_begun_name, read_learned_calls
from forge_proxy.core.rescue.readers.pythonic import CALL
from forge_proxy.core.rescue.text_parts import UNPARSABLE_CODE, PartKind, TextPart

_MAX_UNPARSABLE = 64
"""Maximum unparsable candidates in one text; the parser stops after them, which keeps its run time linear."""
_LINE = 80
"""Characters of the line before a position that are checked for an announcement of a call."""
_INSIDE_CODE = re.compile(r"[{}\[\]\"=]")
_WRITTEN_NAME = re.compile(r"[ \t]{0,4}(?P<name>[^\s<>{}()\[\]\"']{1,128})(?=\s{0,4}[\n{<✿])")
_MORE_CALLS = re.compile(r"\s*,\s*(?=\{)")
_PROGRAM = re.compile(r"^(?:import|from|def|class|async def)[ \t]", re.MULTILINE)
_CLOSING_FENCE = re.compile(r"\s{0,8}```[ \t]{0,4}(?=\n|\Z)")


class Parser:
    """Single pass over one text. `ended` is false if more text may follow."""

    def __init__(
        self, text: str, context: ParseContext, open_fence: str = "", previous_end: int = 0, *, ended: bool = True
    ) -> None:
        self._text = text
        self._context = context
        self.openers = context.openers
        self.surroundings = Surroundings(text, context, open_fence, ended=ended)
        self._failures = 0
        self._user_message_start: int | None = None
        """Start of the message that its header addresses to the user: markup after other text in it is display only."""
        self._last: TextPart | None = None
        self._display_only = DisplayOnlySpans(text)
        self._previous_end = previous_end
        """End of the previous part, which also counts as the start of a line."""

    def parts(self) -> Iterator[TextPart]:
        """Yield the parts that are not plain text, in order."""
        at = 0
        if part := self.read_start():
            yield self._record(part)
            at = part.end
        while self._failures < _MAX_UNPARSABLE and (position := self.openers.find(self._text, at)) >= 0:
            if self.surroundings.may_open(position, at) and self._display_only.contains(position, at):
                at = self._display_only.end if self._begins_call(position) else position + 1
                continue
            part = self.read_part(position, at)
            if isinstance(part, int):
                at = max(part, position + 1)
                continue
            at = max(part.end, position + 1)
            yield self._record(part)
            if part.form == "json" and part.explicit and (more := _MORE_CALLS.match(self._text, at)):
                # The next call of a list, which cannot be parsed.
                at = skip_brackets(self._text, more.end())
                yield self._record(TextPart(PartKind.BROKEN, part.end, at))

    def _begins_call(self, position: int) -> bool:
        """Whether `position` is markup that starts a call rather than a mere mention."""
        opener = OPENER.match(self._text, position)
        return (
            starts_call(self._text, opener.end(), self._context) if opener else bool(INVOKE.match(self._text, position))
        )

    def _record(self, part: TextPart) -> TextPart:
        if part.kind is not PartKind.PLAIN:  # backticks inside a part do not delimit code
            self.surroundings.code_spans.exclude(part.start, part.end)
        self._last, self._previous_end = part, part.end
        self._failures += part.kind is PartKind.BROKEN
        return part

    def read_start(self) -> TextPart | None:
        """Return the part at the start of the response, if any: a message header, a tool name or `Action:`."""
        text = self._text
        if not self.openers.begins_with_call(text):
            return None
        if header := read_header(text, 0):
            return self._parse_message(header)
        start = len(text) - len(text.lstrip())
        return self._parse_first_form(start)

    def read_part(self, position: int, low: int) -> TextPart | int:
        """Return the part at `position`, which may start no earlier than `low`; or where to continue."""
        code = self.surroundings.find_code(position, low)
        if code and not self._follows_call(code[0], position):
            return code[1]
        fenced = code is not None
        form = self._context.form
        if form is None or not self.openers.opens_learned_form(self._text, position):
            return self._parse_general_form(position, low, fenced=fenced)
        learned = self._parse_learned_form(form, position, low, fenced=fenced)
        if learned is not None:
            return learned
        part = self._parse_general_form(position, low, fenced=fenced) if self._context.general else position + 1
        is_call = isinstance(part, TextPart) and part.kind in (PartKind.CALLS, PartKind.BROKEN)
        if is_call or fenced or not self._begins_learned_call(form, position):
            return part
        return TextPart(PartKind.BROKEN, position, find_call_end(self._text, position, form))

    def _parse_learned_form(self, form: LearnedForm, position: int, low: int, *, fenced: bool) -> TextPart | int | None:
        """Return the calls at `position` in the form of the model's template; None if they are unreadable."""
        if not form.is_distinctive and not self._is_announced(position):
            return None
        body = read_learned_calls(self._text, position, form, self._context)
        if body is None:
            return None
        if not form.is_distinctive and not all(self._context.resolve_name(parsed.call.tool) for parsed in body[0]):
            return None
        part = self._make_explicit_part(position, low, position + 1, body, fenced=fenced)
        return replace(part, explicit=part.explicit and form.is_distinctive) if isinstance(part, TextPart) else part

    def _begins_learned_call(self, form: LearnedForm, position: int) -> bool:
        """Whether a call in that form was certainly started at `position`: its markup and an offered name."""
        name = read_begun_name(self._text, position, form)
        return form.is_distinctive and name is not None and (not name or self._context.resolve_name(name) is not None)

    def _parse_general_form(self, position: int, low: int, *, fenced: bool) -> TextPart | int:
        match self._text[position]:
            case "<":
                return self._parse_tag(position, low, fenced=fenced)
            case "[":
                return self._parse_bracket(position, low, fenced=fenced)
            case "{":
                return self._parse_loose(position, low, fenced=fenced)
            case "`":
                return self._parse_call_fence(position)
            case "]":
                return (
                    TextPart(PartKind.NOISE, position, position + len(MINIMAX))
                    if self._text.startswith(MINIMAX, position)
                    else position + 1
                )
            case "\n":
                return self._parse_line(position)
            case "✿" | ">":
                return self._parse_marker(position)
            case _:  # of a learned form only
                return position + 1

    def _parse_tag(self, position: int, low: int, *, fenced: bool) -> TextPart | int:
        text = self._text
        if text.startswith(("<|start|>", "<|channel|>", "<|message|>"), position) and (
            header := read_header(text, position)
        ):
            return self._parse_message(header)
        if (reasoning := self._parse_reasoning_tag(position)) is not None:
            return reasoning
        if ARGUMENT_TOKEN.match(text, position) and (part := self._parse_preceding_name(position, low, fenced=fenced)):
            return part
        if opener := OPENER.match(text, position):
            return self._parse_opener(position, opener.end(), low, fenced=fenced)
        if invoke := INVOKE.match(text, position):
            body = read_invoke(text, invoke, self._context)
            tool_name = invoke["quoted"] or invoke["name"] or invoke["bare"]
            mention = self._context.resolve_name(tool_name) is None and not text.startswith(
                ("<", "{"), skip_space(text, invoke.end())
            )
            return self._make_explicit_part(position, low, invoke.end(), body, fenced=fenced, mention=mention)
        if (tag := TOOL_TAG.match(text, position)) and self._context.resolve_name(tag["name"]):
            body = read_tool_tag(text, tag, self._context)
            if body is None and not fenced and self._is_cut_tool_tag(tag):
                return TextPart(PartKind.BROKEN, position, len(text))
            part = self._make_explicit_part(position, low, tag.end(), body, fenced=fenced, mention=True)
            # A tag with the name of a tool may belong to any HTML or XML response.
            return replace(part, explicit=False) if isinstance(part, TextPart) else part
        noise = NOISE.match(text, position)
        if noise is None or fenced or is_mention(text, position, noise.end()):
            return position + 1
        return TextPart(PartKind.NOISE, position, noise.end())

    def _parse_bracket(self, position: int, low: int, *, fenced: bool) -> TextPart | int:
        text = self._text
        if opener := OPENER.match(text, position):
            return self._parse_opener(position, opener.end(), low, fenced=fenced)
        if (reasoning := self._parse_reasoning_tag(position)) is not None:
            return reasoning
        if ARGUMENT_TOKEN.match(text, position):
            return self._parse_preceding_name(position, low, fenced=fenced) or position + 1
        if noise := NOISE.match(text, position):
            return TextPart(PartKind.NOISE, position, noise.end())
        if self.surroundings.follows_functools(position, low):
            return self._make_explicit_part(
                position - len(FUNCTOOLS), low, position, read_body(text, position, self._context), fenced=fenced
            )
        return self._parse_loose(position, low, fenced=fenced)

    def _parse_reasoning_tag(self, position: int) -> TextPart | int | None:
        """Return the reasoning at `position`, or a closing tag whose opening tag is in the chat template."""
        text = self._text
        opening = THINK_OPEN.match(text, position)
        edge = opening or THINK_CLOSE.match(text, position)
        if edge is None:
            return None
        if is_mention(text, position, edge.end()):
            return edge.end()
        return (
            self._parse_reasoning(position, edge.end(), THINK_CLOSE)
            if opening
            else TextPart(PartKind.LONE_CLOSER, position, edge.end())
        )

    def _parse_opener(self, position: int, end: int, low: int, *, fenced: bool) -> TextPart | int:
        """Return the part that starts with an opener."""
        body = read_body(self._text, end, self._context)
        # A model rarely mentions a special token of its own vocabulary.
        mention = self._text[position + 1] not in "|｜" and not starts_call(self._text, end, self._context)
        return self._make_explicit_part(position, low, end, body, fenced=fenced, mention=mention)

    def _make_explicit_part(
        self, position: int, low: int, end: int, body: Body | None, *, fenced: bool, mention: bool = False
    ) -> TextPart | int:
        """Return the part whose markup ends at `end`: calls, or a broken call unless it is only a mention."""
        text = self._text
        if self._user_message_start is not None and text[self._user_message_start : position].strip():
            return body[1] if body else end
        if body and is_displayed(text, position, body[1]):
            return body[1]
        if body is None:
            if mention or fenced:
                return end
            return TextPart(PartKind.BROKEN, position, skip_broken_call(text, end))
        return self._make_calls_part(position, low, body, explicit=True, fenced=fenced)

    def _is_cut_tool_tag(self, tag: re.Match[str]) -> bool:
        """Whether a tag with the name of a tool contains another tag and is never closed."""
        inside = self._text.startswith("<", skip_space(self._text, tag.end()))
        return inside and self._text.find(f"</{tag['name']}>", tag.end()) < 0

    def is_unclosed_tool_tag(self, position: int) -> bool:
        """Whether a tag with the name of a tool starts at `position`, contains another tag, and is not closed yet."""
        tag = TOOL_TAG.match(self._text, position)
        if tag is None or self._context.resolve_name(tag["name"]) is None:
            return False
        if not self._text.startswith("<", skip_space(self._text, tag.end())):
            return False
        depth = 0
        for edge in re.compile(rf"<(/?){re.escape(tag['name'])}>").finditer(self._text, position):
            depth += -1 if edge[1] else 1
            if depth == 0:
                return False
        return True

    def _make_calls_part(self, position: int, low: int, body: Body, *, explicit: bool, fenced: bool) -> TextPart:
        """Return the part for parsed calls, including the code fence around them."""
        text = self._text
        calls, end, form = body
        start = position if self.surroundings.fence is None else self.surroundings.fence
        if text.endswith(MINIMAX, low, start):
            start -= len(MINIMAX)
        fenced = fenced or self.surroundings.fence is not None
        explicit = explicit and not fenced and not is_indented_or_quoted(text, start)
        if fenced and (closing := _CLOSING_FENCE.match(text, end)):
            end = closing.end()
        return TextPart(PartKind.CALLS, start, end, tuple(calls), form, explicit=explicit, fenced=fenced)

    def _parse_reasoning(self, position: int, begins: int, closer: re.Pattern[str]) -> TextPart:
        closing = closer.search(self._text, begins)
        if closing is None:
            return TextPart(PartKind.REASONING, position, len(self._text), inner=(begins, len(self._text)))
        return TextPart(PartKind.REASONING, position, closing.end(), inner=(begins, closing.start()))

    def _parse_message(self, header: MessageHeader) -> TextPart:
        """Return the part that starts with a message header."""
        text = self._text
        self._user_message_start = header.end if header.audience == "user" else None
        if header.audience == "user":
            return TextPart(PartKind.NOISE, header.start, header.end)
        if header.audience == "self":
            return self._parse_reasoning(header.start, header.end, MESSAGE_END)
        begins = header.end + len(text[header.end : header.end + 8]) - len(text[header.end : header.end + 8].lstrip())
        has_markup = OPENER.match(text, begins) or INVOKE.match(text, begins)
        body = (
            read_body(text, begins, self._context)
            if has_markup
            else read_named(text, begins, self._context, header.tool)
        )
        if body is None:
            end = MESSAGE_END.search(text, begins)
            return TextPart(PartKind.BROKEN, header.start, end.start() if end else len(text))
        return TextPart(PartKind.CALLS, header.start, body[1], tuple(body[0]), "message")

    def _parse_preceding_name(self, position: int, low: int, *, fenced: bool) -> TextPart | None:
        """Return the call whose name precedes the token at `position` and whose opener is missing."""
        text = self._text
        name = self.surroundings.find_preceding_name(position, low)
        if name is None:
            return None
        body = read_named(text, position, self._context, name.name)
        if body is None:
            return None if fenced else TextPart(PartKind.BROKEN, name.start, skip_broken_call(text, name.start))
        end = body[1]
        if name.tag and (closing := re.compile(rf"\s*</{name.tag}>").match(text, end)):
            end = closing.end()
        return self._make_calls_part(name.start, low, (body[0], end, "rehearsal"), explicit=True, fenced=fenced)

    def _parse_loose(self, position: int, low: int, *, fenced: bool) -> TextPart | int:
        """Return JSON or code without markup, which is a call only at the start of a line or after a colon."""
        text = self._text
        is_announced = self._is_announced(position)
        if not is_announced and text[position] == "{":
            return position + 1
        if text[position] == "{" and (other_end := skip_other_object(text, position, self._context)):
            return other_end
        body = read_loose_form(text, position, self._context)
        if body and not is_announced and body[2] != "pythonic":
            return position + 1
        if body is None:
            if text[position] == "[" and not text.startswith("{", skip_space(text, position + 1)):
                code_call = CALL.match(text, position + 1)
                return (
                    skip_code(text, position)
                    if code_call and self._context.resolve_name(code_call["name"])
                    else position + 1
                )
            self._failures += 1
            return skip_brackets(text, position)
        return self._make_calls_part(position, low, body, explicit=False, fenced=fenced)

    def _is_announced(self, position: int) -> bool:
        """Whether a call without markup may start here: at the start of a line or after a colon."""
        text = self._text
        begins = max(text.rfind("\n", max(0, position - _LINE), position) + 1, self._previous_end, position - _LINE)
        line = text[begins:position].strip(" \t\r\n;,")
        # A colon announces a call, but not a colon inside other JSON or code.
        return not line or (line.endswith(":") and not _INSIDE_CODE.search(line))

    def _parse_call_fence(self, position: int) -> TextPart | int:
        """Return the call in a code block whose info string marks it as a call."""
        text = self._text
        opening = CALL_FENCE.match(text, position)
        if not opening:
            return position + 1
        tool_name = opening["name"]
        if tool_name and self._context.resolve_name(tool_name) is None:
            return position + 1
        body = (
            read_named(text, opening.end(), self._context, tool_name)
            if tool_name
            else read_body(text, opening.end(), self._context)
        )
        if body is None:
            return opening.end()
        closing = _CLOSING_FENCE.match(text, body[1])
        return TextPart(
            PartKind.CALLS,
            position,
            closing.end() if closing else body[1],
            tuple(body[0]),
            f"fenced-{body[2]}",
            fenced=True,
        )

    def _parse_line(self, position: int) -> TextPart | int:
        """Return the call on a line that starts with a tool name or with words that announce a call."""
        start = position + 1
        while self._text.startswith((" ", "\t"), start):
            start += 1
        return self._parse_first_form(start) or position + 1

    def _parse_first_form(self, start: int) -> TextPart | None:
        body = read_first_form(self._text, start, self._context)
        if body and body[2] == "pythonic" and _PROGRAM.search(self._text, 0, start):
            return TextPart(PartKind.PLAIN, start, body[1])
        if body:
            is_announced = self._text.startswith(("Action:", "Call:", "TOOL_CALL"), start)
            return TextPart(PartKind.CALLS, start, body[1], tuple(body[0]), body[2], explicit=is_announced)
        end, is_intended = skip_first_form(self._text, start, self._context)
        kind = PartKind.BROKEN if is_intended else PartKind.PLAIN
        return TextPart(kind, start, end, form=UNPARSABLE_CODE) if end else None

    def _parse_marker(self, position: int) -> TextPart | int:
        text = self._text
        word = "✿FUNCTION✿:" if text.startswith("✿FUNCTION✿:", position) else ">>>"
        end = position + len(word)
        if text.startswith("all\n", end):
            return TextPart(PartKind.NOISE, position, end + 4)
        name_match = _WRITTEN_NAME.match(text, end)
        name = self._context.resolve_name(name_match["name"]) if name_match else None
        if name_match is None or name is None:
            return end
        body = read_named(text, name_match.end("name"), self._context, name)
        if body is None:
            end = skip_named_arguments(text, name_match.start("name"))
            return TextPart(PartKind.BROKEN, position, end) if end else name_match.end()
        return TextPart(PartKind.CALLS, position, body[1], tuple(body[0]), body[2])

    def _follows_call(self, block: int, at: int) -> bool:
        """Whether only white space separates `at` from a call in the code block that starts at `block`."""
        last = self._last
        return (
            last is not None
            and last.kind is PartKind.CALLS
            and last.start >= block
            and not self._text[last.end : at].strip()
        )
