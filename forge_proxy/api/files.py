"""OpenAI's Files API: `/v1/files`. Contents are streamed between the client and the store."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from urllib.parse import quote

from fastapi import FastAPI
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from forge_proxy.api.byte_ranges import read_range
from forge_proxy.api.endpoint import CLIENT_CLOSED_REQUEST
from forge_proxy.api.error_responses import error_response
from forge_proxy.api.identity import owner_of, request_id_of
from forge_proxy.api.paging import read_page
from forge_proxy.batches.files import Files, FileUpload
from forge_proxy.batches.service import Batches
from forge_proxy.core.errors import ForgeError, InvalidRequest
from forge_proxy.core.files import StoredFile
from forge_proxy.wire.clients.files import (
    encode_file,
    encode_page,
    read_form_expiry,
    read_purpose_filter,
    read_upload_purpose,
)
from forge_proxy.wire.multipart_stream import MultipartParser, PartStart, read_boundary

FILES_ROUTE = "/v1/files"
_MAX_PAGE = 10_000
_MAX_FIELD = 1000
_MAX_NAME = 255
_MAX_FORM = 64 * 1024
"""Bytes of a form besides its file; a longer one is not rejected before its file is."""


class FileEndpoints:
    """The endpoints for files. Each client sees its own."""

    def __init__(self, files: Files, batches: Batches | None = None) -> None:
        self._files = files
        self._batches = batches

    def add_routes(self, app: FastAPI) -> None:
        """Add the routes."""
        routes: list[tuple[str, str, Callable[[Request], Awaitable[Response]]]] = [
            ("", "POST", self._create),
            ("", "GET", self._list),
            ("/{id}", "GET", self._get),
            ("/{id}", "DELETE", self._delete),
            ("/{id}/content", "GET", self._content),
        ]
        for path, method, answer in routes:
            app.add_route(f"{FILES_ROUTE}{path}", partial(respond, answer), methods=[method])

    async def _create(self, request: Request) -> Response:
        parser = MultipartParser(read_boundary(request.headers.get("content-type", "")))
        self._files.check_size(int(request.headers.get("content-length", "0")) - _MAX_FORM)
        form = _UploadForm(self._files, owner_of(request))
        try:
            async with aclosing(request.stream()) as stream:
                async for data in stream:
                    for event in parser.feed(data):
                        await form.take(event)
            parser.close()
            return JSONResponse(encode_file(await form.finish()))
        except BaseException:
            await form.discard()
            raise

    async def _list(self, request: Request) -> Response:
        limit, order = read_page(request, most=_MAX_PAGE, default=_MAX_PAGE)
        query = request.query_params
        purpose = read_purpose_filter(query.get("purpose"))
        page = await self._files.list(
            owner_of(request), purpose, after=query.get("after"), limit=limit, newest_first=order == "desc"
        )
        return JSONResponse(encode_page([encode_file(file) for file in page.files], has_more=page.has_more))

    async def _get(self, request: Request) -> Response:
        return JSONResponse(encode_file(await self._find(request)))

    async def _delete(self, request: Request) -> Response:
        name = (await self._find(request)).id
        if self._batches is not None:
            await self._batches.check_unused(name)
        await self._files.delete(name, owner_of(request))
        return JSONResponse({"id": name, "object": "file", "deleted": True})

    async def _content(self, request: Request) -> Response:
        file = await self._find(request)
        etag = f'"{file.id}"'
        is_current = request.headers.get("if-range", etag) == etag
        wanted = read_range(request.headers.get("range"), file.size) if is_current else None
        start, end = wanted or (0, file.size)
        headers = {
            "accept-ranges": "bytes",
            "content-length": str(end - start),
            "content-disposition": f"attachment; filename*=UTF-8''{quote(file.filename, safe='')}",
            "etag": etag,
        }
        if wanted is not None:
            headers["content-range"] = f"bytes {start}-{end - 1}/{file.size}"
        pieces = await _open_content(self._files.read(file, start, end))
        status = 200 if wanted is None else 206
        return StreamingResponse(pieces, status, headers, media_type="application/octet-stream")

    async def _find(self, request: Request) -> StoredFile:
        return await self._files.get(request.path_params["id"], owner_of(request))


class _UploadForm:
    """The form of an upload, in any order of its fields."""

    def __init__(self, files: Files, owner: str) -> None:
        self._files = files
        self._owner = owner
        self._fields: dict[str, bytearray] = {}
        self._upload: FileUpload | None = None
        self._filename = ""
        self._current: str | None = None
        """The field that is being read; None for the file."""

    async def take(self, event: PartStart | bytes) -> None:
        """Take the start of a part, or content of the last one. Raises `InvalidRequest` and `FileTooLarge`."""
        if isinstance(event, PartStart):
            await self._start(event)
        elif self._current is not None:
            field = self._fields[self._current]
            field += event
            if len(field) > _MAX_FIELD:
                raise InvalidRequest(self._current, f"longer than {_MAX_FIELD} bytes")
        elif self._upload is not None:
            await self._upload.write(event)

    async def _start(self, start: PartStart) -> None:
        if start.name == "file":
            if self._upload is not None:
                raise InvalidRequest("file", "expected one file")
            if not start.filename or len(start.filename) > _MAX_NAME or not start.filename.isprintable():
                raise InvalidRequest("file", f"expected a file with a printable name of at most {_MAX_NAME} characters")
            self._upload = await self._files.create(self._owner)
            self._filename, self._current = start.filename, None
            return
        if start.name in self._fields:
            raise InvalidRequest(start.name[:_MAX_NAME], "expected once")
        self._fields[start.name] = bytearray()
        self._current = start.name

    async def finish(self) -> StoredFile:
        """Complete the file. Raises `InvalidRequest` for missing or invalid fields."""
        fields = {name: value.decode("utf-8", "replace") for name, value in self._fields.items()}
        purpose, expiry = read_upload_purpose(fields.get("purpose")), read_form_expiry(fields)
        if self._upload is None:
            raise InvalidRequest("file", "missing")
        return await self._upload.finish(self._filename, purpose, expiry)

    async def discard(self) -> None:
        """Delete what was stored of the file."""
        if self._upload is not None:
            await self._upload.discard()


async def respond(answer: Callable[[Request], Awaitable[Response]], request: Request) -> Response:
    """Return the response of an endpoint, or that to its error."""
    headers = {"x-request-id": request_id_of(request)}
    try:
        response = await answer(request)
    except ForgeError as error:
        return error_response(error, request.scope, headers)
    except ClientDisconnect:
        return Response(status_code=CLIENT_CLOSED_REQUEST)
    response.headers.update(headers)
    return response


async def _open_content(pieces: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Read the first piece, so that an error of the store becomes a response."""
    first = await anext(pieces, None)

    async def content() -> AsyncGenerator[bytes]:
        async with aclosing(pieces):
            if first is not None:
                yield first
            async for piece in pieces:
                yield piece

    return content()
