"""Describes failed requests to a daemon: error responses, and errors of the connection."""

from __future__ import annotations

import json
import re
from typing import Any

_SYSTEM_ERROR = re.compile(r"\[Errno -?\d+\] (.+)")
_NO_TLS = ("WRONG_VERSION_NUMBER", "record layer failure")
"""OpenSSL error texts for a server that speaks plain HTTP."""


def read_json(text: str) -> Any:
    """Return the value of a JSON text; None if it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def describe_transport_error(exc: Exception) -> str:
    """Describe a transport error, without the errno prefix."""
    message = str(exc) or type(exc).__name__
    if any(sign in message for sign in _NO_TLS):
        return "the server there does not speak https"
    if "missing an 'http://'" in message:
        return "expected a URL such as http://127.0.0.1:8081"
    error = _SYSTEM_ERROR.fullmatch(message)
    return error[1].lower() if error else message[:1].lower() + message[1:]


def error_message(content: Any, status: int) -> str:
    """Return the message of an error response of the daemon."""
    error = content.get("error") if isinstance(content, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    if isinstance(error, dict) and "message" in error:
        message = str(error["message"])  # pyright: ignore[reportUnknownArgumentType]
        if status == 401:
            message += "; set it with --key or FORGE_PROXY_KEY"
        return message
    return f"the daemon returned {status}"


def error_code(content: Any) -> str | None:
    """Return the code of an error response of the daemon, if it has one."""
    error = content.get("error") if isinstance(content, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    code = error.get("code") if isinstance(error, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return code if isinstance(code, str) else None
