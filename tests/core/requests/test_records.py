"""Token counts are read as the model server wrote them, and a missing count is not zero."""

from __future__ import annotations

from typing import Any

import pytest

from forge_proxy.core.requests.records import NO_TOKENS, TokenCounts, read_token_counts
from tests.fakes.records import record_with


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        (None, NO_TOKENS),
        ({}, NO_TOKENS),
        ({"prompt_tokens": 3}, TokenCounts(prompt=3)),
        ({"prompt_tokens": "3", "completion_tokens": -1}, NO_TOKENS),
        ({"prompt_tokens_details": {"cached_tokens": 2}}, TokenCounts(cached=2)),
        ({"completion_tokens_details": {"reasoning_tokens": 7}, "completion_tokens": 9}, TokenCounts(None, None, 9, 7)),
        ({"prompt_tokens_details": []}, NO_TOKENS),
    ],
)
def test_token_counts_are_read(usage: dict[str, Any] | None, counts: TokenCounts) -> None:
    assert read_token_counts(usage) == counts


def test_a_sum_is_unknown_only_if_no_count_is_known() -> None:
    assert TokenCounts(1, None, 2) + TokenCounts(3, None, None, 4) == TokenCounts(4, None, 2, 4)


def test_the_overhead_is_what_neither_the_queue_nor_the_model_server_took() -> None:
    assert record_with(seconds=2.0, queued=0.5, backend_seconds=1.25).overhead == pytest.approx(0.25)
    assert record_with(seconds=1.0, queued=0.5, backend_seconds=0.75).overhead == 0.0
