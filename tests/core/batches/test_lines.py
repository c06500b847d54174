"""Lines of an input file: the same however the file is cut, in an order that keeps prefixes together."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.batches.limits import MAX_SHARDS, MIN_SHARD
from forge_proxy.core.batches.lines import BatchFileReader, BatchLine, LineRules
from forge_proxy.core.batches.ordering import (
    NO_GROUP,
    PlannedLine,
    plan_lines,
    read_lines,
    split_into_shards,
    write_lines,
)
from forge_proxy.core.batches.prefixes import compute_prefix_key, have_common_prefix
from forge_proxy.core.jsontypes import JsonObject

RULES = LineRules("/v1/chat/completions", 2000)
GOOD = {"custom_id": "a", "method": "POST", "url": RULES.endpoint, "body": {"model": "m", "messages": []}}


def read(data: bytes, size: int = 1_000_000) -> BatchFileReader:
    reader = BatchFileReader(RULES)
    for at in range(0, len(data), size):
        reader.feed(data[at : at + size])
    reader.close()
    return reader


PIECES = st.lists(
    st.sampled_from([
        json.dumps(GOOD).encode(), json.dumps({**GOOD, "custom_id": "b"}).encode(), b"{}", b"", b" ", b"\xff", b"[",
        json.dumps({**GOOD, "body": {"x": "y" * 3000}}).encode(), b"x" * 90_000,
    ]),
    max_size=8,
)  # fmt: skip


@given(PIECES, st.sampled_from([b"\n", b"\r\n"]), st.integers(50, 70_000), st.booleans())
def test_a_file_has_the_same_lines_and_faults_however_it_is_cut(
    pieces: list[bytes], end: bytes, size: int, is_ended: bool
) -> None:
    data = end.join(pieces) + (end if is_ended else b"")
    whole, cut = read(data), read(data, size)

    assert (whole.lines, whole.faults) == (cut.lines, cut.faults)
    for line in whole.lines:
        assert json.loads(data[line.offset : line.offset + line.size])["custom_id"] in ("a", "b")
    if not whole.faults:
        assert len(whole.lines) == sum(bool(piece.strip()) for piece in pieces)


def chat(*texts: str) -> JsonObject:
    return {"messages": [{"role": "user", "content": text} for text in texts]}


def test_prompts_with_a_long_common_prefix_belong_together() -> None:
    system = "You are a careful assistant. " * 100
    keys = [compute_prefix_key(chat(system, question)) for question in ("one", "two")]

    assert have_common_prefix(*keys)
    assert not have_common_prefix(keys[0], compute_prefix_key(chat("one")))
    assert not have_common_prefix(compute_prefix_key(chat("short")), compute_prefix_key(chat("short")))
    # A shared start of a thousand characters is not worth much if ten thousand others follow.
    document = [compute_prefix_key(chat(system[:1200] + letter * 10_000, "question")) for letter in "ab"]
    assert not have_common_prefix(*document)


def test_lines_are_ordered_by_model_and_then_by_their_prefixes() -> None:
    groups = {name: f"Document {name}: " + name * 3000 for name in "abc"}
    lines = [
        BatchLine(
            number, 0, 1, "m2" if number % 2 else "m1", compute_prefix_key(chat(groups["abc"[number % 3]], str(number)))
        )
        for number in range(30)
    ]
    planned = plan_lines(lines)

    assert [line.number % 2 for line in planned] == [0] * 15 + [1] * 15
    runs = [planned[at : at + 5] for at in range(0, 30, 5)]
    assert {len({line.group for line in run}) for run in runs} == {1}
    assert {len({line.number % 3 for line in run}) for run in runs} == {1}
    assert len({line.group for line in planned}) == 6
    unordered = plan_lines(lines, by_prefix=False)
    assert [line.number for line in unordered] == [*range(0, 30, 2), *range(1, 30, 2)]
    assert {line.group for line in unordered} == {NO_GROUP}


@given(st.lists(st.integers(1, 200), max_size=40))
def test_shards_have_all_lines_in_order_and_are_neither_too_small_nor_too_many(sizes: list[int]) -> None:
    lines = [
        PlannedLine(number, 0, 1, NO_GROUP if size == 1 else group)
        for group, size in enumerate(sizes)
        for number in range(size)
    ]
    shards = split_into_shards(lines)

    assert [line for shard in shards for line in shard] == lines
    assert len(shards) <= MAX_SHARDS
    assert all(len(shard) >= MIN_SHARD for shard in shards) or len(lines) < MIN_SHARD
    assert read_lines(write_lines(lines)) == lines


def test_fifty_thousand_lines_are_divided_into_at_most_as_many_shards_as_child_jobs() -> None:
    for group in (NO_GROUP, 1):
        shards = split_into_shards([PlannedLine(number, 0, 1, group) for number in range(50_000)])
        assert len(shards) <= MAX_SHARDS
        assert max(map(len, shards)) <= 2 * min(map(len, shards))
