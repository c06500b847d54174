"""Table definitions. Values that no query filters by are stored as JSON text."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

METADATA = MetaData()
_NUMBER = BigInteger().with_variant(Integer, "sqlite")
"""SQLite numbers rows by itself only in a column of type INTEGER, which has 64 bits there."""

JOBS = Table(
    "jobs",
    METADATA,
    Column("id", String(128), primary_key=True),
    Column("kind", String(32), nullable=False),
    Column("status", String(32), nullable=False),
    Column("title", Text, nullable=False),
    Column("model", Text),
    Column("created_at", Double, nullable=False),
    Column("updated_at", Double, nullable=False),
    Column("last_event", Integer, nullable=False),
    Column("cancel_requested", Boolean, nullable=False),
    Column("wake_at", Double),
    Column("owner", String(64)),
    Column("parent", String(128), ForeignKey("jobs.id", ondelete="CASCADE")),
    Column("root", String(128), nullable=False),
    Column("depth", Integer, nullable=False),
    Column("wake_requested", Boolean, nullable=False),
    Column("change_id", String(16), nullable=False),
    Column("action", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("outcome", Text),
    Column("notify_url", Text),
    Column("claim_key", Text, unique=True),
    Column("claim_digest", Text),
    Index("jobs_by_status", "status", "id"),
    Index("jobs_by_kind", "kind", "id"),
    Index("jobs_by_parent", "parent", "status"),
    Index("jobs_by_root", "root"),
    Index("jobs_by_wake", "wake_at"),
)

JOB_EVENTS = Table(
    "job_events",
    METADATA,
    Column("job_id", String(128), ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("type", String(32), nullable=False),
    Column("data", Text, nullable=False),
    Column("at", Double, nullable=False),
)

DOCUMENTS = Table(
    "documents",
    METADATA,
    Column("digest", String(64), primary_key=True),
    Column("size", Integer, nullable=False),
    Column("data", LargeBinary, nullable=False),
)

JOB_DOCUMENTS = Table(
    "job_documents",
    METADATA,
    Column("job_id", String(128), ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("digest", String(64), ForeignKey("documents.digest"), primary_key=True),
    Column("is_part", Boolean, primary_key=True),
    Index("job_documents_by_digest", "digest"),
)

JOB_OUTBOX = Table(
    "job_outbox",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("job_id", String(128), ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False),
    Column("signal", String(16), nullable=False),
    Index("job_outbox_by_job", "job_id"),
)

JOB_SCHEDULES = Table(
    "job_schedules",
    METADATA,
    Column("name", String(128), primary_key=True),
    Column("kind", String(32), nullable=False),
    Column("interval", Double, nullable=False),
    Column("next_at", Double, nullable=False),
    Column("job_id", String(128)),
)

JOB_NOTIFICATIONS = Table(
    "job_notifications",
    METADATA,
    Column("job_id", String(128), ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("event", Integer, primary_key=True, autoincrement=False),
)

TASK_CALLS = Table(
    "task_calls",
    METADATA,
    Column("task_id", String(128), ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("round", Integer, primary_key=True, autoincrement=False),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("at", Double, nullable=False),
    Column("tier", String(32), nullable=False),
    Column("model", Text, nullable=False),
    Column("outcome", String(32), nullable=False),
    Column("details", Text, nullable=False),
    Index("task_calls_by_time", "at"),
)

RESPONSES = Table(
    "responses",
    METADATA,
    Column("id", String(64), primary_key=True),
    Column("owner", String(64), nullable=False),
    Column("created_at", Double, nullable=False),
    Column("expires_at", Double, nullable=False),
    Column("previous_id", String(64)),
    Column("conversation_id", String(64)),
    Column("size", Integer, nullable=False),
    Column("document", Text, nullable=False),
    Index("responses_by_expiry", "expires_at"),
    Index("responses_by_conversation", "owner", "conversation_id", "created_at"),
)

ITEMS = Table(
    "response_items",
    METADATA,
    Column("response_id", String(64), ForeignKey("responses.id", ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("id", String(128), nullable=False),
    Column("kind", String(8), nullable=False),
    Column("data", Text, nullable=False),
    Index("response_items_by_id", "id"),
)

CONVERSATIONS = Table(
    "conversations",
    METADATA,
    Column("owner", String(64), primary_key=True),
    Column("id", String(64), primary_key=True),
    Column("created_at", Double, nullable=False),
    Column("expires_at", Double, nullable=False),
    Column("metadata", Text, nullable=False),
    Index("conversations_by_expiry", "expires_at"),
)

FILES = Table(
    "files",
    METADATA,
    Column("id", String(64), primary_key=True),
    Column("owner", String(64), nullable=False),
    Column("filename", Text, nullable=False),
    Column("purpose", String(32), nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("expires_at", Double, nullable=False),
    Column("is_complete", Boolean, nullable=False),
    Index("files_by_owner", "owner", "created_at", "id"),
    Index("files_by_expiry", "expires_at"),
)

FILE_BLOCKS = Table(
    "file_blocks",
    METADATA,
    Column("file_id", String(64), ForeignKey("files.id", ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("data", LargeBinary, nullable=False),
)

REQUESTS = Table(
    "requests",
    METADATA,
    Column("number", _NUMBER, primary_key=True),
    Column("request_id", String(128), nullable=False),
    Column("ended_at", Double, nullable=False),
    Column("surface", String(64), nullable=False),
    Column("client", String(64), nullable=False),
    Column("program", String(96), nullable=False),
    Column("model", Text),
    Column("served", Text),
    Column("quantization", String(32), nullable=False),
    Column("is_streamed", Boolean, nullable=False),
    Column("tools", Integer, nullable=False),
    Column("result", String(16), nullable=False),
    Column("seconds", Double, nullable=False),
    Column("queued", Double, nullable=False),
    Column("first_output", Double),
    Column("backend_seconds", Double, nullable=False),
    Column("details", Text, nullable=False),
    Index("requests_by_request_id", "request_id"),
    Index("requests_by_end", "ended_at"),
    Index("requests_by_result", "result", "number"),
    Index("requests_by_model", "served", "number"),
    Index("requests_by_surface", "surface", "number"),
    Index("requests_by_client", "client", "number"),
)

REQUEST_FAULTS = Table(
    "request_faults",
    METADATA,
    Column("fault", String(32), primary_key=True),
    Column("number", _NUMBER, ForeignKey("requests.number", ondelete="CASCADE"), primary_key=True),
    Index("request_faults_by_request", "number"),
)

REQUEST_CONTENTS = Table(
    "request_contents",
    METADATA,
    Column("number", _NUMBER, ForeignKey("requests.number", ondelete="CASCADE"), primary_key=True),
    Column("ended_at", Double, nullable=False),
    Column("size", Integer, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Index("request_contents_by_size", "size"),
)
"""The texts of requests. The index lets SQLite add up the sizes without reading the texts."""

LEDGER = Table(
    "ledger",
    METADATA,
    Column("hour", Integer, primary_key=True, autoincrement=False),
    Column("model", String(256), primary_key=True),
    Column("quantization", String(32), primary_key=True),
    Column("tool", String(96), primary_key=True),
    Column("fault", String(32), primary_key=True),
    Column("calls", Integer, nullable=False),
    Column("clean", Integer, nullable=False),
    Column("repaired", Integer, nullable=False),
    Column("retried", Integer, nullable=False),
    Column("failed", Integer, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("seconds", Double, nullable=False),
)

REQUEST_HOURS = Table(
    "request_hours",
    METADATA,
    Column("hour", Integer, primary_key=True, autoincrement=False),
    Column("model", String(256), primary_key=True),
    Column("quantization", String(32), primary_key=True),
    Column("requests", Integer, nullable=False),
    Column("clean", Integer, nullable=False),
    Column("repaired", Integer, nullable=False),
    Column("retried", Integer, nullable=False),
    Column("exhausted", Integer, nullable=False),
    Column("errors", Integer, nullable=False),
    Column("abandoned", Integer, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("retry_tokens", BigInteger, nullable=False),
    Column("retry_seconds", Double, nullable=False),
)

DURATIONS = Table(
    "request_durations",
    METADATA,
    Column("hour", Integer, primary_key=True, autoincrement=False),
    Column("model", String(256), primary_key=True),
    Column("measure", String(16), primary_key=True),
    Column("bucket", Integer, primary_key=True, autoincrement=False),
    Column("count", Integer, nullable=False),
)
