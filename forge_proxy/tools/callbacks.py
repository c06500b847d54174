"""Executes a tool by a signed POST to somebody's HTTP server. docs/tools.md describes it for who writes one."""

from __future__ import annotations

import hashlib
import hmac

from forge_proxy.core.errors import BackendBroke, BackendFault, BackendTimeout, BackendUnreachable
from forge_proxy.core.jsontypes import write
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.workflow.run import ToolOutcome
from forge_proxy.engine.events import ToolServerFailed
from forge_proxy.engine.ports import Observer
from forge_proxy.tools.callback_responses import TransientFailure, read_answer
from forge_proxy.tools.config import ByHttp, CallbackConfig
from forge_proxy.tools.errors import NotAllowed
from forge_proxy.tools.origins import is_listed, origin_of
from forge_proxy.tools.ports import Clock, HttpClient

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 60.0
"""Seconds. A server that wants more left to it is not waited for: a run holds its place meanwhile."""


class HttpCallback:
    """Sends calls to the URLs that tools name, where the configuration lists their origins."""

    def __init__(self, config: CallbackConfig, http: HttpClient, clock: Clock, observe: Observer) -> None:
        self._config = config
        self._http = http
        self._clock = clock
        self._observe = observe

    def check(self, how: ByHttp) -> None:
        """Raise `NotAllowed` for a URL that is not to be called."""
        if not is_listed(how.url, self._config.allow):
            listed = ", ".join(self._config.allow) or "no origin at all"
            raise NotAllowed(
                f"{origin_of(how.url)} is not among the hosts that may be called: add it to tools.callbacks.allow,"
                f" which lists {listed}"
            )

    async def execute(self, how: ByHttp, call: ToolCall, key: str, run_id: str) -> ToolOutcome:
        """What came of a call. What may pass is tried again under the same key, before it is the tool's error."""
        try:
            self.check(how)
        except NotAllowed as error:  # it was listed when the run was submitted
            return ToolOutcome.failed(str(error))
        said = {"run_id": run_id, "tool": call.tool, "arguments": call.args() or {}, "call_id": call.id, "key": key}
        body = write(said).encode()
        tries = 1 + (self._config.retries if how.retries is None else how.retries)
        for attempt in range(tries):
            came = await self._ask(how, call.tool, body, key)
            if isinstance(came, ToolOutcome):
                return came
            pause = max(came.after or 0.0, _FIRST_PAUSE * 2**attempt)
            if attempt + 1 == tries or pause > _LONGEST_PAUSE:
                return ToolOutcome.failed(f"the tool's server failed: {came.why} (asked {_times(attempt + 1)})")
            await self._clock.sleep(pause)
        raise AssertionError("the last try returns")

    async def _ask(self, how: ByHttp, tool: str, body: bytes, key: str) -> ToolOutcome | TransientFailure:
        seconds = how.timeout_seconds or self._config.timeout_seconds
        limit = 1024 * self._config.max_answer_kb
        headers = self._headers(body, key)
        try:
            async with self._http.open("POST", how.url, body=body, headers=headers, seconds=seconds) as answer:
                read = bytearray()
                async for piece in answer.pieces():
                    read += piece
                    if len(read) > limit:
                        return ToolOutcome.failed(f"the tool's answer is larger than {self._config.max_answer_kb} KB")
                if answer.status != 200:
                    self._observe(ToolServerFailed(origin_of(how.url), tool, key, f"it answered {answer.status}"))
                return read_answer(answer.status, answer.headers, bytes(read), self._clock.time())
        except BackendFault as fault:
            why = _in_words(fault, seconds)
            self._observe(ToolServerFailed(origin_of(how.url), tool, key, why))
            return TransientFailure(why)

    def _headers(self, body: bytes, key: str) -> dict[str, str]:
        """Made anew for each request: who checks a signature may refuse an old one."""
        timestamp = str(int(self._clock.time()))
        return {
            "Content-Type": "application/json",
            "User-Agent": "forge-proxy",
            # One that is kept may be closed by the server just then, and the request would be sent a second time.
            "Connection": "close",
            "Idempotency-Key": key,
            "X-Forge-Timestamp": timestamp,
            "X-Forge-Signature": f"v1={self._sign(timestamp, body)}",
        }

    def _sign(self, timestamp: str, body: bytes) -> str:
        secret = self._config.secret
        if secret is None:
            raise AssertionError("nothing is listed without a secret")
        signed = timestamp.encode() + b"." + body
        return hmac.new(secret.get_secret_value().encode(), signed, hashlib.sha256).hexdigest()


def _in_words(fault: BackendFault, seconds: float) -> str:
    """Why there is no answer. The fault's own words speak of a model server."""
    match fault:
        case BackendTimeout():
            return f"no answer within {seconds:g} s"
        case BackendUnreachable(cause=cause):
            return f"no connection: {cause}"
        case BackendBroke(cause=cause):
            return f"it broke off: {cause}"
        case _:
            return type(fault).__name__


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"
