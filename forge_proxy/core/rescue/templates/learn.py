"""Learns the form of a template's calls from renderings that differ in one respect each.

A hypothesis is accepted only if a reader that uses it returns exactly the calls of every rendering.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from forge_proxy.core.jsontypes import Json, JsonObject, is_object
from forge_proxy.core.rescue.context.parse_context import ParseContext
from forge_proxy.core.rescue.grammar.learned_form import ANY_ID, LearnedForm, form_patterns, read_form
from forge_proxy.core.rescue.readers.json_calls import ParsedCall
from forge_proxy.core.rescue.readers.learned_calls import read_learned_calls
from forge_proxy.core.rescue.templates.hypotheses import propose_form
from forge_proxy.core.rescue.templates.probes import CALLS, FIRST, SECOND
from forge_proxy.core.rescue.templates.segments import cut_segments

FAILURES: dict[str, str] = {
    "unavailable": "the server does not report the chat template",
    "took too long": "the template could not be learned in time",
    "no renderings": "the template could not be rendered",
    "no calls": "the template does not render calls",
    "no form": "the calls have no recognizable form",
    "not confirmed": "the form that was learned does not read all rendered calls",
}
"""Why nothing was learned, as reported."""
_ESSENTIAL = ("string", "both")
"""The renderings without which nothing can be learned."""


@dataclass(frozen=True, slots=True)
class LearnedTemplate:
    """The form of a template's calls, or the key in `FAILURES` of the reason why none was learned."""

    form: LearnedForm | None
    failure: str = ""
    detail: str = ""
    """What the template or its renderer reported."""
    digest: str = ""
    """Identifies the template, so that it is learned only once."""

    def as_json(self) -> JsonObject:
        """Return the fields as a JSON object."""
        return asdict(self)

    @property
    def progress(self) -> int:
        """How far the learner got, to choose between failures."""
        return len(FAILURES) if self.form else [*FAILURES].index(self.failure)


def read_learned(value: Json) -> LearnedTemplate | None:
    """Parse the output of `LearnedTemplate.as_json`; None for anything else."""
    match value:
        case {"form": form, "failure": str(failure), "detail": str(detail), "digest": str(digest)}:
            read = read_form(form)
            return LearnedTemplate(read, failure, detail, digest) if read or failure else None
        case _:
            return None


def learn_form(renderings: Mapping[str, str]) -> LearnedTemplate:
    """Return the form of the calls in these renderings, by their names in `probes`."""
    if any(name not in renderings for name in ("text", *_ESSENTIAL)):
        return LearnedTemplate(None, "no renderings")
    segments = cut_segments(renderings)
    if any(FIRST not in segments.get(name, "") for name in _ESSENTIAL):
        return LearnedTemplate(None, "no calls")
    form = propose_form(segments)
    if form is None or not form.is_usable:
        return LearnedTemplate(None, "no form")
    confirmed = _confirm(form, segments)
    return LearnedTemplate(form) if confirmed else LearnedTemplate(None, "not confirmed")


def _confirm(form: LearnedForm, segments: Mapping[str, str]) -> bool:
    """Whether the form reads the calls in all segments. A template may be unable to render two calls or none of the
    arguments; the essential ones and most of the others suffice.
    """
    readable = {name: _reads(form, name, segment) for name, segment in segments.items() if name in CALLS}
    essential = all(readable.get(name) for name in _ESSENTIAL)
    return essential and sum(readable.values()) * 10 >= len(readable) * 8


def _reads(form: LearnedForm, name: str, segment: str) -> bool:
    context = ParseContext((FIRST, SECOND))
    segment = segment.replace(ANY_ID, "qzid00000")
    opening = form_patterns(form).begins.search(segment)
    read = read_learned_calls(segment, opening.start(), form, context) if opening else None
    if read is None or len(read[0]) != len(CALLS[name]):
        return False
    return all(
        parsed.call.tool == tool and _is_equal(parsed, args)
        for parsed, (tool, args) in zip(read[0], CALLS[name], strict=True)
    )


def _is_equal(parsed: ParsedCall, expected: dict[str, Json]) -> bool:
    """Whether the arguments are equal, except for values that are raw text and therefore typed by the schema."""
    values = parsed.call.args()
    if not is_object(values) or list(values) != list(expected):
        return False
    return all(
        values[key] == value or (key in parsed.untyped and not isinstance(value, str))
        for key, value in expected.items()
    )
