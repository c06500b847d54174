"""Documents: contents addressed by their SHA-256, compressed, and stored once while something refers to them."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

from sqlalchemy import delete, exists, select
from sqlalchemy.ext.asyncio import AsyncConnection

from forge_proxy.core.jobs.errors import JobLimitExceeded
from forge_proxy.core.jobs.limits import MAX_DOCUMENT_BYTES
from forge_proxy.core.jobs.records import Document
from forge_proxy.store.inserts import execute_for_rows, insert_missing_into
from forge_proxy.store.tables import DOCUMENTS, JOB_DOCUMENTS

_LEVEL = 1
"""zlib's fastest level: JSON of conversations shrinks to a third, at some 100 MB a second."""
_IN_ONE_QUERY = 500
"""SQLite before 3.32 has at most 999 parameters."""


async def put_documents(
    connection: AsyncConnection, job_id: str, documents: Sequence[Document], *, is_part: bool = False
) -> None:
    """Store documents, and that a job refers to them. Raises `JobLimitExceeded`."""
    await put_all_documents(connection, [(job_id, document) for document in documents], is_part=is_part)


async def put_all_documents(
    connection: AsyncConnection, documents: Sequence[tuple[str, Document]], *, is_part: bool = False
) -> None:
    """Store documents, each with the job that refers to it. Raises `JobLimitExceeded`."""
    rows = [{"digest": one.digest, "size": len(one.content), "data": compress(one)} for _, one in documents]
    references = [{"job_id": job_id, "digest": one.digest, "is_part": is_part} for job_id, one in documents]
    dialect = connection.dialect.name
    await execute_for_rows(connection, insert_missing_into(DOCUMENTS, dialect), rows)
    await execute_for_rows(connection, insert_missing_into(JOB_DOCUMENTS, dialect), references)


async def drop_parts(connection: AsyncConnection, job_id: str, digests: Sequence[str]) -> None:
    """Store that a job's state no longer has these parts, and delete those to which nothing refers."""
    if digests:
        where = (JOB_DOCUMENTS.c.job_id == job_id, JOB_DOCUMENTS.c.digest.in_(digests), JOB_DOCUMENTS.c.is_part)
        await connection.execute(delete(JOB_DOCUMENTS).where(*where))
        await delete_unreferenced(connection, digests)


async def delete_unreferenced(connection: AsyncConnection, digests: Sequence[str]) -> None:
    """Delete those of the documents to which nothing refers."""
    for start in range(0, len(digests), _IN_ONE_QUERY):
        some = digests[start : start + _IN_ONE_QUERY]
        is_referenced = exists().where(JOB_DOCUMENTS.c.digest == DOCUMENTS.c.digest)
        await connection.execute(delete(DOCUMENTS).where(DOCUMENTS.c.digest.in_(some), ~is_referenced))


async def read_documents(connection: AsyncConnection, digests: Sequence[str]) -> Mapping[str, bytes]:
    """Return the contents of those documents that exist."""
    found: dict[str, bytes] = {}
    for start in range(0, len(digests), _IN_ONE_QUERY):
        some = digests[start : start + _IN_ONE_QUERY]
        rows = await connection.execute(
            select(DOCUMENTS.c.digest, DOCUMENTS.c.data).where(DOCUMENTS.c.digest.in_(some))
        )
        found.update({row.digest: zlib.decompress(row.data) for row in rows})
    return found


def check_size(document: Document) -> None:
    """Raise `JobLimitExceeded` for a document that is too large."""
    if len(document.content) > MAX_DOCUMENT_BYTES:
        raise JobLimitExceeded(f"a document of {len(document.content)} bytes; {MAX_DOCUMENT_BYTES} are possible")


def compress(document: Document) -> bytes:
    """Return what is stored of a document. Raises `JobLimitExceeded`."""
    check_size(document)
    return zlib.compress(document.content, _LEVEL)
