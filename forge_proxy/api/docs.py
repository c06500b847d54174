"""`/openapi.json` and `/docs`: the API described, for tools and for people.

The page holds no script and nothing from elsewhere: it has the daemon's own origin, and a script in it could do what
the admin API can (docs/decisions/0018).
"""

from __future__ import annotations

import re
from html import escape
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from forge_proxy._version import __version__
from forge_proxy.api.openai.openapi import PATHS, SCHEMAS, TOO_LARGE

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
"""In the examples, in place of the address that the page was requested from."""
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
    "The models and their context windows": "curl http://127.0.0.1:8081/v1/models",
    "The state of the daemon": "curl http://127.0.0.1:8081/admin/v1/status",
    "With an API key": "curl http://127.0.0.1:8081/v1/models -H 'Authorization: Bearer KEY'",
}
CONTENT_SECURITY = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:"}
_CODE = re.compile(r"`([^`]+)`")
_FRAMEWORKS = ("HTTPValidationError", "ValidationError")


class ApiDescription:
    """The two endpoints, made once when they are first asked for."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._made: dict[str, Any] | None = None

    async def as_json(self, _: Request) -> Response:
        """OpenAPI 3.1."""
        return JSONResponse(self.described())

    async def as_page(self, request: Request) -> Response:
        """The same to read. Its examples have the address that it was requested from."""
        address = f"{request.url.scheme}://{request.url.netloc}"
        return HTMLResponse(page(self.described(), address), headers=CONTENT_SECURITY)

    def described(self) -> dict[str, Any]:
        """The whole description: the admin API's by its types, that of the other routes as it is written."""
        if self._made is None:
            made = get_openapi(title="forge-proxy", version=__version__, routes=self._app.routes)
            for path in made.setdefault("paths", {}).values():
                for operation in path.values():
                    operation["responses"].pop("422", None)  # a wrong field is a 400 here
                    if "requestBody" in operation:
                        operation["responses"] |= TOO_LARGE
            schemas = made.setdefault("components", {}).setdefault("schemas", {})
            made["components"]["schemas"] = {
                name: schema for name, schema in {**SCHEMAS, **schemas}.items() if name not in _FRAMEWORKS
            }
            made["paths"] = {**PATHS, **made["paths"]}
            made["components"]["securitySchemes"] = {
                "bearer": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            }
            made["security"] = [{}, {"bearer": []}, {"key": []}]
            self._made = made
        return self._made


def page(described: dict[str, Any], address: str = _ADDRESS) -> str:
    """The description as a page, with examples for the daemon at `address`."""
    parts = [f"<h1>forge-proxy {escape(described['info']['version'])}</h1>"]
    parts.append('<p>For tools: <a href="/openapi.json">openapi.json</a>.</p>')
    parts.append(_contents(described))
    parts.append('<h1 id="examples">Examples</h1>')
    parts += [
        f"<h2>{escape(title)}</h2><pre>{escape(example.replace(_ADDRESS, address))}</pre>"
        for title, example in _EXAMPLES.items()
    ]
    parts.append('<h1 id="routes">Routes</h1>')
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            parts.append(
                f'<h2 id="{escape(operation["operationId"])}"><code>{method.upper()} {escape(path)}</code></h2>'
            )
            parts += [f"<p>{_text(operation[key])}</p>" for key in ("summary", "description") if operation.get(key)]
            rows = [
                (f"{one['in']}: {one['name']}", one.get("description", "")) for one in operation.get("parameters", ())
            ]
            if "requestBody" in operation:
                rows.append(("body", _schema_of(operation["requestBody"])))
            rows += [
                (status, f"{answer.get('description', '')} {_schema_of(answer)}".strip())
                for status, answer in operation["responses"].items()
            ]
            parts.append(_table(rows))
    parts.append('<h1 id="objects">Objects</h1>')
    for name, schema in described["components"]["schemas"].items():
        parts.append(f'<h2 id="{escape(name)}">{escape(name)}</h2><p>{_text(schema.get("description", ""))}</p>')
        required = schema.get("required", ())
        parts.append(_table([(_field(key, field, key in required), field.get("description", ""))
                             for key, field in schema.get("properties", {}).items()]))  # fmt: skip
    return HEAD + "".join(parts)


def _contents(described: dict[str, Any]) -> str:
    """Links to the sections, the routes and the objects of the page."""
    routes = "".join(
        f'<li><a href="#{escape(operation["operationId"])}">{method.upper()} {escape(path)}</a>'
        f" {escape(operation.get('summary', ''))}"
        for path, operations in described["paths"].items()
        for method, operation in operations.items()
    )
    objects = ", ".join(f'<a href="#{escape(name)}">{escape(name)}</a>' for name in described["components"]["schemas"])
    return (
        '<h1>Contents</h1><ul><li><a href="#examples">Examples</a>'
        f'<li><a href="#routes">Routes</a><ul>{routes}</ul><li><a href="#objects">Objects</a>: {objects}</ul>'
    )


def _text(description: str) -> str:
    """A description as HTML: what stands in backticks is code."""
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
