"""Files as text that is written back as it was: encoding, line endings and the final newline are kept."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

_BOMS = {
    "utf-8-sig": codecs.BOM_UTF8,
    "utf-32-le": codecs.BOM_UTF32_LE,  # begins with that of UTF-16
    "utf-32-be": codecs.BOM_UTF32_BE,
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
}
"""Byte order marks by encoding. A file without one is never in one of these encodings."""
_LINE_BREAK = re.compile(r"\r\n|\n")


class NotText(ValueError):
    """The file is binary, or cannot be written in its encoding."""


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file as text with its own line endings. `encoding` is the name of one of Python's codecs."""

    text: str
    encoding: str = "utf-8"

    @classmethod
    def decode(cls, data: bytes) -> TextFile:
        """Decode a file: by its byte order mark, as UTF-8, or else as Latin-1, of which each byte is a character.

        Raises `NotText` for a binary file.
        """
        for encoding, bom in _BOMS.items():
            if data.startswith(bom):
                try:
                    return cls(data[len(bom) :].decode(_codec(encoding)), encoding)
                except UnicodeDecodeError as error:
                    raise NotText(f"not a text in {encoding}") from error
        if b"\0" in data:
            raise NotText("a binary file")
        try:
            return cls(data.decode())
        except UnicodeDecodeError:
            return cls(data.decode("latin-1"), "latin-1")

    def encode(self) -> bytes:
        """Return the file's bytes. Raises `NotText` if a character does not exist in its encoding."""
        try:
            return _BOMS.get(self.encoding, b"") + self.text.encode(_codec(self.encoding))
        except UnicodeEncodeError as error:
            character = self.text[error.start]
            raise NotText(f"the file is in {self.encoding}, which has no {character!r}") from error

    @property
    def line_break(self) -> str:
        """The line ending that most lines have."""
        return "\r\n" if 2 * self.text.count("\r\n") > self.text.count("\n") else "\n"

    @property
    def normalized(self) -> str:
        """The text with `\\n` as its line ending."""
        return self.text.replace("\r\n", "\n")

    def splice(self, start: int, end: int, replacement: str) -> TextFile:
        """Replace a range of the normalized text. Lines outside it keep their endings, and the file its final newline.

        `replacement` has `\\n` as its line ending.
        """
        first, last = self._raw_index(start), self._raw_index(end)
        text = self.text[:first] + self.with_line_breaks(replacement) + self.text[last:]
        return TextFile(_keep_final_newline(self.text, text, self.line_break), self.encoding)

    def replace_all(self, content: str) -> TextFile:
        """Replace the whole content, with this file's line endings and final newline."""
        text = self.with_line_breaks(content.replace("\r\n", "\n"))
        return TextFile(_keep_final_newline(self.text, text, self.line_break), self.encoding)

    def with_line_breaks(self, text: str) -> str:
        """Return a normalized text with the line endings of this file."""
        return text if self.line_break == "\n" else text.replace("\n", self.line_break)

    def _raw_index(self, at: int) -> int:
        """Return the index in the text of an index in the normalized text."""
        if "\r\n" not in self.text:
            return at
        shift = 0
        for found in _LINE_BREAK.finditer(self.text):
            if found.start() - shift >= at:
                break
            shift += len(found.group()) - 1
        return at + shift


def _codec(encoding: str) -> str:
    """Return the codec that neither reads nor writes a byte order mark."""
    return encoding.removesuffix("-sig")


def _keep_final_newline(before: str, after: str, line_break: str) -> str:
    if not before or not after:
        return after
    had, has = before.endswith("\n"), after.endswith("\n")
    if had and not has:
        return after + line_break
    if has and not had:
        return after.removesuffix("\n").removesuffix("\r")
    return after
