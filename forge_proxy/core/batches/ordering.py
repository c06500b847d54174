"""The order in which the lines of a batch are processed, and the shards that they are divided into."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import orjson

from forge_proxy.core.batches.limits import MAX_SHARDS, MIN_SHARD
from forge_proxy.core.batches.lines import BatchLine
from forge_proxy.core.batches.prefixes import have_common_prefix

NO_GROUP = -1


class PlannedLine(NamedTuple):
    """A line in the order of processing."""

    number: int
    offset: int
    size: int
    group: int
    """The number of the group of lines whose prompts have a long prefix in common; `NO_GROUP` if it is in none."""


def plan_lines(lines: Sequence[BatchLine], *, by_prefix: bool = True) -> list[PlannedLine]:
    """Order lines by model, so that it changes rarely, and then by their longest common prefixes.

    Without `by_prefix`, lines of a model stay in the order of the file and are in no group.
    """
    if not by_prefix:
        ordered = sorted(lines, key=lambda line: (line.model, line.number))
        return [PlannedLine(line.number, line.offset, line.size, NO_GROUP) for line in ordered]
    ordered = sorted(lines, key=lambda line: (line.model, line.prefix, line.number))
    is_linked = [
        before.model == line.model and have_common_prefix(before.prefix, line.prefix)
        for before, line in pairwise(ordered)
    ]
    planned: list[PlannedLine] = []
    group = 0
    for at, line in enumerate(ordered):
        is_first = at == 0 or not is_linked[at - 1]
        is_last = at == len(ordered) - 1 or not is_linked[at]
        group += is_first
        number = NO_GROUP if is_first and is_last else group
        planned.append(PlannedLine(line.number, line.offset, line.size, number))
    return planned


def split_into_shards(lines: Sequence[PlannedLine]) -> list[list[PlannedLine]]:
    """Divide lines, in their order, into at most `MAX_SHARDS` shards of at least `MIN_SHARD` lines.

    A group is not divided if its rest would be smaller than a shard.
    """
    target = max(MIN_SHARD, -(-len(lines) // MAX_SHARDS))
    shards: list[list[PlannedLine]] = []
    start = 0
    while start < len(lines):
        end = start + target
        while end < len(lines) and lines[end].group == lines[end - 1].group != NO_GROUP and end < start + 2 * target:
            end += 1
        if end - start == 2 * target:  # the group is long enough to be divided
            end = start + target
        if len(lines) - end < MIN_SHARD:
            end = len(lines)
        shards.append([*lines[start:end]])
        start = end
    return shards


def write_lines(lines: Sequence[PlannedLine]) -> bytes:
    """Serialize lines."""
    return orjson.dumps([[*line] for line in lines])


def read_lines(text: bytes) -> list[PlannedLine]:
    """Parse serialized lines."""
    return [PlannedLine(*line) for line in orjson.loads(text)]
