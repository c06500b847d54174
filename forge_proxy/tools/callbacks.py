"""Executes tools by signed POST requests to HTTP servers. docs/tools.md documents the protocol for tool authors."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from tenacity import AsyncRetrying, RetryCallState, retry_if_result, wait_exponential

from forge_proxy.core.backend_errors import BackendBroke, BackendFault, BackendTimeout, BackendUnreachable
from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import JsonObject, write
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.workflow.run import ToolOutcome
from forge_proxy.engine.events import ToolServerFailed
from forge_proxy.engine.ports import Observer
from forge_proxy.tools.callback_responses import TransientFailure, read_response
from forge_proxy.tools.config import CallbackConfig, ToolServerUrl
from forge_proxy.tools.errors import NotAllowed
from forge_proxy.tools.origins import origin_of
from forge_proxy.tools.ports import ToolClock, ToolHttpClient
from forge_proxy.tools.signed_requests import check_listed, sign_request
from forge_proxy.workflows.tool_registry import ToolDeclaration, parse_definition, spec_with_parameters

_BACKOFF = wait_exponential(multiplier=0.5)
"""Seconds: 0.5, 1, 2, …"""
_LONGEST_PAUSE = 60.0
"""Seconds. If a server asks for a longer pause, the call fails: the waiting run occupies one of `runs.max_running`."""


class HttpExecution(BaseModel):
    """A tool that is executed by a POST to `url`, as described in docs/tools.md."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    by: Literal["http"] = "http"
    url: ToolServerUrl = Field(description="URL that receives the calls. tools.callbacks.allow must list its origin.")
    timeout_seconds: float | None = Field(
        default=None, gt=0, le=3600, description="Total time limit of one request. Default: the setting."
    )
    retries: int | None = Field(
        default=None,
        ge=0,
        le=10,
        description="How often a failed request is retried, with the same key. Default: the setting.",
    )


class HttpExecutor:
    """`ToolExecutor` that sends calls to the URLs of tools whose origins the configuration lists."""

    kind = "http"
    is_external = True

    def __init__(self, config: CallbackConfig, http: ToolHttpClient, clock: ToolClock, observe: Observer) -> None:
        self._config = config
        self._http = http
        self._clock = clock
        self._observe = observe

    def parse(self, execute: JsonObject, at: str) -> HttpExecution:
        """See `ToolExecutor`."""
        return parse_definition(HttpExecution, execute, at)

    async def declare(self, tool: ToolDeclaration, definition: HttpExecution, at: str) -> ToolSpec:
        """See `ToolExecutor`."""
        spec = spec_with_parameters(tool, at)
        try:
            check_listed(definition.url, self._config)
        except NotAllowed as error:
            raise InvalidRequest(f"{at}.execute.url", str(error)) from error
        return spec

    async def execute(self, definition: HttpExecution, call: ToolCall, key: str, run_id: str) -> ToolOutcome:
        """Execute a call. Transient failures are retried with the same key before they become a tool error."""
        try:
            check_listed(definition.url, self._config)
        except NotAllowed as error:  # it was listed when the run was submitted
            return ToolOutcome.failed(str(error))
        request = {"run_id": run_id, "tool": call.tool, "arguments": call.args() or {}, "call_id": call.id, "key": key}
        body = write(request).encode()
        tries = 1 + (self._config.retries if definition.retries is None else definition.retries)
        retrying = AsyncRetrying(
            retry=retry_if_result(lambda result: isinstance(result, TransientFailure)),
            wait=_pause,
            stop=lambda state: state.attempt_number == tries or state.upcoming_sleep > _LONGEST_PAUSE,
            sleep=self._clock.sleep,
            retry_error_callback=_give_up,
        )
        outcome: ToolOutcome = await retrying(self._post, definition, call.tool, body, key)
        return outcome

    async def _post(
        self, definition: HttpExecution, tool: str, body: bytes, key: str
    ) -> ToolOutcome | TransientFailure:
        seconds, url = definition.timeout_seconds or self._config.timeout_seconds, definition.url
        limit = 1024 * self._config.max_response_kb
        headers = sign_request(self._config, body, key, self._clock.time())
        try:
            async with self._http.open("POST", url, body=body, headers=headers, seconds=seconds) as response:
                read = bytearray()
                async for piece in response.pieces():
                    read += piece
                    if len(read) > limit:
                        return ToolOutcome.failed(
                            f"the tool's response is larger than {self._config.max_response_kb} KB"
                        )
                if response.status != 200:
                    self._observe(ToolServerFailed(origin_of(url), tool, key, f"it answered {response.status}"))
                return read_response(response.status, response.headers, bytes(read), self._clock.time())
        except BackendFault as fault:
            why = describe_fault(fault, seconds)
            self._observe(ToolServerFailed(origin_of(url), tool, key, why))
            return TransientFailure(why)


def describe_fault(fault: BackendFault, seconds: float) -> str:
    """Describe why there is no response. The fault's own message refers to a model server."""
    match fault:
        case BackendTimeout():
            return f"no response within {seconds:g} s"
        case BackendUnreachable(cause=cause):
            return f"no connection: {cause}"
        case BackendBroke(cause=cause):
            return f"the connection was interrupted: {cause}"
        case _:
            return type(fault).__name__


def _pause(state: RetryCallState) -> float:
    """Return the seconds before the next attempt: as the server asks in `Retry-After`, but at least the backoff."""
    return max(_failure(state).after or 0.0, _BACKOFF(state))


def _give_up(state: RetryCallState) -> ToolOutcome:
    tried = "once" if state.attempt_number == 1 else f"{state.attempt_number} times"
    return ToolOutcome.failed(f"the tool's server failed: {_failure(state).why} (tried {tried})")


def _failure(state: RetryCallState) -> TransientFailure:
    assert state.outcome is not None  # noqa: S101  # there is one after each attempt
    return state.outcome.result()
