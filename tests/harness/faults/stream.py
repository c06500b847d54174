"""Streams in other shapes than the OpenAI API describes: what some servers always send for a right response."""

from __future__ import annotations

from collections.abc import Sequence

from tests.fakes.says import DONE
from tests.harness.fault import habit
from tests.harness.response import JsonDict, deltas_of, in_chunks, in_pieces


def _without_role(chunks: list[JsonDict]) -> list[JsonDict]:
    return chunks[1:]


def _without_index(chunks: list[JsonDict]) -> list[JsonDict]:
    for call in _calls_of(chunks):
        del call["index"]
    return chunks


def _index_from_one(chunks: list[JsonDict]) -> list[JsonDict]:
    for call in _calls_of(chunks):
        call["index"] += 1
    return chunks


def _split_name(chunks: list[JsonDict]) -> list[JsonDict]:
    parts: list[JsonDict] = []
    for chunk, delta in zip(chunks, deltas_of(chunks), strict=True):
        parts.append(chunk)
        for call in delta.get("tool_calls", ()):
            if name := call["function"].get("name"):
                call["function"]["name"] = name[:2]
                rest = {"index": call["index"], "function": {"name": name[2:]}}
                choice = {"index": 0, "delta": {"tool_calls": [rest]}, "finish_reason": None}
                parts.append({**chunk, "choices": [choice]})
    return parts


def _repeat_name(chunks: list[JsonDict]) -> list[JsonDict]:
    begun: dict[int, JsonDict] = {}
    for call in _calls_of(chunks):
        start = begun.setdefault(call["index"], call)
        call.update(id=start["id"], type="function")
        call["function"]["name"] = start["function"]["name"]
    return chunks


def _without_usage(chunks: list[JsonDict]) -> list[JsonDict]:
    return [chunk for chunk in chunks if "usage" not in chunk]


def _empty_first(chunks: list[JsonDict]) -> list[JsonDict]:
    return [{**chunks[0], "choices": []}, *chunks]


def _null_fields(chunks: list[JsonDict]) -> list[JsonDict]:
    nulls = dict.fromkeys(("role", "content", "reasoning_content", "refusal", "function_call", "tool_calls"))
    for chunk in chunks:
        for choice in chunk["choices"]:
            choice.update(delta={**nulls, **choice["delta"]}, logprobs=None)
    return chunks


def _without_finish(chunks: list[JsonDict]) -> list[JsonDict]:
    for chunk in chunks:
        for choice in chunk["choices"]:
            choice["finish_reason"] = None
    return chunks


def _with_crlf(pieces: tuple[bytes, ...]) -> tuple[bytes, ...]:
    return tuple(piece.replace(b"\n", b"\r\n") for piece in pieces)


def _in_one(pieces: tuple[bytes, ...]) -> tuple[bytes, ...]:
    return (b"".join(pieces),)


def _without_done(pieces: tuple[bytes, ...]) -> tuple[bytes, ...]:
    return tuple(piece for piece in pieces if piece != DONE)


def _calls_of(chunks: Sequence[JsonDict]) -> list[JsonDict]:
    return [call for delta in deltas_of(chunks) for call in delta.get("tool_calls", ())]


FAULTS = (
    habit("no role", "no chunk has a role", in_chunks(_without_role)),
    habit("no index", "the pieces of a call have no index", in_chunks(_without_index)),
    habit("index from 1", "the calls are counted from 1", in_chunks(_index_from_one)),
    habit("split name", "the tool's name comes in two chunks", in_chunks(_split_name)),
    habit("repeated name", "each piece of a call repeats its id and name", in_chunks(_repeat_name)),
    habit("no usage", "no chunk has the usage", in_chunks(_without_usage)),
    habit("empty chunk", "the first chunk has no choices", in_chunks(_empty_first)),
    habit("null fields", "fields without a value are null", in_chunks(_null_fields)),
    habit("CRLF", "lines end with CR LF", in_pieces(_with_crlf)),
    habit("one write", "the whole stream comes in one write", in_pieces(_in_one)),
    habit(
        "no DONE",
        "the stream ends without `[DONE]`",
        in_pieces(_without_done),
    ),
    habit("no finish", "no chunk has a finish reason", in_chunks(_without_finish)),
)
