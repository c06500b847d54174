"""The `store` section of the configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import unquote, urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from forge_proxy.core.sampling import read_switch

SQLITE = "sqlite+aiosqlite"
POSTGRES = "postgresql+asyncpg"


def _check_url(url: str | None) -> str | None:
    if url is None:
        return None
    scheme = url.partition("://")[0]
    if scheme not in (SQLITE, POSTGRES):
        raise ValueError(f"expected {SQLITE}:////folder/runs.db or {POSTGRES}://user:password@host/database")
    if scheme == SQLITE and find_sqlite_file(url) is None:
        raise ValueError(f"expected a file that persists across restarts: {SQLITE}:////folder/runs.db")
    if scheme == POSTGRES and not urlsplit(url).path.strip("/"):
        raise ValueError(f"the database name is missing: {POSTGRES}://user:password@host/database")
    return url


class StoreConfig(BaseModel):
    """Where runs, responses and the records of requests are stored."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: Annotated[str | None, AfterValidator(_check_url)] = Field(
        default=None,
        description="Database of the runs and stored responses: sqlite+aiosqlite:////folder/runs.db, or postgresql+asyncpg://user@host/name"
        " (extra `postgres`). Default: runs.db in $XDG_STATE_HOME/forge-proxy or ~/.local/state/forge-proxy.",
    )

    responses: Literal["requested", "always", "never"] = Field(
        default="requested",
        description="Which responses of /v1/responses are stored, with their prompts. requested: those of requests with"
        " `store: true`, `previous_response_id` or `conversation`. always: all but those with `store: false`, as at"
        " OpenAI. never: none.",
    )
    response_days: int = Field(
        default=30,
        ge=1,
        le=3650,
        description="Days after which a stored response is deleted, counted from the last response that continues it.",
    )

    requests: bool = Field(
        default=True,
        description="Store a record of each request: times, token counts, faults of its attempts, and how it ended."
        " It contains no prompt and no response.",
    )
    content: Annotated[
        Literal["off", "on"], BeforeValidator(read_switch, json_schema_input_type=Literal["off", "on", True, False])
    ] = Field(
        default="off",
        description="`on`: the text of each request is stored next to its record: what was sent to the model, what"
        " the model wrote at each attempt, and what the client received. Only the admin API shows it. Requires"
        " `requests`.",
    )
    content_days: int = Field(default=7, ge=1, le=3650, description="Days after which the text is deleted.")
    max_content_mb: int = Field(
        default=500,
        ge=1,
        le=1_000_000,
        description="Megabytes of text that are kept, compressed; the oldest is deleted.",
    )
    request_days: int = Field(default=30, ge=1, le=3650, description="Days after which a record is deleted.")
    max_requests: int = Field(
        default=1_000_000, ge=1000, le=100_000_000, description="Records that are kept; the oldest are deleted."
    )
    ledger_days: int = Field(
        default=365, ge=1, le=3650, description="Days after which the counts of the reliability ledger are deleted."
    )

    @model_validator(mode="after")
    def _check_content(self) -> Self:
        if self.content == "on" and not self.requests:
            raise ValueError("content: on needs requests: true: the text is stored next to the record of its request")
        return self

    def url_in(self, folder: Path) -> str:
        """Return the URL; if none is set, the URL of runs.db in the folder."""
        return self.url or f"{SQLITE}:///{folder / 'runs.db'}"


def find_sqlite_file(url: str) -> Path | None:
    """Return the file of an SQLite URL, or None if it is another kind of URL or names no file."""
    scheme, _, rest = url.partition("://")
    path = unquote(rest.partition("?")[0].partition("/")[2])
    return Path(path) if scheme == SQLITE and path and path != ":memory:" else None
