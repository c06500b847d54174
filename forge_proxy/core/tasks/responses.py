"""Parses the responses of models in both forms into the same values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from forge_proxy.core.errors import ForgeError
from forge_proxy.core.jsontypes import DECODER, skip_space
from forge_proxy.core.tasks.models import FileEdits, LLMResponse, NewFile, ResponseForm, SearchReplace
from forge_proxy.core.validation import describe_fault

_M = TypeVar("_M", bound=BaseModel)


class ResponseInvalid(ForgeError):
    """A response does not have the form that was requested. `at` is the path of the field, `$` that of the whole."""

    def __init__(self, at: str, reason: str) -> None:
        super().__init__(f"{at}: {reason}")
        self.at = at
        self.reason = reason


class ResponseCutOff(ForgeError):
    """The response reached the limit of its tokens before its end."""

    def __init__(self, limit: int | None = None) -> None:
        size = f" of {limit} tokens" if limit is not None else ""
        super().__init__(f"the response was cut off at the limit{size}")
        self.limit = limit


def parse_files(text: str, form: ResponseForm) -> LLMResponse:
    """Parse a generation. Raises `ResponseInvalid`."""
    return parse_blocks(text) if form == "blocks" else parse_json(text, LLMResponse)


def parse_json(text: str, model: type[_M]) -> _M:
    """Parse one JSON value, also inside a code fence. Raises `ResponseInvalid` with the JSON path."""
    if not text.strip():
        raise ResponseInvalid("$", "the response is empty")
    try:
        value, end = DECODER.raw_decode(source := _without_fence(text), skip_space(source, 0))
    except (ValueError, RecursionError) as error:
        raise ResponseInvalid("$", f"not JSON: {error}") from error
    if source[end:].strip():
        raise ResponseInvalid("$", "text follows the JSON value")
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        raise ResponseInvalid(_json_path(first["loc"]), describe_fault(first)) from error


def _without_fence(text: str) -> str:
    found = re.fullmatch(r"\s*```(?:json)?[ \t]*\n(.*?)\n?```\s*", text, re.DOTALL)
    return found[1] if found else text


def _json_path(location: Sequence[int | str]) -> str:
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)


_HEADING = re.compile(r"#{2,4}[ \t]+(file|edit)[ \t]+`?([^`\n]+?)`?[ \t]*")
_FENCE = re.compile(r"(`{3,})[ \t]*([\w.+-]*)[ \t]*")


@dataclass(frozen=True, slots=True)
class _Block:
    label: str
    content: str


def parse_blocks(text: str) -> LLMResponse:
    """Parse a response in blocks. Raises `ResponseInvalid` with the number of the line."""
    lines = text.replace("\r\n", "\n").split("\n")
    at, explanation = 0, list[str]()
    while at < len(lines) and not _HEADING.fullmatch(lines[at]):
        explanation.append(lines[at])
        at += 1
    files: list[NewFile] = []
    edits: list[FileEdits] = []
    while at < len(lines):
        heading = _HEADING.fullmatch(lines[at])
        if heading is None:
            if lines[at].strip():
                reason = "text outside of a block; if it belongs to a file, use a longer fence around its content"
                raise ResponseInvalid(f"line {at + 1}", reason)
            at += 1
            continue
        kind, path, line = heading[1], heading[2].strip(), at + 1
        blocks, at = _read_blocks(lines, at + 1)
        if kind == "file":
            files.append(NewFile(path=path, content=_only_block(blocks, line)))
        else:
            edits.append(FileEdits(path=path, edits=_pair(blocks, line)))
    return LLMResponse(explanation="\n".join(explanation).strip(), files=tuple(files), edits=tuple(edits))


def _read_blocks(lines: Sequence[str], at: int) -> tuple[list[_Block], int]:
    """Read the fenced blocks from a line on. Returns them with the line after them."""
    blocks: list[_Block] = []
    while at < len(lines):
        opening = _FENCE.fullmatch(lines[at])
        if opening is None:
            if lines[at].strip():
                break
            at += 1
            continue
        begun, at = at, at + 1
        content: list[str] = []
        while at < len(lines) and not re.fullmatch(rf"`{{{len(opening[1])},}}[ \t]*", lines[at]):
            content.append(lines[at])
            at += 1
        if at == len(lines):
            raise ResponseInvalid(f"line {begun + 1}", "the block has no end")
        at += 1
        blocks.append(_Block(opening[2].lower(), "".join(f"{line}\n" for line in content)))
    return blocks, at


def _only_block(blocks: Sequence[_Block], line: int) -> str:
    if len(blocks) != 1:
        raise ResponseInvalid(f"line {line}", f"expected one block with the content of the file, found {len(blocks)}")
    return blocks[0].content


def _pair(blocks: Sequence[_Block], line: int) -> tuple[SearchReplace, ...]:
    labels = [block.label for block in blocks]
    if not blocks or labels != ["search", "replace"] * (len(blocks) // 2):
        raise ResponseInvalid(f"line {line}", "expected pairs of a `search` and a `replace` block")
    return tuple(
        SearchReplace(search=search.content, replace=replace.content)
        for search, replace in zip(blocks[::2], blocks[1::2], strict=True)
    )
