"""Decodes the responses of an OpenAI-compatible backend: the chunks of a stream, or a whole completion as one chunk."""

from __future__ import annotations

import orjson

from forge_proxy.core.jsontypes import Json, JsonObject, is_integer, is_list, is_object
from forge_proxy.core.logprobs import read_logprobs
from forge_proxy.core.stream import CallDelta, Chunk, Delta, PromptProgress
from forge_proxy.wire.backends.responses import UnreadableResponse, dump_json, parse_response
from forge_proxy.wire.sse import BOM


def decode_response(raw: bytes, *, model: str | None = None, whole: bool = False, verbatim: bool = False) -> Chunk:
    """Decode a stream chunk or, with `whole`, a complete response. Raises `UnreadableResponse`.

    `model` replaces the backend's name of the model. With `whole`, a stream chunk is an error: it is only a part of a
    response. With `verbatim`, only the parser limits the nesting depth, because the body is forwarded unchanged.
    """
    raw = raw.removeprefix(BOM)
    value = parse_response(raw, verbatim=verbatim)
    if model is not None and "model" in value:
        value["model"] = model
        raw = orjson.dumps(value)
    choices = value.pop("choices", None)
    usage = value.pop("usage", None)
    value.pop("object", None)
    deltas: tuple[Delta, ...] = ()
    if is_list(choices):
        if whole and any(is_object(choice) and "delta" in choice and "message" not in choice for choice in choices):
            raise UnreadableResponse("a stream chunk instead of a complete response")
        deltas = tuple([_delta(choice, i) for i, choice in enumerate(choices) if is_object(choice)])
    return Chunk(deltas, usage if is_object(usage) else None, head=value, as_sent=raw)


def read_progress(chunk: Chunk) -> PromptProgress | None:
    """Return the prompt progress that the chunk reports, if any (llama-server's `return_progress`)."""
    match chunk.head.get("prompt_progress"):
        case {"processed": int(processed), "total": int(total)}:
            return PromptProgress(processed, total)
        case _:
            return None


def _delta(choice: dict[str, Json], place: int) -> Delta:
    """Remove the known fields from the choice; the others become `extra` and `choice_fields`."""
    index, finish = choice.pop("index", None), choice.pop("finish_reason", None)
    delta, message = choice.pop("delta", None), choice.pop("message", None)
    fields = delta or message
    if not is_object(fields):
        fields = {}
    text, calls = fields.pop("content", None), fields.pop("tool_calls", None)
    reasoning, other = fields.pop("reasoning_content", None), fields.pop("reasoning", None)
    if reasoning is None:
        reasoning = other
    logprobs = read_logprobs(choice.get("logprobs"))
    if logprobs is not None:
        del choice["logprobs"]
    return Delta(
        index if is_integer(index) else place,
        text if text is None or isinstance(text, str) else _join(text),
        reasoning if isinstance(reasoning, str) else None,
        tuple([_call(call, i) for i, call in enumerate(calls) if is_object(call)]) if is_list(calls) else (),
        finish if isinstance(finish, str) else None,
        fields,
        {key: item for key, item in choice.items() if item is not None} if choice else choice,
        logprobs,
    )


def _call(call: JsonObject, place: int) -> CallDelta:
    value = call.get("function")
    function: JsonObject = value if is_object(value) else {}
    index, identity, name = call.get("index"), call.get("id"), function.get("name")
    arguments = function.get("arguments")
    if is_object(arguments):  # some servers send the object instead of its text
        arguments = dump_json(arguments)
    return CallDelta(
        index=index if is_integer(index) else place,
        id=identity if isinstance(identity, str) else "",
        name=name if isinstance(name, str) else "",
        arguments=arguments if isinstance(arguments, str) else "",
    )


def _join(content: Json) -> str | None:
    """Return the text of content that is a list of parts (Mistral's servers); None if there is no text."""
    parts = [part.get("text") for part in content if is_object(part)] if is_list(content) else []
    texts = [text for text in parts if isinstance(text, str)]
    return "".join(texts) if texts else None
