"""The OpenAPI description of the Files API."""

from __future__ import annotations

from typing import Any

from forge_proxy.api.openapi import (
    INVALID_REQUEST,
    array,
    error_responses,
    integer,
    json_response,
    object_schema,
    string,
)

_PURPOSE = string("What it is for.", "batch", "batch_output", "user_data")
FILE_SCHEMAS: dict[str, Any] = {
    "File": object_schema(
        "A stored file.", ["id", "object", "bytes", "created_at", "filename", "purpose"],
        id=string(""), object=string("", "file"), bytes=integer("Its size."), created_at=integer(""),
        expires_at=integer("When it is deleted."), filename=string(""), purpose=_PURPOSE,
        status=string("", "processed"),
    ),
    "FileList": object_schema(
        "A page of files.", ["object", "data", "has_more"], object=string("", "list"),
        data=array("", {"$ref": "#/components/schemas/File"}), has_more={"type": "boolean"},
        first_id={"type": ["string", "null"]}, last_id={"type": ["string", "null"]},
    ),
    "FileUpload": object_schema(
        "A form. Its fields may have any order.", ["file", "purpose"],
        file={"type": "string", "format": "binary", "description": "At most files.max_mb."},
        purpose=string("What it is for.", "batch", "user_data"),
        **{
            "expires_after[anchor]": string("", "created_at"),
            "expires_after[seconds]": {
                "type": "integer", "minimum": 3600, "maximum": 2_592_000,
                "description": "When it is deleted; else after files.retention_days.",
            },
        },
    ),
    "FileDeleted": object_schema(
        "The deleted file.", ["id", "object", "deleted"],
        id=string(""), object=string("", "file"), deleted={"type": "boolean"},
    ),
}  # fmt: skip
LIST_PARAMETERS: list[dict[str, Any]] = [
    {"name": "after", "in": "query", "required": False, "description": "The id of the last entry of the page before.",
     "schema": {"type": "string", "minLength": 1}},
    {"name": "limit", "in": "query", "required": False, "description": "The number of entries.",
     "schema": {"type": "integer", "minimum": 1, "maximum": 100}},
]  # fmt: skip
_FILE_PARAMETERS: list[dict[str, Any]] = [
    LIST_PARAMETERS[0],
    {**LIST_PARAMETERS[1], "schema": {"type": "integer", "minimum": 1, "maximum": 10_000}},
    {"name": "purpose", "in": "query", "required": False, "description": "Only files with this purpose.",
     "schema": {"type": "string", "enum": ["batch", "batch_output", "user_data"]}},
    {"name": "order", "in": "query", "required": False, "description": "The order of the times of creation.",
     "schema": {"type": "string", "enum": ["asc", "desc"]}},
]  # fmt: skip
STORED_ERRORS = error_responses(401, 403, **{
    "400": INVALID_REQUEST, "503": "The store cannot be used: `store_unavailable`.",
})  # fmt: skip
_NOT_FOUND = error_responses(**{"404": "No such file is stored for this key: `file_not_found`."})
_IN_USE = error_responses(**{"409": "A batch reads the file: `file_in_use`."})
ID_PARAMETER: dict[str, Any] = {
    "name": "id", "in": "path", "required": True, "description": "The id.",
    "schema": {"type": "string", "minLength": 1},
}  # fmt: skip


def describe(
    name: str, summary: str, result: str, *parameters: dict[str, Any], tag: str, errors: dict[str, Any]
) -> dict[str, Any]:
    """Return an operation whose response is a JSON object."""
    return {
        "operationId": name,
        "summary": summary,
        "tags": [tag],
        "parameters": [*parameters],
        "responses": {"200": json_response(result, "Done."), **STORED_ERRORS, **errors},
    }


FILE_PATHS: dict[str, Any] = {
    "/v1/files": {
        "post": {
            **describe("create_file", "Upload a file", "File", tag="files", errors=error_responses(408, 413, 415)),
            "requestBody": {
                "required": True,
                "content": {"multipart/form-data": {"schema": {"$ref": "#/components/schemas/FileUpload"}}},
            },
        },
        "get": describe("list_files", "List the files", "FileList", *_FILE_PARAMETERS, tag="files", errors=_NOT_FOUND),
    },
    "/v1/files/{id}": {
        "get": describe("get_file", "Show a file", "File", ID_PARAMETER, tag="files", errors=_NOT_FOUND),
        "delete": describe(
            "delete_file", "Delete a file", "FileDeleted", ID_PARAMETER, tag="files", errors={**_NOT_FOUND, **_IN_USE}
        ),
    },
    "/v1/files/{id}/content": {
        "get": {
            "operationId": "get_file_content",
            "summary": "Download a file, or a range of its bytes",
            "tags": ["files"],
            "parameters": [ID_PARAMETER],
            "responses": {
                "200": {"description": "The content.", "content": {"application/octet-stream": {"schema": {}}}},
                "206": {"description": "The requested range of it."},
                **STORED_ERRORS,
                **_NOT_FOUND,
                **error_responses(**{"416": "The file is shorter: `range_not_satisfiable`."}),
            },
        },
    },
}
