"""Errors of a request, one type per party at fault. `api/errors.py` maps them to HTTP statuses.

Those of the model server are in `backend_errors.py`, those of the context budget in `budget_errors.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class ForgeError(Exception):
    """Base class of all errors that forge-proxy raises deliberately."""

    @property
    def summary(self) -> str:
        """The text for logs. Never contains any part of a prompt or a response."""
        return type(self).__name__

    def __reduce__(self) -> tuple[Any, ...]:
        # Subclasses take fields rather than `args`, so the default implementation would call __init__ incorrectly.
        return (_rebuild, (type(self), self.args, self.__dict__))


def _rebuild(kind: type[ForgeError], args: tuple[object, ...], fields: dict[str, object]) -> ForgeError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(fields)
    return error


class InvalidRequest(ForgeError):
    """The client's request is invalid. `at` is the path of the field, such as `messages[3].content`."""

    def __init__(self, at: str, why: str) -> None:
        super().__init__(f"{at}: {why}" if at else why)
        self.at = at
        self.why = why


class OutOfMemory(ForgeError):
    """There is not enough memory to read `what`."""

    def __init__(self, what: str) -> None:
        super().__init__(f"not enough memory to read {what}")

    @property
    def summary(self) -> str:
        return str(self)


class UnknownModel(ForgeError):
    """The client named a model that is not served. `known` holds the names of the served models."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(f"no model {name!r}; available: {', '.join(known) or 'none'}")
        self.name = name
        self.known = tuple(known)


class Overloaded(ForgeError):
    """The request queue of the model server is full. A queued request is expected to start within `seconds`."""

    def __init__(self, waiting: int, seconds: int) -> None:
        super().__init__(f"the request queue of the model server is full ({waiting}); retry in {seconds} s")
        self.waiting = waiting
        self.seconds = seconds

    @property
    def summary(self) -> str:
        return str(self)


class RequestCancelled(ForgeError):
    """The request was cancelled by `POST /admin/v1/requests/{request}/cancel`."""

    def __init__(self) -> None:
        super().__init__("the request was cancelled by the operator of forge-proxy")

    @property
    def summary(self) -> str:
        return str(self)


class EmptyAnswer(ForgeError):
    """The model returned an empty response, neither text nor a call, in every attempt."""

    def __init__(self, attempts: int) -> None:
        super().__init__(f"the model returned an empty response in {attempts} attempts")
        self.attempts = attempts


class ToolChoiceUnsatisfied(ForgeError):
    """`tool_choice` requires a call and the model made none within its attempts."""

    def __init__(self, wanted: str, attempts: int, last_text: str, *, cut: bool = False) -> None:
        limit = "; the last response ended at its token limit" if cut else ""
        tries = f"{attempts} attempt{'s' if attempts > 1 else ''}"
        super().__init__(f"tool_choice requires {wanted}, but the model made no such call in {tries}{limit}")
        self.attempts = attempts
        self.last_text = last_text


class ToolCallInvalid(ForgeError):
    """The model's calls were still invalid after all retries, and `guardrails.on_exhausted` is `error`."""

    def __init__(self, problems: Sequence[str], attempts: int) -> None:
        super().__init__(f"the model's tool calls were invalid in {attempts} attempts: {'; '.join(problems)}")
        self.problems = tuple(problems)
        self.attempts = attempts


class GuardrailsBroken(ForgeError):
    """The guardrails do not work with the installed libraries, so the daemon does not start."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"guardrails: {reason}; reinstall forge-proxy with a supported version of jsonschema-rs")
