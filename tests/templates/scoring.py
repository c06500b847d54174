"""How well the form learned from a template reads the calls that the template renders."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from forge_proxy.backends.chat_templates import RenderError
from forge_proxy.backends.chat_templates.learning import learn_template, render_variant
from forge_proxy.backends.chat_templates.sandbox import compile_template
from forge_proxy.core.guardrails.arguments.mapping import map_arguments
from forge_proxy.core.jsontypes import Json, JsonObject, read_object
from forge_proxy.core.rescue import LearnedForm, RescueResult, StreamingParser, rescue
from forge_proxy.core.rescue.templates import Conversation, LearnedTemplate, learn_form
from forge_proxy.core.rescue.templates.probes import VARIANTS, Variant, list_conversations, message_with_calls
from forge_proxy.core.rescue.templates.segments import cut_segments

Calls = tuple[tuple[str, dict[str, Json]], ...]

CODE = 'def f(x):\n    """Say "hi"."""\n    return {"a": [x, \'b\'], \'c\': x < 3 and x > 1}\n'
CASES: dict[str, Calls] = {
    "one argument": (("get_weather", {"city": "Oslo"}),),
    "several types": (("get_weather", {"city": "São Paulo, 東京", "days": 3, "metric": True}),),
    "nested": (("plan2", {"stops": ["Oslo", "Bergen"], "options": {"night": False, "price": {"max": 12.5}}}),),
    "quotes and lines": (("write_file", {"path": "a b/c.py", "content": CODE}),),
    "digits as text": (("write_file", {"path": "0042", "content": "true"}),),
    "no arguments": (("list-all", {}),),
    "two calls": (("get_weather", {"city": "Oslo"}), ("write_file", {"path": "b", "content": "x = 1"})),
}
"""The calls of each case. None of their names or values was in a rendering that the form was learned from."""
_PROPERTIES: dict[str, dict[str, Json]] = {
    "get_weather": {"city": {"type": "string"}, "days": {"type": "integer"}, "metric": {"type": "boolean"}},
    "plan2": {
        "stops": {"type": "array", "items": {"type": "string"}},
        "options": {
            "type": "object",
            "properties": {
                "night": {"type": "boolean"},
                "price": {"type": "object", "properties": {"max": {"type": "number"}}},
            },
        },
    },
    "write_file": {"path": {"type": "string"}, "content": {"type": "string"}},
    "list-all": {},
}
SCHEMAS: dict[str, dict[str, Json]] = {
    name: {"type": "object", "properties": properties} for name, properties in _PROPERTIES.items()
}
_TOOLS: tuple[JsonObject, ...] = tuple(
    {"type": "function", "function": {"name": name, "description": "A tool.", "parameters": schema}}
    for name, schema in SCHEMAS.items()
)


@dataclass(frozen=True)
class Template:
    """A template, and what was learned from it. `variant` is the first one whose renderings show the form."""

    name: str
    source: str
    learned: LearnedTemplate
    variant: Variant

    def responses(self) -> Iterator[tuple[str, str]]:
        """Yield the cases that the template renders, with the text that a model would write."""
        render = compile_template(self.source)
        probes = {name: talk for name, talk in list_conversations(self.variant) if name in ("prompt", "text", "string")}
        for case, calls in CASES.items():
            rendered = _render_case(render, probes, calls, self.variant)
            if rendered is not None:
                yield case, rendered


def open_template(name: str, source: str) -> Template:
    """Learn a template."""
    learned = learn_template(source)
    if learned.form is None:
        return Template(name, source, learned, VARIANTS[0])
    render = compile_template(source)
    shown = (variant for variant in VARIANTS if learn_form(render_variant(render, variant)).form == learned.form)
    return Template(name, source, learned, next(shown))


def _render_case(
    render: Callable[[Conversation], str], probes: Mapping[str, Conversation], calls: Calls, variant: Variant
) -> str | None:
    renderings: dict[str, str] = {}
    for name, talk in probes.items():
        try:
            renderings[name] = render(Conversation(talk.messages, _TOOLS, opens_response=talk.opens_response))
        except RenderError:
            continue
    question = probes["text"].messages[0]
    try:
        renderings["case"] = render(Conversation((question, *message_with_calls(calls, variant)), _TOOLS))
    except RenderError:  # such as two calls, where the template allows one
        return None
    response = cut_segments(renderings)["case"].replace("\ue000", "a1b2c3d4e").strip()
    return response if all(name in response for name, _ in calls) else None


def read(text: str, form: LearnedForm | None, *, general: bool) -> list[tuple[str, Any]]:
    """Return the calls in a text with arguments typed by their schemas, as the daemon does."""
    return _typed(rescue(text, SCHEMAS, form=form, general=general))


def _typed(found: RescueResult) -> list[tuple[str, Any]]:
    return [
        (item.call.tool, read_object(map_arguments(SCHEMAS.get(item.call.tool, {}), item)))
        for item in found.calls
        if not item.open
    ]


def wrong_cuts(text: str, calls: Calls, form: LearnedForm | None, *, general: bool) -> int:
    """Return at how many of its bytes the text may be cut off so that a call is recovered that was not written."""
    written = text.encode()
    wrong = 0
    for end in range(len(written)):
        found = read(written[:end].decode(errors="ignore"), form, general=general)
        wrong += found != [*calls][: len(found)]
    return wrong


def streams_alike(text: str, form: LearnedForm | None) -> bool:
    """Whether a text streamed byte by byte, or cut in two anywhere, releases the same as in one piece."""
    whole = _stream([text], form)
    decoder = codecs.getincrementaldecoder("utf-8")()
    single = [piece for byte in text.encode() if (piece := decoder.decode(bytes((byte,))))]
    return _stream(single, form) == whole and all(
        _stream([text[:at], text[at:]], form) == whole for at in range(1, len(text))
    )


def _stream(pieces: list[str], form: LearnedForm | None) -> tuple[str, str, list[tuple[str, Any]]]:
    parser = StreamingParser(tuple(SCHEMAS), form=form)
    out = [released for piece in pieces for released in parser.feed(piece)]
    out += parser.decide_postponed()
    text = "".join(piece.text for piece in out)
    return text, parser.buffered_text, read(text + parser.buffered_text, form, general=True)
