"""Texts that a model may write to make the rescue parser work hard: each pattern repeats the beginning of something.

`PATTERNS` is a table of names and functions from a size in characters to a text of that size.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

NAMES = ("get_weather", "a", "respond", "get", "a-b.c/d")
"""The tools that are offered with the patterns."""


def _repeated(unit: str, *, lead: str = "", tail: str = "") -> Callable[[int], str]:
    def text(size: int) -> str:
        room = max(0, size - len(lead) - len(tail))
        return lead + (unit * (room // len(unit) + 1))[:room] + tail

    return text


def _counted(unit: str, *, lead: str = "") -> Callable[[int], str]:
    """The unit with a number in place of `%`, so that no two repetitions are the same."""

    def text(size: int) -> str:
        parts, length = [lead], len(lead)
        for number in count():
            part = unit.replace("%", str(number))
            parts.append(part)
            length += len(part)
            if length >= size:
                break
        return "".join(parts)[:size]

    return text


def _nested(opening: str, closing: str, *, lead: str = "", most: int = 300) -> Callable[[int], str]:
    """Levels inside each other, the innermost one filled up to the size."""

    def text(size: int) -> str:
        levels = min(most, size // (2 * (len(opening) + len(closing))))
        room = size - len(lead) - levels * (len(opening) + len(closing)) - 2
        return lead + opening * levels + '"' + "x" * max(0, room) + '"' + closing * levels

    return text


PATTERNS: tuple[tuple[str, Callable[[int], str]], ...] = (
    ("prose after an announcement", _repeated("so it is ", lead="\n\n  Action: ")),
    ("announcements after spaces", _counted("call: it is % ", lead="  ")),
    ("special openers", _counted("<|% ")),
    ("special openers in a row", _repeated("<|")),
    ("full-width special openers", _repeated("<｜")),
    ("closed special tokens", _counted("<|x%|> ")),
    ("thought closers", _counted("</think>%")),
    ("thought openers", _counted("<think>%")),
    ("thoughts", _counted("<think>%</think>")),
    ("mentioned thoughts", _counted(" <think> , %")),
    ("DSML openers", _counted("<｜DSML｜function_calls>%")),
    ("DSML parameters", _counted('<｜DSML｜parameter name="p%">', lead='<｜DSML｜invoke name="get_weather">')),
    ("call openers", _counted("<tool_call>%")),
    ("call openers in a row", _repeated("<tool_call>")),
    ("named call openers", _counted("<tool_call>get_weather %")),
    ("call openers with braces", _counted('<tool_call>{"%')),
    ("call openers with strings", _counted('<tool_call>{"name": "get_weather", "arguments": {"a": "%')),
    ("function tags", _counted("<function=get_weather>%")),
    ("function tags with parameters", _counted("<function=get_weather><parameter=a>%")),
    ("parameters", _counted("<parameter=a%>x", lead="<function=get_weather>")),
    ("parameters without a closer", _counted("<parameter=a%>x</parameter>", lead="<function=get_weather>")),
    ("parameters with name spaces", _counted("<x%:parameter=a>y", lead="<function=get_weather>")),
    ("nested functions", _repeated("<function=a><parameter=p>", lead="<function=a><parameter=p>")),
    ("closing parameters", _counted("</parameter>%", lead="<function=a><parameter=p>")),
    ("argument pairs", _counted("<arg_key>k%</arg_key><arg_value>", lead="<tool_call>get_weather\n")),
    ("argument keys", _counted("get_weather<arg_key>%")),
    ("tool tags", _counted("<get_weather>%")),
    ("tool tags with children", _counted("<get_weather><city>%")),
    ("children", _counted("<c%>", lead="<get_weather>")),
    ("equal children", _repeated("<city>", lead="<get_weather>")),
    ("invoke tags", _counted('<invoke name="get_weather">%')),
    ("MiniMax tokens", _repeated("]<]minimax[>[<")),
    ("square brackets", _repeated("[")),
    ("bracketed calls", _counted("[get_weather(a=%")),
    ("lists of calls", _repeated("a(),", lead="[")),
    ("code with parentheses", _repeated("\nget_weather(")),
    ("code with strings", _counted('\nget_weather(a="%')),
    ("Mistral openers", _counted("[TOOL_CALLS]%")),
    ("Mistral names", _counted("[TOOL_CALLS]get_weather[ARGS]{%")),
    ("lost openers", _counted("get_weather[ARGS]{%")),
    ("final response tokens", _counted("[BEGIN FINAL RESPONSE]%")),
    ("braces", _repeated("{")),
    ("braces with keys", _repeated('{"name":')),
    ("objects on lines", _counted('\n{"name": "get_weather", "arguments": {"a": %')),
    ("objects with open strings", _counted('\n{"name": "x%')),
    ("data in code", _counted('{"a%": "<tool_call>')),
    ("triple quotes", _counted('= """ <tool_call>%')),
    ("quotes in a string", _counted('x" y%', lead='<tool_call>{"name": "get_weather", "arguments": {"a": "')),
    ("nested strings", _repeated('\\"', lead='<tool_call>{"name": "get_weather", "arguments": {"a": "')),
    ("comments", _repeated("/*", lead='<tool_call>{"name": "get_weather", ')),
    ("backticks", _repeated("`")),
    ("spans", _counted("`% ")),
    ("backticks before openers", _counted("`<tool_call>%")),
    ("fences", _counted("```json\n%\n")),
    ("fences of calls", _counted("```tool_call\n%\n")),
    ("fences on one line", _counted("```% ")),
    ("tildes", _counted("~~~% <tool_call>\n")),
    ("message headers", _counted("<|start|>assistant<|channel|>analysis<|message|>%")),
    ("begun message headers", _counted("<|channel|>commentary to=functions.get_weather%")),
    ("messages to a tool", _counted("<|channel|>commentary to=functions.get_weather<|message|>%")),
    ("actions", _counted("\nAction: get_weather\nAction Input: %")),
    ("Qwen tokens", _counted("✿FUNCTION✿: get_weather\n✿ARGS✿: %")),
    ("angle brackets", _repeated("<")),
    ("closing angle brackets", _repeated(">>>get_weather\n")),
    ("white space", _repeated(" ", lead="<tool_call>")),
    ("line breaks", _repeated("\n", lead="x")),
    ("line breaks behind a name", _repeated("\n", lead="get_weather", tail="x")),
    ("one word", _repeated("a")),
    ("names", _repeated("get_weather ")),
    ("dotted names", _repeated("functions.")),
    ("plain text", _counted("The weather in Oslo was fine on day %. ")),
    ("lines of text", _counted("The weather in Oslo was fine on day %.\n")),
    ("tables", _counted("| <tool_call> | % |\n")),
    ("calls on lines", _counted("\nget_weather(a=%)")),
    ("called names on lines", _repeated("\nget_weather()")),
    ("whole objects on lines", _counted('\n{"name": "get_weather", "arguments": {"a": %}}')),
    ("whole calls", _counted('<tool_call>{"name": "get_weather", "arguments": {"a": %}}</tool_call>')),
    ("calls without a closer", _counted('<tool_call>{"name": "get_weather", "arguments": {"a": %}}')),
    ("whole tagged calls", _counted("<function=get_weather><parameter=a>%</parameter></function>")),
    ("cut tagged calls", _counted("<tool_call>get_weather<parameter=a>% ")),
    ("cut paired calls", _counted("<tool_call>get_weather<arg_key>a</arg_key><arg_value>% ")),
    ("nested lists in a sentence", _nested('[{"name":"a","arguments":{"q":', "}}]", lead="x ")),
    ("one line in a fence", _repeated("a <b", lead="```\n")),
    ("one line behind a backtick", _counted("a%<|x ", lead="`")),
    ("quoted openers", _counted('"<tool_call>" %')),
)
