"""Forms that are learned from templates of our own, whose markup the general grammar mostly does not know."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.backends.chat_templates.learning import learn_template
from forge_proxy.core.rescue import LearnedForm, StreamingParser, read_form, rescue
from tests.core.rescue.test_negatives import NAMES as NEGATIVE_NAMES
from tests.core.rescue.test_negatives import SHOWN
from tests.properties import LENGTHS, cut, examples, sample
from tests.scanned import PIECES, gather
from tests.templates.scoring import CASES, SCHEMAS, Template, open_template, read, streams_alike, wrong_cuts

OWN = sorted((Path(__file__).parent / "own").glob("*.jinja"))
UNKNOWN = ("names-and-objects", "objects-with-other-keys", "typed-elements", "lines", "marked-strings")
"""Templates whose calls the general grammar does not read."""


@lru_cache
def learned(name: str) -> Template:
    """What was learned from a template of our own."""
    return open_template(name, (Path(__file__).parent / "own" / f"{name}.jinja").read_text())


def form_of(name: str) -> LearnedForm:
    """The form that was learned."""
    form = learned(name).learned.form
    assert form is not None
    return form


EACH = pytest.mark.parametrize("name", [file.stem for file in OWN])


@EACH
def test_the_rendered_calls_are_read_back_to_the_very_arguments(name: str) -> None:
    responses = dict(learned(name).responses())

    assert len(responses) >= len(CASES) - 1
    for case, text in responses.items():
        for general in (True, False):
            assert read(text, form_of(name), general=general) == [*CASES[case]], (case, general)
            if general or form_of(name).is_distinctive:
                assert read(f"I look.\n{text}", form_of(name), general=general) == [*CASES[case]], (case, general)


@pytest.mark.parametrize("name", UNKNOWN)
def test_without_the_form_no_such_call_is_read(name: str) -> None:
    texts = dict(learned(name).responses())

    assert read(texts["nested"], None, general=True) != [*CASES["nested"]]


@pytest.mark.long
@EACH
@pytest.mark.parametrize("general", [True, False])
def test_a_call_that_is_cut_off_anywhere_is_not_read_as_another_one(name: str, general: bool) -> None:
    for case, text in sample([*learned(name).responses()], 1):
        assert wrong_cuts(text, CASES[case], form_of(name), general=general) == 0, case


@pytest.mark.long
@EACH
def test_a_call_is_streamed_alike_however_it_is_cut(name: str) -> None:
    for case, text in sample([*learned(name).responses()], 1):
        assert streams_alike(f"I look. {text}\n", form_of(name)), case


@EACH
def test_no_part_of_a_call_is_streamed_as_text(name: str) -> None:
    form = form_of(name)
    for case, text in learned(name).responses():
        parser = StreamingParser(tuple(SCHEMAS), form=form)

        released = "".join(piece.text for character in f"I look.\n{text}" for piece in parser.feed(character))

        assert released.strip() == "I look.", case


@examples(60)
@given(
    name=st.sampled_from([file.stem for file in OWN]),
    pieces=st.lists(st.sampled_from(PIECES) | st.integers(0, 400), max_size=8),
    lengths=LENGTHS,
)
def test_texts_with_parts_of_calls_are_streamed_alike_however_they_are_cut(
    name: str, pieces: list[str | int], lengths: list[int]
) -> None:
    calls = "".join(text for _, text in learned(name).responses())
    text = "".join(piece if isinstance(piece, str) else calls[piece : piece + piece % 50] for piece in pieces)

    def stream(chunks: list[str]) -> object:
        parser = StreamingParser(tuple(SCHEMAS), template_thinks=False, form=form_of(name))
        out = [piece for chunk in chunks for piece in parser.feed(chunk)]
        return gather([*out, *parser.decide_postponed()])

    whole = stream([text])

    assert stream(cut(text, lengths)) == whole
    assert stream(list(text)) == whole
    assert rescue(text, SCHEMAS, template_thinks=False, form=form_of(name)).text.startswith(whole.text)  # type: ignore[attr-defined]


@EACH
def test_what_is_no_call_without_the_form_is_none_with_it(name: str) -> None:
    for text in SHOWN.values():
        assert not rescue(text, NEGATIVE_NAMES, form=form_of(name)).calls, text


@EACH
@pytest.mark.parametrize("general", [True, False])
def test_other_objects_and_words_between_tags_are_no_calls(name: str, general: bool) -> None:
    form = form_of(name)
    opens, closes = form.block_opens + form.call_opens, form.call_closes + form.block_closes
    texts = (
        f"The server wraps calls in {opens.strip()} and {closes.strip()} tags.",
        '{"name": "delete", "routine": "delete", "path": "/"}',
        '{"routine": "delete", "inputs": ["/"]}',
        '{"routine": "delete", "inputs": {"type": "object", "properties": {"path": {"type": "string"}}}}',
        '{"routine": "delete"}',
        '{"routine": "other", "inputs": {"path": "/"}}',
    )

    for text in texts:
        found = rescue(text, NEGATIVE_NAMES, form=form, general=general).calls
        assert [item.call for item in found] == [item.call for item in rescue(text, NEGATIVE_NAMES).calls], text


@EACH
def test_a_call_that_is_only_displayed_is_text(name: str) -> None:
    text = dict(learned(name).responses())["one argument"]
    displayed = (
        f"Write `{text}`.",
        f"Like this:\n```xml\n{text}\n```\nThat is all.",
        f"> {text}\n\nThat was my earlier call.",
        f'Write "{text}", I think.',
        f"| form | text |\n|---|---|\n| own | {text} |",
        f"Write:\n\n    {text}\n\nThat is all.",
    )

    for written in displayed:
        if "\n" not in text:
            assert not rescue(written, SCHEMAS, form=form_of(name)).calls, written
    fenced = f"Like this:\n```\n# a call\n{text}\n```\nThat is all."
    assert not rescue(fenced, SCHEMAS, form=form_of(name)).calls


@EACH
def test_an_unreadable_call_is_reported_as_broken_if_its_markup_is_distinctive(name: str) -> None:
    text = dict(learned(name).responses())["nested"]
    form = form_of(name)
    half = rescue(text[: len(text) * 2 // 3], SCHEMAS, form=form)

    assert half.broken or any(call.open for call in half.calls) or not form.is_distinctive


@EACH
def test_a_form_is_stored_as_json(name: str) -> None:
    form = form_of(name)

    assert read_form(json.loads(json.dumps(form.as_json()))) == form


@pytest.mark.parametrize(
    "stored",
    [
        None,
        [],
        {},
        {"shape": "object"},
        {"shape": "song", "styles": []},
        {**form_of("lines").as_json(), "styles": [{"opens": 1}]},
        {**form_of("lines").as_json(), "call_opens": "<" + "x" * 170},
        {**form_of("lines").as_json(), "call_closes": "x" * 400},
    ],
)
def test_what_is_no_stored_form_is_ignored(stored: object) -> None:
    assert read_form(stored) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("source", "failure"),
    [
        ("{{ messages[0].content }}", "no calls"),
        ("{% for m in messages %}{{ m.content or '' }}{% endfor %}", "no calls"),
        ("{% for m in messages %}{{ m.content or m.tool_calls[0].function.name }}{% endfor %}", "no form"),
        ("{{ nothing.at.all }}", "no renderings"),
        ("{% for %}", "no renderings"),
        ("{{ raise_exception('Only plain text.') }}", "no renderings"),
    ],
)
def test_a_template_that_is_not_understood_is_reported(source: str, failure: str) -> None:
    result = learn_template(source)

    assert result.form is None
    assert result.failure == failure
