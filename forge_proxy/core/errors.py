"""What can go wrong with a request, as types that say whose fault it is. HTTP statuses are in `api/errors.py`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from forge_proxy.core.dialect import UnsupportedFeature
from forge_proxy.core.jsontypes import Json

_LONGEST = 4000
"""Characters of a server's message that are looked at."""


class ForgeError(Exception):
    """Base of all errors that forge-proxy raises on purpose."""

    @property
    def summary(self) -> str:
        """What may be logged: never a word of a prompt or an answer."""
        return type(self).__name__

    def __reduce__(self) -> tuple[Any, ...]:
        # Built from fields rather than from `args`, so the default way of copying would call __init__ wrongly.
        return (_rebuild, (type(self), self.args, self.__dict__))


def _rebuild(kind: type[ForgeError], args: tuple[object, ...], fields: dict[str, object]) -> ForgeError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(fields)
    return error


class InvalidRequest(ForgeError):
    """The caller's request cannot be understood. `at` is the path of the field, as `messages[3].content`."""

    def __init__(self, at: str, why: str) -> None:
        super().__init__(f"{at}: {why}" if at else why)
        self.at = at
        self.why = why


class OutOfMemory(ForgeError):
    """There was not enough memory to read `what`."""

    def __init__(self, what: str) -> None:
        super().__init__(f"not enough memory to read {what}")

    @property
    def summary(self) -> str:
        return str(self)


class UnknownModel(ForgeError):
    """The caller named a model that is not served. `known` are the names that are."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(f"no model {name!r}; available: {', '.join(known) or 'none'}")
        self.name = name
        self.known = tuple(known)


class Overloaded(ForgeError):
    """As many requests wait for the model server as may. One of them is expected to get its turn in `seconds`."""

    def __init__(self, waiting: int, seconds: int) -> None:
        super().__init__(
            f"the model server is busy and {waiting} requests wait for it already; try again in {seconds} s"
        )
        self.waiting = waiting
        self.seconds = seconds

    @property
    def summary(self) -> str:
        return str(self)


_CREDENTIALS = re.compile(r"(?<=://)[^/\s@]+@")


class BackendFault(ForgeError):
    """The model server, or the way to it, failed. `url` names the server. User and password of a URL are removed."""

    is_passing: bool = False
    """Whether the same request, sent again at once, may well be answered: the response was lost on its way."""

    def __init__(self, message: str, *, url: str) -> None:
        super().__init__(_CREDENTIALS.sub("", message))
        self.url = _CREDENTIALS.sub("", url)

    @property
    def summary(self) -> str:
        return str(self)


class BackendUnreachable(BackendFault):
    """No connection to the model server; `cause` is the operating system's word for it."""

    def __init__(self, url: str, cause: str) -> None:
        super().__init__(f"cannot reach the model server at {url}: {cause}", url=url)
        self.cause = cause


class BackendTimeout(BackendFault):
    """The model server accepted the connection and then said nothing for `seconds`."""

    def __init__(self, url: str, seconds: float) -> None:
        super().__init__(f"the model server at {url} sent nothing for {seconds:g} s", url=url)
        self.seconds = seconds


class BackendBroke(BackendFault):
    """The answer began and then broke off or turned into something unreadable."""

    def __init__(self, url: str, cause: str, *, is_passing: bool = True) -> None:
        super().__init__(f"the model server at {url} broke off its answer: {cause}", url=url)
        self.cause = cause
        self.is_passing = is_passing


class UnexpectedStatus(BackendFault):
    """The model server answered with a status that is neither an answer nor an error: a redirect, no content, 999.
    `detail` says what to do.
    """

    def __init__(self, url: str, status: int, detail: str) -> None:
        super().__init__(f"the model server at {url} answered {status}: {detail}", url=url)
        self.status = status


class ResponseTooLarge(BackendFault):
    """The response is larger than what may be held of one: `limit` bytes, the setting `backend.max_response_mb`."""

    def __init__(self, url: str, limit: int) -> None:
        size = f"{limit / 1024 / 1024:g}"
        super().__init__(
            f"the response of the model server at {url} is larger than {size} MB (backend.max_response_mb)", url=url
        )
        self.limit = limit


class BackendLost(BackendFault):
    """The model server ended while it answered, and is started again. Worth trying again in `seconds`."""

    is_passing = True

    def __init__(self, url: str, cause: str, seconds: int) -> None:
        super().__init__(f"the model server at {url} ended in the middle of the request: {cause}", url=url)
        self.cause = cause
        self.seconds = seconds


class BackendNotReady(BackendFault):
    """The model server is starting or loads its model, and has not become ready in the time a request may wait.
    Worth trying again in `seconds`.
    """

    def __init__(self, url: str, state: str, seconds: int) -> None:
        super().__init__(f"the model server ({url}) is not ready yet: {state}", url=url)
        self.state = state
        self.seconds = seconds


class BackendDown(BackendFault):
    """The model server does not run, and is not going to by itself: it was stopped, or fails again and again."""

    def __init__(self, url: str, why: str) -> None:
        super().__init__(why, url=url)


class ModelNotLoaded(BackendFault):
    """One model of several could not be loaded, the others are served on. It is tried again after `seconds`."""

    def __init__(self, model: str, why: str, seconds: int) -> None:
        super().__init__(f"the model {model!r} could not be loaded: {why}; it is tried again in {seconds} s", url=model)
        self.model = model
        self.seconds = seconds


class BackendError(BackendFault):
    """The model server answered with an HTTP error. `body` is what it said, parsed if it was JSON."""

    def __init__(self, url: str, status: int, body: Json, headers: Mapping[str, str] | None = None) -> None:
        hint = " (its own key is the setting backend.api_key)" if status in (401, 403) else ""
        super().__init__(f"the model server at {url} answered {status}: {words_of(body)}{hint}", url=url)
        self.status = status
        self.body = body
        self.headers = dict(headers or {})

    def inside_response(self) -> BackendError:
        """The same error, sent inside a response whose status was 200: clients cannot retry such a one by its status.

        Types of their own mean something about the request or the model, which a second time does not change.
        """
        self.is_passing = type(self) is BackendError and self.status >= 500
        return self

    @property
    def summary(self) -> str:
        return f"the model server at {self.url} answered {self.status}"  # its words may quote the prompt

    @property
    def words(self) -> str:
        """The server's own message, without our framing."""
        return words_of(self.body)

    @property
    def is_about_model(self) -> bool:
        """Whether the message is about a model, such as one that the server does not have."""
        return "model" in self.words[:_LONGEST].lower()


class UnreadCall(BackendError):
    """The model server could not read the call its own model wrote, and answered with an error in its place. `written`
    is what the model wrote, empty where the server does not tell.
    """

    def __init__(
        self, url: str, status: int, body: Json, headers: Mapping[str, str] | None = None, *, written: str = ""
    ) -> None:
        super().__init__(url, status, body, headers)
        self.written = written


class ResponseTooDeep(UnreadCall):
    """The model's response is nested so deeply that it could not be written again. Retried like any unreadable one."""

    def __init__(self, url: str) -> None:
        said = "the model's response is nested too deeply to be passed on"
        super().__init__(url, 502, {"error": {"message": said, "type": "server_error", "code": "response_too_deep"}})


class ThinkingNotSupportedError(BackendError):
    """The model does not think, and was told to: the same may be asked without that."""


class ContextOverflow(BackendError):
    """The request does not fit into the model's window. Both counts are the server's, None where it does not tell."""

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
    """The prompt may fit, but not the completion tokens asked for beside it. `room` is how many would, None where the
    server does not tell.
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
    """The model server does not take the request as it is written; `need` is what it wants written differently."""

    def __init__(
        self, url: str, status: int, body: Json, headers: Mapping[str, str] | None = None, *, need: UnsupportedFeature
    ) -> None:
        super().__init__(url, status, body, headers)
        self.need = need


class ToolsRejected(BackendError):
    """The model server takes the tools not even with simplified schemas. `tool` is the guilty one and `place` where it
    stands in the list; None when it is no single one.
    """

    def __init__(self, refusal: BackendError, tool: str | None, place: int | None, offered: int) -> None:
        super().__init__(refusal.url, refusal.status, refusal.body, refusal.headers)
        self.tool = tool
        self.place = place
        self.offered = offered


class ContextBudgetExceeded(ForgeError):
    """A prompt of `tokens` is over the budget of `budget`; `because` says why it is that. `exact` unless estimated.

    `shortened` is what is left of it at the least, where it was to be shortened.
    """

    def __init__(self, tokens: int, budget: int, because: str, *, exact: bool, shortened: int | None = None) -> None:
        counted = f"{tokens}" if exact else f"about {tokens}"
        tried = f" Shortened as far as that goes, they are {shortened}." if shortened is not None else ""
        super().__init__(
            f"This model's maximum context length is {budget} tokens. However, your messages resulted in {counted} "
            f"tokens.{tried} Please reduce the length of the messages. (The budget: {because}.)"
        )
        self.tokens = tokens
        self.budget = budget

    @property
    def summary(self) -> str:
        return f"a prompt of {self.tokens} tokens is over the budget of {self.budget}"


class BudgetUnchanged(ForgeError):
    """The budget could not be switched; what it was before holds on. `why` is the reason."""

    def __init__(self, why: str) -> None:
        super().__init__(f"the budget stays as it was: {why}")

    @property
    def summary(self) -> str:
        return str(self)


class BudgetResolutionError(BackendFault):
    """The model server does not say how many tokens of context there are, and nobody else did. `cause` is what asking
    it failed with, None where it answered and does not tell.
    """

    def __init__(self, url: str, cause: BackendFault | None = None) -> None:
        why = f"cannot be asked ({cause.summary})" if cause else "does not tell its window"
        remedy = "say budget_mode=BudgetMode.MANUAL and manual_tokens"
        super().__init__(f"no budget: the model server at {url} {why}; {remedy}", url=url)
        self.cause = cause


class EmptyAnswer(ForgeError):
    """The model answered with nothing, neither text nor call, in every attempt."""

    def __init__(self, attempts: int) -> None:
        super().__init__(f"the model answered with nothing in {attempts} attempts")
        self.attempts = attempts


class ToolChoiceUnsatisfied(ForgeError):
    """A call was demanded by `tool_choice` and the model made none within its attempts."""

    def __init__(self, wanted: str, attempts: int, last_text: str, *, cut: bool = False) -> None:
        limit = "; the last answer ended at its token limit" if cut else ""
        tries = f"{attempts} attempt{'s' if attempts > 1 else ''}"
        super().__init__(f"tool_choice asks for {wanted}, and the model made no such call in {tries}{limit}")
        self.attempts = attempts
        self.last_text = last_text


class ToolCallInvalid(ForgeError):
    """The model's calls stayed invalid within the budget, and `guardrails.on_exhausted` is `error`."""

    def __init__(self, problems: Sequence[str], attempts: int) -> None:
        super().__init__(f"the model's tool calls were invalid in {attempts} attempts: {'; '.join(problems)}")
        self.problems = tuple(problems)
        self.attempts = attempts


def words_of(body: Json) -> str:
    """The message inside an error body, whichever of the usual shapes it has."""
    inner = body.get("error", body) if isinstance(body, Mapping) else body
    if isinstance(inner, Mapping):
        inner = inner.get("message", inner.get("detail", inner))
    words = inner if isinstance(inner, str) else repr(inner)
    return "an HTML page" if words.lstrip().lower().startswith(("<!doctype", "<html")) else words


class GuardrailsBroken(ForgeError):
    """The guardrails do not work with the libraries that are installed: the daemon does not start."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"guardrails: {reason}; install forge-proxy again with a supported jsonschema-rs")
