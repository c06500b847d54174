"""How long what a job does is repeated."""

from __future__ import annotations

from tenacity import retry_if_exception_type, retry_if_not_exception_type, wait_chain, wait_fixed

from forge_proxy.core.store_errors import StoreInUse, StoreUnavailable

retry_if_store_may_return = retry_if_exception_type(StoreUnavailable) & retry_if_not_exception_type(StoreInUse)
"""Retry predicate: another daemon keeps the store for as long as it runs."""
STORE_RETRY_WAIT = wait_chain(*map(wait_fixed, (0.5, 1.0, 2.0, 5.0)))
"""Seconds between the retries of a patient writer; the last value repeats."""
_ATTEMPT_SECONDS = (1, 2, 5, 10, 30)


def attempt_wait(attempt: int) -> float:
    """Return the seconds to wait after a phase has failed `attempt` times."""
    return _ATTEMPT_SECONDS[min(attempt, len(_ATTEMPT_SECONDS)) - 1]
