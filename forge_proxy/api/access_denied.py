"""Errors for requests rejected by authentication and request limits. The messages contain no key and are logged."""

from __future__ import annotations

from forge_proxy.core.errors import ForgeError


class AccessDenied(ForgeError):
    """Base class of these errors."""

    @property
    def summary(self) -> str:
        return str(self)


class WrongKey(AccessDenied):
    """The client did not send a key of the setting `wanted`."""

    def __init__(self, *, sent: bool, wanted: str = "server.api_keys") -> None:
        super().__init__(
            f"the API key is not one of this daemon's ({wanted}); the key of the model server is the setting "
            "backend.api_key and is not sent by clients"
            if sent
            else f"an API key is needed: send one of {wanted} as 'Authorization: Bearer KEY' or 'x-api-key: KEY'"
        )


class AdminDisabled(AccessDenied):
    """The admin API has no key, and other machines can reach the daemon."""

    def __init__(self) -> None:
        super().__init__(
            "the admin API is disabled: other machines can reach the daemon and it has no admin keys; set "
            "server.admin_keys or server.admin_keys_file"
        )


class ForeignHost(AccessDenied):
    """The `Host` header is not a name of the daemon, as in a DNS rebinding attack by a web page."""

    def __init__(self, host: str) -> None:
        super().__init__(f"Host {host!r} is not a name of this daemon; to allow it, add it to server.allowed_hosts")


class ForeignOrigin(AccessDenied):
    """A web page of another origin made the request."""

    def __init__(self, origin: str) -> None:
        super().__init__(
            f"web pages of the origin {origin!r} may not use this daemon; to allow them, add it to "
            "server.allowed_origins"
        )


class BodyTooLarge(AccessDenied):
    """The request's body is larger than `limit` bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the request's body is larger than the {limit} bytes of server.max_body_mb")


class HeadTooLarge(AccessDenied):
    """The request's line and headers are larger than `limit` bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the request's headers are larger than the {limit} bytes of server.max_header_kb")


class NotHttp(AccessDenied):
    """The data received is not HTTP/1, or malformed."""

    def __init__(self) -> None:
        super().__init__("this is not a valid request of HTTP/1.1; the daemon speaks http, not https")


class TooManyHeaders(AccessDenied):
    """The request has more than `limit` headers."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the request has more than {limit} headers")


class HeadTimeout(AccessDenied):
    """The request's line and headers were not complete after `seconds`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the request's headers were not complete after {seconds:g} s (server.header_timeout_seconds)")


class BodyTimeout(AccessDenied):
    """Nothing of the request's body arrived for `seconds`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no data of the request's body arrived for {seconds:g} s (server.body_timeout_seconds)")


class TooManyConnections(AccessDenied):
    """All connections that the open-file limit allows are busy."""

    seconds = 1
    """Seconds after which a client may retry: idle connections are being closed."""

    def __init__(self) -> None:
        super().__init__("too many connections; retry later")


class AmbiguousHeaders(AccessDenied):
    """A single-valued header was sent twice, or `Host` is missing."""


class CompressedBody(AccessDenied):
    """The request's body is compressed."""

    def __init__(self, encoding: str) -> None:
        super().__init__(f"the request body is encoded as {encoding[:40]!r}; send it without compression")


class TooManyValues(AccessDenied):
    """The request's body has more than `limit` JSON values."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the request's body has more than the {limit} JSON values that a request may have")


class NotJson(AccessDenied):
    """The request body is a form, not JSON."""

    def __init__(self) -> None:
        super().__init__("the request's body is a form; send JSON, with Content-Type: application/json")
