"""Runs become jobs: a submission and a state become one text, which is packed at the next write."""

from __future__ import annotations

import json
import zlib
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_OLD_STATE = '{"version":1,"state":'
_NEW_STATE = '{"version":2,"submission":'
_PHASE: dict[str, Any] = {
    "phase": "run",
    "queue": "runs",
    "timeout": None,
    "heartbeat_timeout": 5.0,
    "max_attempts": 1,
    "attempt": 1,
    "type": "run_phase",
}
_WAIT = json.dumps({"until": None, "then": _PHASE, "status": "requires_action", "type": "wait"})
_FINISHED = ("completed", "failed", "cancelled")
_SAME = (
    "id", "status", "model", "created_at", "updated_at", "last_event", "cancel_requested", "outcome", "claim_digest",
)  # fmt: skip


_METADATA = sa.MetaData()
_RUNS = sa.Table(
    "runs",
    _METADATA,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("status", sa.String(32), nullable=False),
    sa.Column("workflow", sa.Text, nullable=False),
    sa.Column("model", sa.Text),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("updated_at", sa.Double, nullable=False),
    sa.Column("last_event", sa.Integer, nullable=False),
    sa.Column("cancel_requested", sa.Boolean, nullable=False),
    sa.Column("submission", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("outcome", sa.Text),
    sa.Column("claim_key", sa.Text, unique=True),
    sa.Column("claim_digest", sa.Text),
    sa.Index("runs_by_status", "status", "id"),
)
_RUN_EVENTS = sa.Table(
    "run_events",
    _METADATA,
    sa.Column("run_id", sa.String(64), sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("type", sa.String(32), nullable=False),
    sa.Column("data", sa.Text, nullable=False),
    sa.Column("at", sa.Double, nullable=False),
)
_JOBS = sa.Table(
    "jobs",
    _METADATA,
    sa.Column("id", sa.String(128), primary_key=True),
    sa.Column("kind", sa.String(32), nullable=False),
    sa.Column("status", sa.String(32), nullable=False),
    sa.Column("title", sa.Text, nullable=False),
    sa.Column("model", sa.Text),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("updated_at", sa.Double, nullable=False),
    sa.Column("last_event", sa.Integer, nullable=False),
    sa.Column("cancel_requested", sa.Boolean, nullable=False),
    sa.Column("wake_at", sa.Double),
    sa.Column("owner", sa.String(64)),
    sa.Column("parent", sa.String(128), sa.ForeignKey("jobs.id", ondelete="CASCADE")),
    sa.Column("root", sa.String(128), nullable=False),
    sa.Column("depth", sa.Integer, nullable=False),
    sa.Column("action", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("outcome", sa.Text),
    sa.Column("notify_url", sa.Text),
    sa.Column("claim_key", sa.Text, unique=True),
    sa.Column("claim_digest", sa.Text),
    sa.Index("jobs_by_status", "status", "id"),
    sa.Index("jobs_by_kind", "kind", "id"),
    sa.Index("jobs_by_parent", "parent", "status"),
    sa.Index("jobs_by_root", "root"),
    sa.Index("jobs_by_wake", "wake_at"),
)
_JOB_EVENTS = sa.Table(
    "job_events",
    _METADATA,
    sa.Column("job_id", sa.String(128), sa.ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("type", sa.String(32), nullable=False),
    sa.Column("data", sa.Text, nullable=False),
    sa.Column("at", sa.Double, nullable=False),
)
_DOCUMENTS = sa.Table(
    "documents",
    _METADATA,
    sa.Column("digest", sa.String(64), primary_key=True),
    sa.Column("size", sa.Integer, nullable=False),
    sa.Column("data", sa.LargeBinary, nullable=False),
)
_JOB_DOCUMENTS = sa.Table(
    "job_documents",
    _METADATA,
    sa.Column("job_id", sa.String(128), sa.ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("digest", sa.String(64), sa.ForeignKey("documents.digest"), primary_key=True),
    sa.Column("is_part", sa.Boolean, primary_key=True),
    sa.Index("job_documents_by_digest", "digest"),
)
_NEW_TABLES = (_JOBS, _JOB_EVENTS, _DOCUMENTS, _JOB_DOCUMENTS)


def upgrade() -> None:
    """Create the tables, and move all runs and their events."""
    for table in _NEW_TABLES:
        table.create(op.get_bind())
    state = _RUNS.c.state
    rest = sa.case(
        (
            state.startswith(_OLD_STATE, autoescape=True),
            sa.literal(',"state":') + sa.func.substr(state, len(_OLD_STATE) + 1),
        ),
        else_=sa.literal(',"unreadable":') + state + sa.literal("}"),  # of another version: kept as it is
    )
    action = sa.case(
        *((_RUNS.c.status == status, json.dumps({"status": status, "type": "finished"})) for status in _FINISHED),
        (_RUNS.c.status == "requires_action", _WAIT),
        else_=json.dumps(_PHASE),
    )
    columns: dict[str, Any] = {
        **{name: _RUNS.c[name] for name in _SAME},
        "kind": sa.literal("run"),
        "title": _RUNS.c.workflow,
        "root": _RUNS.c.id,
        "depth": sa.literal(0),
        "action": action,
        "state": sa.literal(_NEW_STATE) + _RUNS.c.submission + rest,
        "claim_key": sa.literal("run:") + _RUNS.c.claim_key,
    }
    op.execute(sa.insert(_JOBS).from_select([*columns], sa.select(*columns.values())))
    old_events = sa.select(*_RUN_EVENTS.c)
    op.execute(sa.insert(_JOB_EVENTS).from_select(["job_id", "id", "type", "data", "at"], old_events))
    _RUN_EVENTS.drop(op.get_bind())
    _RUNS.drop(op.get_bind())


def downgrade() -> None:
    """Move all runs back. Raises `ValueError` if there are jobs of another kind, which would be lost."""
    bind = op.get_bind()
    others = bind.scalar(sa.select(sa.func.count()).select_from(_JOBS).where(_JOBS.c.kind != "run"))
    if others:
        raise ValueError(f"{others} jobs are not runs and cannot be kept: delete them first")
    _RUNS.create(bind)
    _RUN_EVENTS.create(bind)
    for job_id in [*bind.scalars(sa.select(_JOBS.c.id))]:
        job = bind.execute(sa.select(_JOBS).where(_JOBS.c.id == job_id)).one()
        submission, state = _split(_unpack(bind, job.state))
        moved = {name: getattr(job, name) for name in _SAME}
        key = job.claim_key and job.claim_key.removeprefix("run:")
        op.execute(
            sa.insert(_RUNS).values(**moved, workflow=job.title, submission=submission, state=state, claim_key=key)
        )
    new_events = sa.select(*_JOB_EVENTS.c)
    op.execute(sa.insert(_RUN_EVENTS).from_select(["run_id", "id", "type", "data", "at"], new_events))
    for table in reversed(_NEW_TABLES):
        table.drop(bind)


def _unpack(bind: sa.Connection, state: str) -> str:
    if not state.startswith('{"parts":['):
        return state
    digests = json.loads(state)["parts"]
    rows = bind.execute(sa.select(_DOCUMENTS.c.digest, _DOCUMENTS.c.data).where(_DOCUMENTS.c.digest.in_(digests)))
    parts = {digest: zlib.decompress(data) for digest, data in rows}
    return b"".join(parts[digest] for digest in digests).decode()


def _split(text: str) -> tuple[str, str]:
    """Return the submission and the state as they were stored before."""
    start = len(_NEW_STATE)
    _, end = json.JSONDecoder().raw_decode(text, start)
    submission, rest = text[start:end], text[end:]
    if rest.startswith(unreadable := ',"unreadable":'):
        return submission, rest.removeprefix(unreadable)[:-1]
    return submission, _OLD_STATE + rest.removeprefix(',"state":')
