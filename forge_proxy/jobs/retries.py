"""How long what a job does is repeated."""

from __future__ import annotations

from tenacity import (
    AsyncRetrying,
    retry_if_exception_type,
    retry_if_not_exception_type,
    wait_chain,
    wait_fixed,
)

from forge_proxy.core.store_errors import StoreInUse, StoreUnavailable

retry_if_store_may_return = retry_if_exception_type(StoreUnavailable) & retry_if_not_exception_type(StoreInUse)
"""Retry predicate: another daemon keeps the store for as long as it runs."""
STORE_RETRY_WAIT = wait_chain(*map(wait_fixed, (0.5, 1.0, 2.0, 5.0)))
"""Seconds between the retries of a patient writer; the last value repeats."""
RETRY_SECONDS = 1.0
"""Seconds between the retries of a scheduler."""
_ATTEMPT_SECONDS = (1, 2, 5, 10, 30)


def retry_until_store_returns() -> AsyncRetrying:
    """Retry while the store is unavailable, unless another daemon uses it."""
    return AsyncRetrying(retry=retry_if_store_may_return, wait=wait_fixed(RETRY_SECONDS), reraise=True)


def compute_retry_delay(attempt: int) -> float:
    """Return the seconds to wait after a phase has failed `attempt` times."""
    return _ATTEMPT_SECONDS[min(attempt, len(_ATTEMPT_SECONDS)) - 1]
