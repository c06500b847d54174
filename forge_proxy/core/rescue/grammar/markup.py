"""Markup that models write around calls, reasoning and messages, grouped by shape rather than by model.

Covers openers and closers of calls, separators between name and arguments, and markup without meaning.
"""

from __future__ import annotations

import re

# Prefixes of a tag name: MiniMax's token, an XML namespace, DeepSeek's `|DSML|`.
_NAMESPACE = r"(?:[|｜]DSML[|｜][ ]?|\w[\w.-]{0,23}[:|｜])?"
OPEN = rf"(?:\]<\]minimax\[>\[)?<{_NAMESPACE}"
"""The start of an opening tag."""
CLOSE = rf"(?:\]<\]minimax\[>\[)?</{_NAMESPACE}"
"""The start of a closing tag."""
_CALL = r"(?:tool|function)s?[ _▁-]?(?:calls?|use|requests?)"
_SPECIAL = r"<[|｜][^\s<>|｜\"`]{1,48}[|｜]>"
_ENDS_CALL = (
    r"[^<>|｜]{0,24}(?:call|calls|section|requests?|request)[_▁]?end|[^<>|｜]{0,8}end_tool_(?:request|argument)"
    r"|im_end|eot|eom|end|call|return|end_message|stop"
)

OPENER = re.compile(
    rf"""
    {OPEN}(?:(?:start|begin)_)?{_CALL}(?:_(?:start|begin))?>    # <tool_call> <minimax:tool_call> <start_function_call>
  | <[a-z]{{2,16}}_{_CALL}>                                    # <longcat_tool_call> <dots_function_call>
  | <[|｜]{_CALL}(?:[_▁](?:section|begin|start))*[|｜]?>        # <|tool_call|> <|tool_call> <｜tool▁calls▁begin｜>
  | <[|｜](?:\w{{1,16}}:)?begin_tool_\w{{1,16}}(?::\w{{1,16}})?[|｜]>   # <|plamo:begin_tool_requests:plamo|>
  | {OPEN}(?:calls|invoke|tool)>                                       # a wrapper without a name
  | <[|｜](?:START_ACTION|python_tag|python_start|content_invoke_tool_json|recipient)[|｜]>
  | <\|message_sep\|>\s{{0,4}}function\ call<\|role_sep\|>
  | <\|open\|>tools<\|sep\|> | (?=<\|open\|>call\ tool=)       # Kimi K3
  | <TOOLCALL> | <<function>> | \[TOOL_CALLS?\]
    """,
    re.VERBOSE,
)
CLOSER = re.compile(
    rf"""\s*(?:```\s*(?=</|<[|｜]))?(?:
    {CLOSE}(?:(?:end)_)?(?:[a-z]{{2,16}}_)?(?:{_CALL}|calls|invoke|function|tool|arg_value|parameter|arguments|parameters)\s*>
  | <(?:end_function_call|bot_end|/TOOLCALL)> | <{_CALL}[|｜]> | <\|close\|>(?:call|tools)<\|sep\|>
  | <[|｜](?:\w{{1,16}}:)?(?:{_ENDS_CALL}|END_ACTION|python_end)(?::\w{{1,16}})?[|｜]>
  | \[/TOOL_CALLS?\] | ✿RESULT✿
  )""",
    re.VERBOSE,
)
"""Markup that may close a call, including the white space before it."""
_SECTION_EDGE = r"<\|(?:open|close)\|>[^<>\n]{0,140}<\|sep\|>"
"""Kimi K3 delimits the sections of a response so: `<|open|>response<|sep|>`."""
NOISE = re.compile(
    rf"{_SECTION_EDGE}|{_SPECIAL}|<\|tool_\w{{1,16}}>|<tool_\w{{1,16}}\|>|\]<\]minimax\[>\[|</s>|<(?:bos|eos|end_of_turn|turn\|)>|</?[|｜]?(?:\w{{1,16}}[:_])?{_CALL}[|｜]>|"
    rf"{CLOSE}{_CALL}>|<end_function_call>|<bot_end>|\[/TOOL_CALLS?\]|\[(?:BEGIN|END) FINAL RESPONSE\]"
)
"""Markup without meaning, which is dropped from the output."""
BETWEEN = re.compile(
    rf"(?:\s|\\n|<[|｜](?!(?:\w{{1,16}}:)?(?:{_ENDS_CALL})(?::\w{{1,16}})?[|｜])[^\s<>|｜\"]{{1,48}}[|｜]>|<tool_sep>|\[ARGS\]"
    r"|\[CALL_ID\][\w-]{1,64}|(?:json|commentary)(?=[\s<{])|```\w{0,12}(?=\s)|✿ARGS✿:|Action Input:){0,16}"
)
"""Separators between the name of a tool and its arguments."""
ARGUMENT_TOKEN = re.compile(r"\[ARGS\]|\[CALL_ID\]|<[|｜]tool[_▁]call[_▁]argument[_▁]begin[|｜]>|<arg_key>")
"""Separator between a name and its arguments that identifies a call even if its opener is missing."""
MINIMAX = "]<]minimax[>["
CALL_ID = re.compile(r"\[CALL_ID\]([\w-]{1,64})")
NAME = re.compile(r"(?:call:|:)?(?P<name>[^\s<>\[\]{}()\"'`,;=|｜\\✿]{1,128})")
"""The name of a tool after an opener, with the prefix that some models write."""
INVOKE = re.compile(
    rf"{OPEN}(?:invoke|function|tool|tool_call|call)(?:"
    r"(?:[ \tĠ]*name)?[ \t]*=[ \t]*(?P<q>[\"'])(?P<quoted>[^\"'\n]{1,160})(?P=q)(?:[ \t][^<>\n]{0,120}?)?"
    r"|[ \tĠ]*name[ \t]*=[ \t]*(?P<name>[^\s<>\"']{1,128}?)"
    r"|[ \t]*=[ \t]*(?P<bare>[^<>\"'\n]{1,128}?))[ \t]{0,8}/?>"
)
"""A tag that names a tool: `<invoke name="f">`, `<function=f>`. The space may be missing, or be the byte-level token
`Ġ` of a wrongly decoded one.
"""
SECTION_CALL = re.compile(r"<\|open\|>call tool=\"(?P<name>[^\"\n]{1,160})\"[^<>\n]{0,120}<\|sep\|>")
"""The same in Kimi K3's sections."""
_INNER = re.compile(r"<[|｜][^<>]{0,48}[|｜]>")


def strip_tokens(name: str) -> str:
    """Return the name without special tokens inside it and without surrounding white space."""
    return _INNER.sub("", name).strip()


def skip_closers(text: str, at: int) -> int:
    """Return the position after the closers of a call."""
    while closer := CLOSER.match(text, at):
        at = closer.end()
    return at
