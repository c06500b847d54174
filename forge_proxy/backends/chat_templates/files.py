"""Reads a chat template from a file: a template itself, `tokenizer_config.json`, or the metadata of a GGUF."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO

from forge_proxy.backends.chat_templates import MAX_TEMPLATE
from forge_proxy.core.jsontypes import Json, is_list, is_object, read_value, skip_space

_KEYS = ("tokenizer.chat_template.tool_use", "tokenizer.chat_template")
"""The metadata with templates, the one for tools first."""
_NAMES = ("tool_use", "default")
"""The names of templates in a list of them, the one for tools first."""
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Bytes of a value by its type in GGUF."""
_STRING, _ARRAY = 8, 9
_MAX_ENTRIES = 100_000
_MAX_FILE = 64 * 1024 * 1024
"""Bytes of a file that is no GGUF: `tokenizer_config.json` has up to a few megabytes."""


class TemplateFileError(Exception):
    """The file has no chat template. The message names the file and the reason."""


def read_template_file(file: Path) -> str:
    """Return the chat template in a file. Raises `TemplateFileError`."""
    try:
        with file.open("rb") as opened:
            if opened.read(4) == b"GGUF":
                template = _read_gguf(opened)
            else:
                opened.seek(0)
                template = _read_text(opened.read(_MAX_FILE).decode("utf-8-sig"))
    except OSError as error:
        raise TemplateFileError(f"{file}: {error.strerror or error}") from error
    except (struct.error, UnicodeDecodeError) as error:
        raise TemplateFileError(f"{file}: neither a template, a tokenizer_config.json nor a GGUF file") from error
    if not template:
        raise TemplateFileError(f"{file}: it contains no chat template")
    return template


def _read_text(text: str) -> str:
    read = read_value(text, skip_space(text, 0))
    if read is None or text[read[1] :].strip():
        return text
    return _choose(read[0].get("chat_template")) if is_object(read[0]) else ""


def _choose(value: Json) -> str:
    """Return a template, or the one for tools of a list of named ones."""
    if isinstance(value, str):
        return value
    entries = [entry for entry in value if is_object(entry)] if is_list(value) else []
    named = {entry.get("name"): entry.get("template") for entry in entries}
    found = next((named[name] for name in _NAMES if name in named), None)
    return found if isinstance(found, str) else ""


def _read_gguf(file: BinaryIO) -> str:
    """Return the template in the metadata of a GGUF file. Raises `struct.error` for a damaged one."""
    _, _, entries = struct.unpack("<IQQ", file.read(20))
    found: dict[str, str] = {}
    for _ in range(min(entries, _MAX_ENTRIES)):
        key = _read_string(file)
        (kind,) = struct.unpack("<I", file.read(4))
        if kind == _STRING and key in _KEYS:
            found[key] = _read_string(file)
        else:
            _skip(file, kind)
    return next((found[key] for key in _KEYS if key in found), "")


def _read_string(file: BinaryIO) -> str:
    (length,) = struct.unpack("<Q", file.read(8))
    if length > 4 * MAX_TEMPLATE:
        raise struct.error("a string of that length")
    return file.read(length).decode("utf-8", "replace")


def _skip(file: BinaryIO, kind: int) -> None:
    if kind == _STRING:
        (length,) = struct.unpack("<Q", file.read(8))
        file.seek(length, 1)
    elif kind == _ARRAY:
        item, count = struct.unpack("<IQ", file.read(12))
        if item in _SIZES:
            file.seek(_SIZES[item] * count, 1)
        else:
            for _ in range(count):
                _skip(file, item)
    elif kind in _SIZES:
        file.seek(_SIZES[kind], 1)
    else:
        raise struct.error("a value of an unknown type")
