"""Errors of the model server, or of the connection to it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from forge_proxy.core.dialect import UnsupportedFeature
from forge_proxy.core.errors import ForgeError
from forge_proxy.core.jsontypes import Json

_LONGEST = 4000
"""Maximum number of characters of a server's message that are searched."""
_CREDENTIALS = re.compile(r"(?<=://)[^/\s@]+@")


class BackendFault(ForgeError):
    """The model server or the connection to it failed. `url` identifies the server; URL credentials are removed."""

    is_passing: bool = False
    """Whether an immediate retry of the same request is likely to succeed, because the response was lost in transit."""

    def __init__(self, message: str, *, url: str) -> None:
        super().__init__(_CREDENTIALS.sub("", message))
        self.url = _CREDENTIALS.sub("", url)

    @property
    def summary(self) -> str:
        return str(self)


class BackendUnreachable(BackendFault):
    """The connection to the model server failed; `cause` is the operating system's message."""

    def __init__(self, url: str, cause: str) -> None:
        super().__init__(f"cannot reach the model server at {url}: {cause}", url=url)
        self.cause = cause


class BackendTimeout(BackendFault):
    """The model server accepted the connection and then sent nothing for `seconds`."""

    def __init__(self, url: str, seconds: float) -> None:
        super().__init__(f"the model server at {url} sent nothing for {seconds:g} s", url=url)
        self.seconds = seconds


class BackendBroke(BackendFault):
    """The response was interrupted or became unparseable after it had begun. With `is_passing`, it may be retried."""

    def __init__(self, url: str, cause: str, *, is_passing: bool = True) -> None:
        super().__init__(f"the response of the model server at {url} was interrupted: {cause}", url=url)
        self.cause = cause
        self.is_passing = is_passing


class UnexpectedStatus(BackendFault):
    """The model server returned a status that is neither success nor an error: a redirect, 204, 999.

    `detail` is the remedy, for the operator.
    """

    def __init__(self, url: str, status: int, detail: str) -> None:
        super().__init__(f"the model server at {url} answered {status}: {detail}", url=url)
        self.status = status


class ResponseTooLarge(BackendFault):
    """The response is larger than `limit` bytes, the setting `backend.max_response_mb`."""

    def __init__(self, url: str, limit: int) -> None:
        size = f"{limit / 1024 / 1024:g}"
        super().__init__(
            f"the response of the model server at {url} is larger than {size} MB (backend.max_response_mb)", url=url
        )
        self.limit = limit


class BackendLost(BackendFault):
    """The model server exited during the request and is being restarted. Retry after `seconds`."""

    is_passing = True

    def __init__(self, url: str, cause: str, seconds: int) -> None:
        super().__init__(f"the model server at {url} exited during the request: {cause}", url=url)
        self.cause = cause
        self.seconds = seconds


class BackendNotReady(BackendFault):
    """The model server is starting or loading its model and was not ready within the time a request may wait.

    Retry after `seconds`.
    """

    def __init__(self, url: str, state: str, seconds: int) -> None:
        super().__init__(f"the model server ({url}) is not ready yet: {state}", url=url)
        self.state = state
        self.seconds = seconds


class RouteNotSupported(BackendFault):
    """The model server has no such route. `kind` is the kind of server, such as `ollama`."""

    def __init__(self, url: str, kind: str, method: str, route: str) -> None:
        super().__init__(f"the model server ({kind} at {url}) has no {method} {route}", url=url)
        self.kind = kind


class BackendDown(BackendFault):
    """The model server is not running and will not be restarted: it was stopped, or it fails repeatedly."""

    def __init__(self, url: str, why: str) -> None:
        super().__init__(why, url=url)


class ModelNotLoaded(BackendFault):
    """One of several models could not be loaded; the others are still served. Loading is retried after `seconds`."""

    def __init__(self, model: str, why: str, seconds: int) -> None:
        super().__init__(
            f"the model {model!r} could not be loaded: {why}; loading is retried in {seconds} s", url=model
        )
        self.model = model
        self.seconds = seconds


class BackendError(BackendFault):
    """The model server returned an HTTP error. `body` is the response body, parsed if it is JSON."""

    def __init__(self, url: str, status: int, body: Json, headers: Mapping[str, str] | None = None) -> None:
        hint = " (set its API key in backend.api_key)" if status in (401, 403) else ""
        super().__init__(f"the model server at {url} answered {status}: {error_message(body)}{hint}", url=url)
        self.status = status
        self.body = body
        self.headers = dict(headers or {})

    def mark_inside_response(self) -> BackendError:
        """Mark the error as sent inside a response with status 200, which clients cannot retry by status.

        Subclasses describe a problem of the request or the model, which a retry does not solve.
        """
        self.is_passing = type(self) is BackendError and self.status >= 500
        return self

    @property
    def summary(self) -> str:
        return f"the model server at {self.url} answered {self.status}"  # the server's message may quote the prompt

    @property
    def server_message(self) -> str:
        """The server's own message, without the prefix that forge-proxy adds."""
        return error_message(self.body)

    @property
    def is_about_model(self) -> bool:
        """Whether the message mentions a model, for example one that the server does not have."""
        return "model" in self.server_message[:_LONGEST].lower()


class UnreadCall(BackendError):
    """The model server could not parse the call that its model generated and returned an error instead.

    `written` is the text that the model generated, empty if the server does not report it.
    """

    def __init__(
        self, url: str, status: int, body: Json, headers: Mapping[str, str] | None = None, *, written: str = ""
    ) -> None:
        super().__init__(url, status, body, headers)
        self.written = written


class ResponseTooDeep(UnreadCall):
    """The model's response is nested too deeply to be serialized. The engine retries it like any unparseable call."""

    def __init__(self, url: str) -> None:
        message = "the model's response is nested too deeply to be passed on"
        super().__init__(url, 502, {"error": {"message": message, "type": "server_error", "code": "response_too_deep"}})


class ThinkingNotSupportedError(BackendError):
    """The request enables reasoning, which the model does not support. The engine may retry it without reasoning."""


class ContextOverflow(BackendError):
    """The request exceeds the model's context window. Both token counts are the server's, None if it reports none."""

    def __init__(
        self,
        url: str,
        status: int,
        body: Json,
        headers: Mapping[str, str] | None = None,
        *,
        tokens: int | None = None,
        window: int | None = None,
    ) -> None:
        super().__init__(url, status, body, headers)
        self.tokens = tokens
        self.window = window


class LimitTooLarge(ContextOverflow):
    """The prompt may fit, but not together with the requested number of completion tokens.

    `room` is the number of completion tokens that fit, None if the server does not report it.
    """

    def __init__(
        self,
        url: str,
        status: int,
        body: Json,
        headers: Mapping[str, str] | None = None,
        *,
        tokens: int | None = None,
        window: int | None = None,
        room: int | None = None,
    ) -> None:
        super().__init__(url, status, body, headers, tokens=tokens, window=window)
        self.room = room


class RequestFormatRejected(BackendError):
    """The model server rejects the format of the request; `need` is the feature that it does not support."""

    def __init__(
        self, url: str, status: int, body: Json, headers: Mapping[str, str] | None = None, *, need: UnsupportedFeature
    ) -> None:
        super().__init__(url, status, body, headers)
        self.need = need


class ToolsRejected(BackendError):
    """The model server rejects the tools even with simplified schemas.

    `tool` is the name of the rejected tool and `place` its index in the list; both are None if no single tool is the
    cause. `offered` is the number of tools in the request.
    """

    def __init__(self, refusal: BackendError, tool: str | None, place: int | None, offered: int) -> None:
        super().__init__(refusal.url, refusal.status, refusal.body, refusal.headers)
        self.tool = tool
        self.place = place
        self.offered = offered


def error_message(body: Json) -> str:
    """Return the message of an error body in any of the usual formats."""
    inner = body.get("error", body) if isinstance(body, Mapping) else body
    if isinstance(inner, Mapping):
        inner = inner.get("message", inner.get("detail", inner))
    message = inner if isinstance(inner, str) else repr(inner)
    return "an HTML page" if message.lstrip().lower().startswith(("<!doctype", "<html")) else message
