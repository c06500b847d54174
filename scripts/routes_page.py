"""docs/http-routes.md: every route as the daemon describes it in `/openapi.json`."""

from __future__ import annotations

from tempfile import TemporaryDirectory
from typing import Any

import httpx

from forge_proxy import ProxyServer
from forge_proxy.settings import build_settings
from scripts.markdown import NOTICE, code, sentence, table

_INTRO = """
# Routes

Every route with its parameters, body and responses, generated from the OpenAPI description. A running daemon shows the
same at `/docs`, and the description itself at `/openapi.json`. [HTTP API](http-api.md) explains how the parts work
together.
"""


def render_routes() -> str:
    """The whole page."""
    described = _describe()
    parts = [NOTICE, _INTRO]
    for path, operations in described["paths"].items():
        parts += [_operation(path, method, operation) for method, operation in operations.items()]
    parts.append("# Objects\n")
    for name, schema in described["components"]["schemas"].items():
        parts.append(f"### {name}\n\n{sentence(schema.get('description', ''))}\n")
        required = schema.get("required", ())
        rows = [
            (
                code(key),
                _schema(field) + (", required" if key in required else ""),
                sentence(field.get("description", "")),
            )
            for key, field in schema.get("properties", {}).items()
        ]
        parts.append(table(("field", "type", "description"), rows))
    return "\n".join(parts).replace("\n# Objects", "\n## Objects")


def _describe() -> dict[str, Any]:
    """Return the `/openapi.json` of a daemon. Its own empty store keeps it from resuming the user's runs."""
    with TemporaryDirectory() as folder:
        settings = build_settings({"store": {"url": f"sqlite+aiosqlite:///{folder}/runs.db"}})
        with ProxyServer(settings, backend="embedded", port=0) as proxy:
            return httpx.get(f"{proxy.url.removesuffix('/v1')}/openapi.json", timeout=60).raise_for_status().json()


def _operation(path: str, method: str, operation: Any) -> str:
    parts = [f"## `{method.upper()} {path}`\n", sentence(operation["summary"]) + "\n"]
    if operation.get("deprecated"):
        parts.append("Deprecated: a former name, which works until 0.3.\n")
    if operation.get("description"):
        parts.append(sentence(operation["description"]) + "\n")
    rows = [
        (code(parameter["name"]), parameter["in"], sentence(parameter.get("description", "")))
        for parameter in operation.get("parameters", ())
    ]
    if "requestBody" in operation:
        rows.append(("", "body", _content(operation["requestBody"])))
    parts.append(table(("parameter", "in", "description"), rows))
    responses = [
        (status, f"{sentence(response.get('description', ''))} {_content(response) if status == '200' else ''}")
        for status, response in sorted(operation["responses"].items())
    ]
    parts.append(table(("status", "response"), responses))
    return "\n".join(parts)


def _content(part: Any) -> str:
    """The types of a body, with links to the objects of the page."""
    schemas = [content.get("schema", {}) for content in part.get("content", {}).values()]
    return ", ".join(filter(None, map(_schema, schemas)))


def _schema(schema: Any) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema or "oneOf" in schema:
        return " or ".join(dict.fromkeys(_schema(choice) for choice in schema.get("anyOf") or schema["oneOf"]))
    if "enum" in schema:
        return ", ".join(code(str(value)) for value in schema["enum"])
    if "const" in schema:
        return code(str(schema["const"]))
    match schema.get("type"):
        case "array":
            return f"list of {_schema(schema.get('items', {})) or 'values'}"
        case None:
            return "any JSON"
        case str(kind):
            return kind
        case kinds:
            return " or ".join(kinds)
