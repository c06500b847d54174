"""Texts to begin with: the golden files, the seeds, and the pieces that markup is made of."""

from __future__ import annotations

import random
import re
from pathlib import Path

_HERE = Path(__file__).parent
_GOLDEN = _HERE.parent / "core" / "rescue" / "golden"
_CALL = '{"name": "get_weather", "arguments": {"city": "Paris"}}'
# fmt: off
PIECES = (
    "Hi. ", "a", "\n", "\n\n", " ", "   ", "\t", "\r\n", "\u00a0", ".", ";", ",", "# ", "=", ":", "/", ")", "😀",
    "The word is ", " and more words follow here. ", "x" * 90, "`", "``", "```", "```json\n", "```\n", "````\n",
    "```tool a\n", "```invoke\n", "{", "[", "[ ", "[\n{", "}", "]", '{"', '"name"', '"name": "a"', '{ "tool" :',
    '{"type": "x"}', _CALL, f"[{_CALL}]", "{'name': 'a', 'arguments': {b: 1,}}", '{"name": "Ada", "age": 3}', "{}",
    "<", "<tool", "_call>", "<tool_call>", "</tool_call>", f"<tool_call>{_CALL}</tool_call>", "<function=",
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
)
# fmt: on


def seeds() -> list[list[str]]:
    """Each text to begin with, in parts."""
    texts = [path.read_bytes().decode() for path in sorted((_HERE / "seeds").glob("*.txt"))]
    for path in sorted(_GOLDEN.glob("*.txt")):
        texts += re.findall(r"(?ms)^--- said\n(.*?)(?=^--- |^=== |\Z)", path.read_text(encoding="utf-8"))
    return [re.findall(r"\w+|\s+|[^\w\s]", text) for text in texts if text]


def mutated(rng: random.Random, known: list[list[str]]) -> list[str]:
    """A new text, in parts: pieces at random, or known texts cut, spliced, doubled and mixed with pieces."""
    if rng.random() < 0.5 or not known:
        return [rng.choice(PIECES) for _ in range(rng.randint(1, 10))]
    parts = list(rng.choice(known))
    for _ in range(rng.randint(1, 4)):
        at = rng.randint(0, len(parts))
        to = min(len(parts), at + rng.randint(0, 6))
        match rng.randint(0, 4):
            case 0:
                parts[at:to] = []
            case 1:
                parts[at:at] = [rng.choice(PIECES)]
            case 2:
                parts[at:at] = parts[at:to]
            case 3:
                parts = parts[:at]
            case _:
                other = rng.choice(known)
                begin = rng.randint(0, len(other))
                parts = parts[:at] + other[begin : begin + 30]
    return parts
