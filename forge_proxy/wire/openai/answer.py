"""Reading what an OpenAI-compatible backend answers: a stream's chunks, or a whole completion as one chunk."""

from __future__ import annotations

import orjson

from forge_proxy.core.jsontypes import Json, JsonObject, is_integer, is_list, is_object
from forge_proxy.core.stream import CallDelta, Chunk, Delta, Progress
from forge_proxy.wire.sse import BOM

_CHUNK_FIELDS = frozenset({"choices", "usage", "object"})
_CHOICE_FIELDS = frozenset({"index", "delta", "message", "finish_reason"})
_DELTA_FIELDS = frozenset({"content", "tool_calls", "reasoning_content", "reasoning"})


class UnreadableAnswer(ValueError):
    """What the backend sent is no chunk and no completion. `error` is its error object, if it sent one."""

    def __init__(self, why: str, error: Json = None) -> None:
        super().__init__(why)
        self.error = error


def decode_answer(raw: bytes, *, model: str | None = None) -> Chunk:
    """A chunk of a stream, or a whole completion. Raises `UnreadableAnswer`.

    `model` is put in place of the name that the backend gives its model.
    """
    raw = raw.removeprefix(BOM)
    try:
        value: Json = orjson.loads(raw)
    except orjson.JSONDecodeError as exc:
        raise UnreadableAnswer(f"not JSON: {exc}") from exc
    if not is_object(value):
        raise UnreadableAnswer("not a JSON object")
    if value.get("error"):
        raise UnreadableAnswer("an error in place of an answer", value)
    if value.get("object") == "error":  # vLLM's, which it also sends in a stream
        raise UnreadableAnswer("an error in place of an answer", {"error": value})
    if model is not None and "model" in value:
        value["model"] = model
        raw = orjson.dumps(value)
    choices = value.get("choices")
    usage = value.get("usage")
    return Chunk(
        deltas=tuple(_delta(choice, i) for i, choice in enumerate(choices) if is_object(choice))
        if is_list(choices)
        else (),
        usage=usage if is_object(usage) else None,
        head={key: item for key, item in value.items() if key not in _CHUNK_FIELDS},
        as_sent=raw,
    )


def progress_of(chunk: Chunk) -> Progress | None:
    """How far the prompt has been read, where the chunk is about that (llama-server's `return_progress`)."""
    match chunk.head.get("prompt_progress"):
        case {"processed": int(processed), "total": int(total)}:
            return Progress(processed, total)
        case _:
            return None


def _delta(choice: JsonObject, place: int) -> Delta:
    said = choice.get("delta") or choice.get("message")
    fields: JsonObject = said if is_object(said) else {}
    text, finish, index = fields.get("content"), choice.get("finish_reason"), choice.get("index")
    reasoning = fields.get("reasoning_content")
    if reasoning is None:
        reasoning = fields.get("reasoning")
    calls = fields.get("tool_calls")
    return Delta(
        choice=index if is_integer(index) else place,
        text=text if isinstance(text, str) else _joined(text),
        reasoning=reasoning if isinstance(reasoning, str) else None,
        calls=tuple(_call(call, i) for i, call in enumerate(calls) if is_object(call)) if is_list(calls) else (),
        finish=finish if isinstance(finish, str) else None,
        extra={key: item for key, item in fields.items() if key not in _DELTA_FIELDS},
        beside={key: item for key, item in choice.items() if key not in _CHOICE_FIELDS and item is not None},
    )


def _call(call: JsonObject, place: int) -> CallDelta:
    said = call.get("function")
    function: JsonObject = said if is_object(said) else {}
    index, identity, name = call.get("index"), call.get("id"), function.get("name")
    arguments = function.get("arguments")
    if is_object(arguments):  # servers that send the object itself in place of its text
        arguments = orjson.dumps(arguments).decode()
    return CallDelta(
        index=index if is_integer(index) else place,
        id=identity if isinstance(identity, str) else "",
        name=name if isinstance(name, str) else "",
        arguments=arguments if isinstance(arguments, str) else "",
    )


def _joined(content: Json) -> str | None:
    """The text of content that came as a list of parts, as Mistral's servers send it; None where there is none."""
    parts = [part.get("text") for part in content if is_object(part)] if is_list(content) else []
    texts = [text for text in parts if isinstance(text, str)]
    return "".join(texts) if texts else None
