"""Notifies clients of their jobs by signed POST requests, which are retried like the calls of tools."""

from __future__ import annotations

from tenacity import AsyncRetrying, retry_if_result, wait_exponential

from forge_proxy.core.backend_errors import BackendFault
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.engine.events import NotificationFailed
from forge_proxy.engine.ports import Observer
from forge_proxy.tools.callbacks import describe_fault
from forge_proxy.tools.config import CallbackConfig
from forge_proxy.tools.errors import NotAllowed
from forge_proxy.tools.origins import check_url, origin_of
from forge_proxy.tools.ports import ToolClock, ToolHttpClient
from forge_proxy.tools.signed_requests import check_listed, sign_request

_BACKOFF = wait_exponential(multiplier=0.5)
"""Seconds: 0.5, 1, 2, …"""
_TRANSIENT = (408, 425, 429)


def check_notify_url(url: str, config: CallbackConfig) -> None:
    """Raise `InvalidRequest` if notifications cannot be sent to this URL."""
    try:
        check_listed(check_url(url), config)
    except (NotAllowed, ValueError) as error:
        raise InvalidRequest("notify_url", str(error)) from error


class CallbackNotifications:
    """`jobs.ports.NotificationSender` over HTTP. Only origins in `tools.callbacks.allow` are called."""

    def __init__(self, config: CallbackConfig, http: ToolHttpClient, clock: ToolClock, observe: Observer) -> None:
        self._config = config
        self._http = http
        self._clock = clock
        self._observe = observe

    async def send(self, url: str, body: bytes, key: str) -> None:
        """See `NotificationSender`."""
        try:
            check_listed(url, self._config)
        except NotAllowed as error:  # it was listed when the job was submitted
            self._observe(NotificationFailed(origin_of(url), key, str(error)))
            return
        retrying = AsyncRetrying(
            retry=retry_if_result(bool),
            wait=_BACKOFF,
            stop=lambda state: state.attempt_number > self._config.retries,
            sleep=self._clock.sleep,
            retry_error_callback=lambda _: None,
        )
        await retrying(self._post, url, body, key)

    async def _post(self, url: str, body: bytes, key: str) -> bool:
        """Send one request. Returns whether it failed and may be retried."""
        headers, seconds = sign_request(self._config, body, key, self._clock.time()), self._config.timeout_seconds
        try:
            async with self._http.open("POST", url, body=body, headers=headers, seconds=seconds) as response:
                status = response.status
        except BackendFault as fault:
            self._observe(NotificationFailed(origin_of(url), key, describe_fault(fault, seconds)))
            return True
        if status < 300:
            return False
        self._observe(NotificationFailed(origin_of(url), key, f"it answered {status}"))
        return status >= 500 or status in _TRANSIENT
