"""`/openapi.json` and `/docs`: the description of the API, for programs and for people.

The page contains no script and loads nothing: it has the daemon's own origin, so a script in it could use the admin
API (docs/decisions/0018).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from forge_proxy._version import __version__
from forge_proxy.api.batches_openapi import BATCH_PATHS, BATCH_SCHEMAS
from forge_proxy.api.files_openapi import FILE_PATHS, FILE_SCHEMAS
from forge_proxy.api.openapi import PATHS, SCHEMAS, TOO_LARGE
from forge_proxy.api.relay import RELAY_PATHS
from forge_proxy.api.surface import Surface

_STYLE = (
    ":root{color-scheme:light dark}"
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "h2{border-bottom:1px solid #8886}code{background:#8882;padding:0 .2em;overflow-wrap:anywhere}"
    "td{padding:.1rem 1rem .1rem 0;vertical-align:top}td:first-child{min-width:8rem;max-width:24rem}"
    "pre{background:#8882;padding:.5rem;overflow:auto}"
)
# The empty icon keeps browsers from requesting /favicon.ico, which would be a 404 in the log.
HEAD = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>forge-proxy</title>'
    '<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">'
    f"<style>{_STYLE}</style>"
)
_ADDRESS = "http://127.0.0.1:8081"
"""In the examples; the page replaces it with the address that it was requested from."""
_EXAMPLES = {
    "A chat completion": """curl http://127.0.0.1:8081/v1/chat/completions -H 'Content-Type: application/json' -d '{
  "messages": [{"role": "user", "content": "What is the weather in Paris?"}]
}'""",
    "With a tool, streamed": """curl -N http://127.0.0.1:8081/v1/chat/completions -H 'Content-Type: application/json' \\
  -d '{
  "messages": [{"role": "user", "content": "What is the weather in Paris?"}],
  "tools": [{"type": "function", "function": {"name": "get_weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}],
  "stream": true
}'""",
    "A response": """curl http://127.0.0.1:8081/v1/responses -H 'Content-Type: application/json' -d '{
  "input": "What is the weather in Paris?"
}'""",
    "A message of Anthropic's API": """curl http://127.0.0.1:8081/v1/messages -H 'Content-Type: application/json' -d '{
  "model": "any", "max_tokens": 1000,
  "messages": [{"role": "user", "content": "What is the weather in Paris?"}]
}'""",
    "The models and their context windows": "curl http://127.0.0.1:8081/v1/models",
    "The state of the daemon": "curl http://127.0.0.1:8081/admin/v1/status",
    "With an API key": "curl http://127.0.0.1:8081/v1/models -H 'Authorization: Bearer KEY'",
}
CONTENT_SECURITY = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:"}
_CODE = re.compile(r"`([^`]+)`")
_FRAMEWORK_SCHEMAS = ("HTTPValidationError", "ValidationError")
_SECURITY_SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
}


class ApiDescription:
    """The two endpoints. The description is built on the first request."""

    def __init__(self, app: FastAPI, surfaces: Sequence[Surface]) -> None:
        self._app = app
        self._surfaces = surfaces
        self._document: dict[str, Any] | None = None

    async def as_json(self, _: Request) -> Response:
        """Return the OpenAPI 3.1 document."""
        return JSONResponse(self._describe())

    async def as_page(self, request: Request) -> Response:
        """Return the document as a page. Its examples use the address that the page was requested from."""
        address = f"{request.url.scheme}://{request.url.netloc}"
        return HTMLResponse(render_page(self._describe(), address), headers=CONTENT_SECURITY)

    def _describe(self) -> dict[str, Any]:
        """Return the whole description: generated from types for the admin API, hand-written for the other routes."""
        if self._document is None:
            document = get_openapi(title="forge-proxy", version=__version__, routes=self._app.routes)
            for path in document.setdefault("paths", {}).values():
                for operation in path.values():
                    operation["responses"].pop("422", None)  # an invalid field is a 400 here
                    if "requestBody" in operation:
                        operation["responses"] |= TOO_LARGE
            schemas, paths = document.setdefault("components", {}).setdefault("schemas", {}), document["paths"]
            for written_schemas, written_paths in (
                (SCHEMAS, {**RELAY_PATHS, **PATHS}),
                (FILE_SCHEMAS | BATCH_SCHEMAS, FILE_PATHS | BATCH_PATHS),
                *((surface.openapi_schemas, surface.openapi_paths) for surface in reversed(self._surfaces)),
            ):
                schemas, paths = {**written_schemas, **schemas}, {**written_paths, **paths}
            document["paths"] = paths
            document["components"] = {
                "schemas": {name: schema for name, schema in schemas.items() if name not in _FRAMEWORK_SCHEMAS},
                "securitySchemes": _SECURITY_SCHEMES,
            }
            document["security"] = [{}, {"bearer": []}, {"key": []}]
            self._document = document
        return self._document


def render_page(document: dict[str, Any], address: str = _ADDRESS) -> str:
    """Render an OpenAPI document as HTML, with examples for the daemon at `address`."""
    parts = [f"<h1>forge-proxy {escape(document['info']['version'])}</h1>"]
    parts.append('<p>For tools: <a href="/openapi.json">openapi.json</a>.</p>')
    parts.append(_contents(document))
    parts.append('<h1 id="examples">Examples</h1>')
    parts += [
        f"<h2>{escape(title)}</h2><pre>{escape(example.replace(_ADDRESS, address))}</pre>"
        for title, example in _EXAMPLES.items()
    ]
    parts.append('<h1 id="routes">Routes</h1>')
    for path, operations in document["paths"].items():
        parts += [_route(method, path, operation) for method, operation in operations.items()]
    parts.append('<h1 id="objects">Objects</h1>')
    for name, schema in document["components"]["schemas"].items():
        parts.append(f'<h2 id="{escape(name)}">{escape(name)}</h2><p>{_text(schema.get("description", ""))}</p>')
        required = schema.get("required", ())
        parts.append(_table([(_field(key, field, key in required), field.get("description", ""))
                             for key, field in schema.get("properties", {}).items()]))  # fmt: skip
    return HEAD + "".join(parts)


def _route(method: str, path: str, operation: dict[str, Any]) -> str:
    title = f'<h2 id="{escape(operation["operationId"])}"><code>{method.upper()} {escape(path)}</code></h2>'
    texts = [f"<p>{_text(operation[key])}</p>" for key in ("summary", "description") if operation.get(key)]
    rows = [(f"{one['in']}: {one['name']}", one.get("description", "")) for one in operation.get("parameters", ())]
    if "requestBody" in operation:
        rows.append(("body", _schema_of(operation["requestBody"])))
    rows += [
        (status, f"{response.get('description', '')} {_schema_of(response)}".strip())
        for status, response in operation["responses"].items()
    ]
    return "".join([title, *texts, _table(rows)])


def _contents(document: dict[str, Any]) -> str:
    """Render links to the sections, routes and objects of the page."""
    routes = "".join(
        f'<li><a href="#{escape(operation["operationId"])}">{method.upper()} {escape(path)}</a>'
        f" {escape(operation.get('summary', ''))}"
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    )
    objects = ", ".join(f'<a href="#{escape(name)}">{escape(name)}</a>' for name in document["components"]["schemas"])
    return (
        '<h1>Contents</h1><ul><li><a href="#examples">Examples</a>'
        f'<li><a href="#routes">Routes</a><ul>{routes}</ul><li><a href="#objects">Objects</a>: {objects}</ul>'
    )


def _text(description: str) -> str:
    """Render a description as HTML, with text in backticks as code."""
    return _CODE.sub(r"<code>\1</code>", escape(description))


def _field(name: str, field: dict[str, Any], required: bool) -> str:
    kinds: Any = (
        field.get("enum") or field.get("type") or [one.get("type", _name(one)) for one in field.get("anyOf", ())]
    )
    words = kinds if isinstance(kinds, str) else ", ".join(map(str, kinds)) or _name(field)
    return f"{name}{'' if required else '?'}: {words}"


def _name(schema: dict[str, Any]) -> str:
    return str(schema.get("$ref", "any")).rpartition("/")[2]


def _schema_of(body: dict[str, Any]) -> str:
    kinds = [_name(content["schema"]) for content in body.get("content", {}).values() if "$ref" in content["schema"]]
    return f"({', '.join(kinds)})" if kinds else ""


def _table(rows: list[tuple[str, str]]) -> str:
    cells = "".join(f"<tr><td><code>{escape(one)}</code><td>{_text(other)}" for one, other in rows)
    return f"<table>{cells}</table>" if rows else ""
