"""The synthetic `respond` tool, with which the model can reply in text without leaving its call format.

It is offered last and removed from every response; the client receives its message as ordinary text. Small models often
fail to choose between a call and plain text, but choose well among tools.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.messages import ToolCall

_NAMES = ("respond", "respond_to_user", "send_response_to_user", "forge_respond")
_PARAMETERS: JsonObject = {
    "type": "object",
    "properties": {"message": {"type": "string", "description": "The text for the user."}},
    "required": ["message"],
}


def respond_tool(taken: Iterable[str]) -> ToolSpec:
    """Return the respond tool, under the first name that no tool of the client uses."""
    used = set(taken)
    numbered = (f"forge_respond_{n}" for n in range(2, len(used) + 3))
    name = next(name for name in (*_NAMES, *numbered) if name not in used)
    return ToolSpec(name, _PARAMETERS, "answer the user")


def read_message(call: ToolCall) -> str | None:
    """Return the message of a respond call; None if there is none.

    A single string under any other key (`text`, `content`) also counts as the message.
    """
    args = call.args()
    if args is None:
        return None
    message = args.get("message")
    if message is None and len(args) == 1:
        message = next(iter(args.values()))
    return message if isinstance(message, str) else None


_PLAIN = re.compile(r'[^"\\]+')
_UNIT = re.compile(r"[0-9a-fA-F]{4}")
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class MessageDecoder:
    """Decodes the top-level string `message` of a JSON object while the object is still being written.

    `feed` returns what the new piece adds to the message, in whole characters: escapes and surrogate pairs are never
    split. The total is independent of the chunk boundaries, and each character is examined a bounded number of times.
    Nothing is returned unless `message` is the first key, because only the complete object shows which other key holds
    the message.
    """

    # White space is bounded, so that whether the message has begun never depends on how the text was cut.
    _OPENING = re.compile(r'\s{0,16}\{\s{0,16}"message"\s{0,16}:\s{0,16}"')
    _MAX_OPENING = 4 * 16 + len('{"message":"')

    def __init__(self) -> None:
        self._held = ""
        self._state = "before"

    def feed(self, piece: str) -> str:
        """Decode the next piece of the arguments and return what it adds to the message."""
        if self._state == "over":
            return ""
        self._held += piece
        if self._state == "before":
            opening = self._OPENING.match(self._held)
            if not opening:
                if len(self._held) >= self._MAX_OPENING:
                    self._state = "over"
                return ""
            self._held = self._held[opening.end() :]
            self._state = "inside"
        return self._decode()

    def _decode(self) -> str:
        out: list[str] = []
        text, at = self._held, 0
        while at < len(text):
            plain = _PLAIN.match(text, at)
            if plain:
                out.append(plain.group())
                at = plain.end()
            elif text[at] == '"':
                self._state = "over"
                break
            else:
                decoded, length = _read_escape(text, at)
                if length == 0:
                    break
                if decoded is None:  # not JSON: the message up to here is kept, `judge` handles the rest
                    self._state = "over"
                    break
                out.append(decoded)
                at += length
        self._held = text[at:]
        return "".join(out)


def _read_escape(text: str, at: int) -> tuple[str | None, int]:
    """Decode the escape at `at`. Returns the character and the length: 0 while incomplete, None if it is invalid."""
    if at + 1 >= len(text):
        return "", 0
    letter = text[at + 1]
    if letter != "u":
        return _ESCAPES.get(letter), 2
    if at + 6 > len(text):
        return "", 0
    unit = _hex(text, at + 2)
    if unit is None:
        return None, 6
    if not 0xD800 <= unit < 0xE000:
        return chr(unit), 6
    return _read_pair(text, at, unit)


def _read_pair(text: str, at: int, high: int) -> tuple[str | None, int]:
    """Decode the second half of a surrogate pair; None for an unpaired surrogate."""
    follows = text[at + 6 : at + 8]
    if high >= 0xDC00 or not "\\u".startswith(follows):
        return None, 6
    if at + 12 > len(text):
        return "", 0
    low = _hex(text, at + 8)
    if low is None or not 0xDC00 <= low < 0xE000:
        return None, 6
    return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)), 12


def _hex(text: str, at: int) -> int | None:
    digits = _UNIT.match(text, at)
    return int(digits.group(), 16) if digits else None
