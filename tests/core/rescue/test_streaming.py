"""The released text is a prefix of the rescued text for any chunk boundaries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from forge_proxy.core.rescue import OutputPiece, PieceKind, StreamingParser, rescue, streaming
from forge_proxy.core.rescue.parser import Parser
from tests.properties import LENGTHS, TEXTS, cut, examples
from tests.scanned import CALL, PIECES, Given, gather

NAMES = ("get_weather", "a", "respond", "get", "x-y.z/w")
LONG = "perhaps " * 8
WRITTEN = st.lists(st.sampled_from(PIECES) | TEXTS, max_size=9).map("".join)


def given_out(pieces: Iterable[str], *, template_thinks: bool = True) -> Given:
    """Return everything that the streaming parser releases of these pieces."""
    scanned = StreamingParser(NAMES, template_thinks=template_thinks)
    out = [given for piece in pieces for given in scanned.feed(piece)]
    return gather([*out, *scanned.decide_postponed()])


def released(text: str) -> str:
    """Return the text that the streaming parser releases of a text fed in one piece."""
    return given_out([text], template_thinks=False).text


@pytest.mark.parametrize("template_thinks", [True, False])
@examples(300)
@given(text=WRITTEN, lengths=LENGTHS)
def test_the_output_is_independent_of_chunk_boundaries(text: str, lengths: list[int], template_thinks: bool) -> None:
    whole = given_out([text], template_thinks=template_thinks)

    assert given_out(cut(text, lengths), template_thinks=template_thinks) == whole
    assert given_out(list(text), template_thinks=template_thinks) == whole


@examples(300)
@given(text=WRITTEN)
def test_the_streamed_text_is_a_prefix_of_the_rescued_text(text: str) -> None:
    assert rescue(text, NAMES, template_thinks=False).text.startswith(released(text))


@examples(300)
@given(text=WRITTEN)
def test_the_text_streamed_after_a_lone_reasoning_end_is_a_prefix_of_the_rescued_text(text: str) -> None:
    given = given_out([text])
    rescued = rescue(text, NAMES)

    if given.recalls or not rescued.implicit_reasoning:  # it may still hold what ends the thoughts
        assert rescued.text.startswith(given.text)


@examples(200)
@given(text=WRITTEN, more=WRITTEN)
def test_released_text_is_final(text: str, more: str) -> None:
    before = released(text)

    assert released(text + more).startswith(before)
    assert rescue(text + more, NAMES, template_thinks=False).text.startswith(before)


@examples(200)
@given(text=WRITTEN, lengths=LENGTHS)
def test_the_buffered_text_is_a_suffix_of_the_input(text: str, lengths: list[int]) -> None:
    scanned = StreamingParser(NAMES)
    fed = ""

    for piece in cut(text, lengths):
        scanned.feed(piece)
        fed += piece

        assert fed.endswith(scanned.buffered_text)
        assert scanned.has_buffered_text or not scanned.buffered_text.strip()


@pytest.mark.parametrize(
    ("text", "out"),
    [
        ("It is sunny.", "It is sunny."),
        ("It is sunny. \n", "It is sunny."),
        ("a < b and {x} and [1].", "a < b and {x} and [1]."),
        ("", ""),
        # openers
        ("Look: <tool_call>", "Look:"),
        ("Look: <tool_ca", "Look:"),
        ("Look: <tool_calm>", "Look: <tool_calm>"),
        ("Look: <", "Look:"),
        ("[TOOL_CALLS]", ""),
        ("Look: [TOOL_", "Look:"),
        ("Look: [TOAST] and", "Look: [TOAST] and"),
        ("The <tool_call> tag opens a call.", "The <tool_call> tag opens a call."),
        # code
        ("Look:\n\n```json\n{", "Look:"),
        ("Look:\n```json\n[1]\nso", "Look:\n```json\n[1]\nso"),
        ("Look:\n```", "Look:"),
        ("Write `<tool_call>` there", "Write `<tool_call>` there"),
        # objects
        ('Look:\n{"na', "Look:"),
        ('Look:\n{"nap": 1', 'Look:\n{"nap": 1'),
        ('Look: {"nap": "x"', 'Look: {"nap": "x"'),
        ('So {"name": "x"', 'So {"name": "x"'),
        # names
        ("I ask get_weather", "I ask"),
        ("I ask get_weather[ARGS]{", "I ask"),
        ("I ask get_weather now", "I ask get_weather now"),
        ("I ask get_weather(", "I ask get_weather("),
        # tokens
        ("It is sunny.<|im_end|>", "It is sunny."),
        ("It is sunny.</s>\n", "It is sunny."),
        # thoughts
        ("<think>So.</think>It is sunny.", "It is sunny."),
        ("Hm. <think>So.</think> It is sunny.", "Hm.\nIt is sunny."),
        ("<|channel|>analysis<|message|>So.<|end|><|channel|>final<|message|>It is sunny.", "It is sunny."),
    ],
)
def test_only_a_possible_start_of_a_call_is_buffered(text: str, out: str) -> None:
    assert released(text) == out
    assert given_out(list(text), template_thinks=False).text == out


@pytest.mark.parametrize(
    ("text", "thought", "out"),
    [
        ("<think>One. Two.</think>Three.", "One. Two.", "Three."),
        ("<think>One.", "One.", ""),
        ("[THINK]a[1] {b} `c`[/THINK]Three.", "a[1] {b} `c`", "Three."),
        (f"<think>{CALL}</tool_call>, or {LONG}", f"{CALL}</tool_call>, or {LONG}", ""),
        ("<|channel|>analysis<|message|>One.<|end|>", "One.", ""),
        ("Put it in `<think>`. So", "", "Put it in `<think>`. So"),
    ],
)
def test_reasoning_is_released_separately_from_text(text: str, thought: str, out: str) -> None:
    assert given_out(list(text)) == (out, thought, 0)


def test_text_before_a_lone_reasoning_end_is_reclassified() -> None:
    scanned = StreamingParser(NAMES)

    steps = [scanned.feed(piece) for piece in ("I see. ", "Yes.", "</thi", "nk>", "\n\nIt is", " sunny.")]

    assert steps == [
        [OutputPiece(PieceKind.TEXT, "I see.")],
        [OutputPiece(PieceKind.TEXT, " Yes.")],
        [],
        [OutputPiece(PieceKind.RECLASSIFIED)],
        [OutputPiece(PieceKind.TEXT, "It is")],
        [OutputPiece(PieceKind.TEXT, " sunny.")],
    ]


def test_text_is_buffered_until_it_is_certainly_not_a_call() -> None:
    scanned = StreamingParser(NAMES)

    steps = [
        (gather(scanned.feed(piece)).text, scanned.has_buffered_text)
        for piece in ("Hi you ", "<tool", "bar> ", " ", "<tool_call>", "x")
    ]

    assert steps == [("Hi you", False), ("", True), (" <toolbar>", False), ("", False), ("", True), ("", True)]


def test_a_mentioned_opener_is_released() -> None:
    scanned = StreamingParser(NAMES)

    steps = [gather(scanned.feed(piece)).text for piece in ("So the ", "<tool_call>", " tag", " opens", " it. ", "So.")]

    assert "".join(steps) == "So the <tool_call> tag opens it. So."
    assert steps[1] == ""


def test_complete_calls_are_reported_while_the_text_continues() -> None:
    scanned = StreamingParser(NAMES)

    counts: list[int] = []
    for piece in (
        "Hi. <tool_call>",
        CALL[:20],
        f"{CALL[20:]}</tool_call>",
        "\n<tool_call>{",
        f"{CALL[1:]}</tool_call>",
    ):
        scanned.feed(piece)
        counts.append(len(scanned.calls))

    assert counts == [0, 0, 1, 1, 2]
    assert [found.call.args() for found in scanned.calls] == [{"city": "Paris"}] * 2


def test_an_incomplete_call_is_not_reported() -> None:
    scanned = StreamingParser(NAMES)

    scanned.feed('[TOOL_CALLS]get_weather[ARGS]{"city": "Paris", "days": 1')

    assert scanned.calls == ()


def test_a_long_text_in_small_pieces_is_released_completely() -> None:
    text = "All work and no play makes Jack a dull boy.\n" * 500

    assert given_out(cut(text, [1, 2, 3])).text == text.rstrip()


@pytest.mark.parametrize("unit", ["<parameter=a>x", "</parameter>y ", '{"name": "x"} ', "`<tool_call>` ", "so {} "])
def test_text_buffered_for_long_is_parsed_at_intervals(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []

    class Counted(Parser):
        def __init__(self, text: str, *more: Any, **options: Any) -> None:
            looked_at.append(len(text))
            super().__init__(text, *more, **options)

    monkeypatch.setattr(streaming, "Parser", Counted)

    given_out(cut("<function=a><parameter=p>" + unit * 20_000, [64]))

    assert max(looked_at) <= 40_000


@pytest.mark.parametrize("template_thinks", [True, False])
@examples(200)
@given(texts=st.lists(WRITTEN | st.just(LONG * 3), max_size=8), lengths=LENGTHS)
def test_text_buffered_for_long_stays_buffered_for_all_chunk_boundaries(
    texts: list[str], lengths: list[int], template_thinks: bool
) -> None:
    text = "".join(texts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streaming, "_CHECK_INTERVAL", 40)

        whole = given_out([text], template_thinks=template_thinks)

        assert given_out(cut(text, lengths), template_thinks=template_thinks) == whole
        assert given_out(list(text), template_thinks=template_thinks) == whole
        assert template_thinks or rescue(text, NAMES, template_thinks=False).text.startswith(whole.text)


@examples(200)
@given(
    units=st.lists(
        st.tuples(
            st.sampled_from(
                ["`", "``", " `a` ", "`a`x", "`" + LONG, LONG, "so, ", "{", "<|", "\n", "\n```\n", "~~~\n"]
            ),
            st.integers(1, 12),
        ),
        max_size=7,
    ),
    lengths=LENGTHS,
)
@example(units=[("`", 42), ("{", 6), ("so, ", 11), ("<|", 11), ("``\n", 1)], lengths=[1])
@example(units=[("`", 42), ("{", 6), ("so, ", 11), ("<|channel|>final<|message|>", 3), ("``\n", 1)], lengths=[1])
def test_a_long_line_with_backticks_is_released_as_far_for_all_chunk_boundaries(
    units: list[tuple[str, int]], lengths: list[int]
) -> None:
    text = "".join(unit * count for unit, count in units)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streaming, "_LONG_LINE", 100)
        patch.setattr(streaming, "_CONTEXT_LENGTH", 20)

        whole = given_out([text], template_thinks=False)

        assert given_out(cut(text, lengths), template_thinks=False) == whole
        assert given_out(list(text), template_thinks=False) == whole


@pytest.mark.parametrize("piece", [1, 500, 2_000])
@pytest.mark.parametrize("spaces", ["", " ", "\n\n  "])
@pytest.mark.parametrize(
    "words", ["call: ", "Call: ", "Action: ", "to=", "assistant to=", "TOOL_CALL\n", f"{NAMES[0]} {{"]
)
def test_a_long_text_that_begins_like_an_announced_call_is_released(words: str, spaces: str, piece: int) -> None:
    text = f"{spaces}{words}{LONG * 20}"

    released = given_out(cut(text, [piece]), template_thinks=False)

    assert given_out(cut(spaces + words, [piece])) == given_out([spaces + words])
    assert released == given_out([text], template_thinks=False)
    assert text.startswith(released.text)
    assert len(released.text) >= len(text) - len(LONG) or "{" in words


@pytest.mark.parametrize("piece", [1, 500, 2_747, 30_000])
@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("`" + "so it is " * 2_000, 8_000),
        ("So: " * 1_000 + "`" + "so it is " * 2_000, 12_000),
        ("`a` " * 1_000 + "`" + "so it is " * 2_000, 12_000),
        ("`" + "so it is " * 500 + "` " + "so it is " * 2_000, 22_502),
        ("`" + "so it is " * 1_000 + "` " + "so it is " * 2_000, 8_000),
        ("`" + "so it is " * 500 + "\n" + "so it is " * 2_000, 22_501),
    ],
    ids=["unclosed", "after text", "after code", "closed", "closed too late", "line ends"],
)
def test_the_text_is_released_up_to_a_length_after_an_unclosed_backtick(text: str, length: int, piece: int) -> None:
    released = given_out(cut(text, [piece]), template_thinks=False).text

    assert released == text[:length].rstrip()


@pytest.mark.parametrize("piece", [17, 400, 2_000, 100_000])
def test_a_tag_named_as_a_tool_is_buffered_until_the_tags_inside_are_closed(piece: int) -> None:
    tag = NAMES[0]
    text = f"<{tag}>" * 300 + f"</{tag}>" * 300

    released = given_out(cut(text, [piece]))

    assert released.text == rescue(text, NAMES).text == ""
