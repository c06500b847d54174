"""Counts of tokens that no server can mean are not believed: their sums could not be written as JSON."""

from __future__ import annotations

import pytest

from forge_proxy.core.guardrails.usage import TokenUsage


@pytest.mark.parametrize("count", [2**63, 2**64 - 1, -1, True, 1.5, "9"])
def test_a_count_that_cannot_be_is_not_added(count: int) -> None:
    spent = TokenUsage()
    for _ in range(3):
        spent.add({"total_tokens": count})

    assert spent.tokens == 0
