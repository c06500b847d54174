"""Responses without a completion: errors by status, and statuses that no model server should send."""

from __future__ import annotations

from tests.harness.fault import Fault
from tests.harness.response import JsonDict, send_status

_SECONDS = "2"


def _error(code: int | str, message: str, type_: str, **more: object) -> JsonDict:
    return {"error": {"code": code, "message": message, "type": type_, **more}}


_TOO_LONG = "This model's maximum context length is 8192 tokens, but the request has 9000."
_HTML = "<html><body><h1>502 Bad Gateway</h1></body></html>"

FAULTS = tuple(
    Fault(name, sentence, send=response, is_plain=True, is_remembered=True)
    for name, sentence, response in (
        ("401", "401 once", send_status(401, _error("invalid_api_key", "wrong key", "invalid_request_error"))),
        ("413", "413 once", send_status(413, _error(413, "request too large", "invalid_request_error"))),
        (
            "429",
            f"429 once, with Retry-After {_SECONDS}",
            send_status(429, _error(429, "too many requests", "rate_limit_error"), Retry_After=_SECONDS),
        ),
        ("502", "502 once, with an error in JSON", send_status(502, _error(502, "bad gateway", "server_error"))),
        ("502 HTML", "502 once, with a page", send_status(502, _HTML)),
        (
            "503",
            f"503 once, with Retry-After {_SECONDS}",
            send_status(503, _error(503, "Loading model", "unavailable_error"), Retry_After=_SECONDS),
        ),
        (
            "400 context",
            "400 once: the context is exceeded, in OpenAI's words",
            send_status(400, _error("context_length_exceeded", _TOO_LONG, "invalid_request_error", param="messages")),
        ),
        (
            "400 llama",
            "400 once: the context is exceeded, in llama-server's words",
            send_status(
                400,
                _error(
                    400,
                    "the request (9000 tokens) exceeds the available context size (8192 tokens), try increasing it",
                    "exceed_context_size_error",
                    n_prompt_tokens=9000,
                    n_ctx=8192,
                ),
            ),
        ),
        ("204", "204 once, without a body", send_status(204)),
        ("302", "302 once, to another path", send_status(302, Location="/elsewhere")),
        ("999", "999 once", send_status(999, _error(999, "unknown", "server_error"))),
    )
)
