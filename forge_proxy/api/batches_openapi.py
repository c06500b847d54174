"""The OpenAPI description of the Batch API."""

from __future__ import annotations

from typing import Any

from forge_proxy.api.files_openapi import ID_PARAMETER, LIST_PARAMETERS, STORED_ERRORS, describe
from forge_proxy.api.openapi import array, error_responses, integer, json_response, object_schema, string

_TIME = {"type": ["integer", "null"]}
_FILE = {"type": ["string", "null"]}
_METADATA = {
    "type": ["object", "null"],
    "description": "At most 16 pairs of strings.",
    "additionalProperties": {"type": "string"},
}
BATCH_SCHEMAS: dict[str, Any] = {
    "BatchRequest": object_schema(
        "A new batch.", ["input_file_id", "endpoint", "completion_window"],
        input_file_id=string("A file with purpose `batch`: JSON Lines of custom_id, method, url and body."),
        endpoint=string("The `url` of all lines: a route whose responses are not streamed."),
        completion_window=string("`24h`, or another time from `1h` to `7d`. Lines that are unfinished then expire."),
        metadata=_METADATA,
        output_expires_after=object_schema(
            "When the output files are deleted.", ["anchor", "seconds"],
            anchor=string("", "created_at"),
            seconds={"type": "integer", "minimum": 3600, "maximum": 2_592_000},
        ),
        notify_url={
            "type": ["string", "null"], "maxLength": 2000,
            "description": "A URL that is called when the batch has ended. tools.callbacks.allow must list its origin.",
        },
    ),
    "Batch": object_schema(
        "A batch.", ["id", "object", "endpoint", "input_file_id", "completion_window", "status", "created_at"],
        id=string(""), object=string("", "batch"), endpoint=string(""), input_file_id=string(""),
        model={"type": ["string", "null"], "description": "The model of all lines; null if they name several."},
        completion_window=string(""),
        status=string(
            "", "validating", "failed", "in_progress", "finalizing", "completed", "expired", "cancelling", "cancelled"
        ),
        errors={"type": ["object", "null"], "description": "The first 100 faults of the input file, with `line`."},
        output_file_id={**_FILE, "description": "The file with the responses, once the batch has ended."},
        error_file_id={**_FILE, "description": "The file with the errors."},
        created_at=integer(""), in_progress_at=_TIME, expires_at=_TIME, finalizing_at=_TIME, completed_at=_TIME,
        failed_at=_TIME, expired_at=_TIME, cancelling_at=_TIME, cancelled_at=_TIME,
        request_counts=object_schema("", [], total=integer(""), completed=integer(""), failed=integer("")),
        usage=object_schema("The tokens of all responses.", [], input_tokens=integer(""), output_tokens=integer("")),
        metadata=_METADATA,
        forge=object_schema(
            "Seconds since its first line, averages since then, and an estimate of the remaining seconds.", [],
        ),
    ),
    "BatchList": object_schema(
        "A page of batches.", ["object", "data", "has_more"], object=string("", "list"),
        data=array("", {"$ref": "#/components/schemas/Batch"}), has_more={"type": "boolean"},
        first_id=_FILE, last_id=_FILE,
    ),
}  # fmt: skip
_NOT_FOUND = error_responses(**{"404": "No such batch is stored for this key: `batch_not_found`."})
_CONFLICT = error_responses(**{"409": "The batch has ended: `batch_conflict`."})
BATCH_PATHS: dict[str, Any] = {
    "/v1/batches": {
        "post": {
            **describe("create_batch", "Create a batch", "Batch", tag="batches", errors=error_responses(408, 413, 415)),
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/BatchRequest"}}},
            },
        },
        "get": describe("list_batches", "List the batches", "BatchList", *LIST_PARAMETERS, tag="batches", errors={}),
    },
    "/v1/batches/{id}": {
        "get": describe("get_batch", "Show a batch", "Batch", ID_PARAMETER, tag="batches", errors=_NOT_FOUND),
    },
    "/v1/batches/{id}/cancel": {
        "post": {
            **describe(
                "cancel_batch",
                "Cancel a batch",
                "Batch",
                ID_PARAMETER,
                tag="batches",
                errors={**_NOT_FOUND, **_CONFLICT},
            ),
            "responses": {
                "200": json_response("Batch", "Lines in flight finish; the results of finished lines are delivered."),
                **STORED_ERRORS,
                **_NOT_FOUND,
                **_CONFLICT,
            },
        },
    },
}
