"""What tests of the rescue share: the pieces that its texts are made of, and what a scan gave out of one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from forge_proxy.core.rescue import OutputPiece, PieceKind

CALL = '{"name": "get_weather", "arguments": {"city": "Paris"}}'
PIECES = (  # whole and half beginnings of calls, thoughts and messages, and what may stand around them
    "Hi. ", "a", "\n", "\n\n", " ", "   ", "\t", "\r\n", "\u00a0", ".", ";", ",", "# ", "=", ":", "/", ")", "😀",
    "The word is ", " and more words follow here. ", "x" * 90, "`", "``", "```", "```json\n", "```\n", "````\n",
    "```tool a\n", "```invoke\n", "{", "[", "[ ", "[\n{", "}", "]", '{"', '"name"', '"name": "a"', '{ "tool" :',
    '{"type": "x"}', CALL, f"[{CALL}]", "{'name': 'a', 'arguments': {b: 1,}}", '{"name": "Ada", "age": 3}', "{}",
    "<", "<tool", "_call>", "<tool_call>", "</tool_call>", f"<tool_call>{CALL}</tool_call>", "<function=",
    "<function=a>", "<parameter=x>", "</parameter>", "</function>", '<invoke name="a">', "</invoke>", "<a>", "</a>",
    "<x>1</x>", "<user>", "<b>", "</b>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "]<]minimax[>[",
    "[TOOL", "[TOOL_CALLS]", "get_", "get_weather", "get_weather[", "[ARGS]", "[CALL_ID]", "a[ARGS]{}", "functools",
    "[get_weather(", "city='x'", "a()", "get_weather(city=1)", "a/x>1", "json", "function", "functions.a:0",
    "<|tool_call_argument_begin|>", "<|tool_call>", "<tool_call|>", "call:a{", '<|"|>', "<escape>",
    "<｜tool▁calls▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>", "<｜DSML｜", "<|im_end|>", "</s>",
    "<think>", "</think>", "[THINK]", "[/THINK]", "<|channel>thought", "<channel|>", "<|start|>assistant",
    "<|channel|>", "analysis", "commentary", "<|message|>", "<|end|>", " to=get_weather", "to=self", "to=user",
    "<|message_sep|>", "function call", "<|role_sep|>", "\nAction: a\nAction Input: ", "Call: ", "TOOL_CALL\n",
    "✿FUNCTION✿:", "✿ARGS✿:", ">>>", "all\n", "<|python_tag|>", "<|START_ACTION|>", '"x": "say "hi"",', "//", "/*",
    "\x0b", "name",
)  # fmt: skip


class Given(NamedTuple):
    """What a scan gave out: the text since all before it was taken back, the thought, and how often that was."""

    text: str
    thought: str
    recalls: int


def gather(pieces: Iterable[OutputPiece]) -> Given:
    """What was given out in all."""
    text, thought, recalls = "", "", 0
    for piece in pieces:
        match piece.kind:
            case PieceKind.TEXT:
                text += piece.text
            case PieceKind.REASONING:
                thought += piece.text
            case PieceKind.RECLASSIFIED:
                text, recalls = "", recalls + 1
    return Given(text, thought, recalls)
