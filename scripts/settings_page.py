"""docs/configuration.md: every setting with its type, its default and its own description."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from forge_proxy.settings import PREFIX
from forge_proxy.settings.schema import settings_schema
from scripts.markdown import NOTICE, code, sentence, table

_INTRO = """
# Settings

The daemon reads its settings from four places. The first that sets a value wins:

1. options of the command line, such as `--port 9000`
2. environment variables: the path of the setting in capitals, with two underscores between the parts.
   `server.port` is `FORGE_PROXY_SERVER__PORT`.
3. a YAML file: `--config FILE`, else the file that `FORGE_PROXY_CONFIG` names, else
   `$XDG_CONFIG_HOME/forge-proxy/config.yaml` (by default in `~/.config`) if it exists
4. the defaults below

```yaml
server:
  port: 9000
guardrails:
  max_retries: 2
```

- In environment variables, lists are separated by commas. `backend.llama_server.extra`, `models` and
  `tools.mcp.servers` are JSON there.
- `${env.NAME}` in a value of the file is replaced by that environment variable.
- An unknown name is an error that suggests a known one. `forge-proxy config check` checks a file and starts nothing.
- `forge-proxy config show` prints the effective settings without secrets; with `--live` those of the running daemon.
- `forge-proxy config schema` prints a JSON Schema. Editors with a YAML language server use it if the file begins with
  `# yaml-language-server: $schema=forge-proxy.schema.json`.
- `forge-proxy reload` (or SIGHUP) applies changes of `guardrails`, `budget`, `compaction`, `sampling` and the keys
  without a restart, and reports what needs one.

A file with every setting and a comment on each: `config/forge-proxy.yaml` in the source.
"""


def render_settings() -> str:
    """The whole page."""
    schema: Any = settings_schema()
    parts = [NOTICE, _INTRO]
    for name, field in schema["properties"].items():
        parts += _sections(schema, name, field, depth=2)
    return "\n".join(parts)


def _sections(root: Any, path: str, field: Any, depth: int) -> Iterator[str]:
    """A section, then the sections in it. A mapping of names to sections is documented as `path.NAME`."""
    section = _section_of(root, field)
    if section is None:
        return
    named, model = section
    title = f"{path}.NAME" if named else path
    yield f"{'#' * depth} `{title}`\n\n{sentence(model.get('description', ''))}\n"
    fields = model["properties"]
    plain = {name: one for name, one in fields.items() if _section_of(root, one) is None}
    rows = [(code(name), _type(root, one), _default(one), _text(one)) for name, one in plain.items()]
    yield table(("setting", "type", "default", "description"), rows)
    if plain and depth == 2 and not named:
        first = next(iter(plain))
        yield f"In the environment: `{PREFIX}{path.upper()}__{first.upper()}` and so on.\n"
    for name, one in fields.items():
        yield from _sections(root, f"{title}.{name}", one, depth + 1)


def _section_of(root: Any, field: Any) -> tuple[bool, Any] | None:
    """The model of a section, and whether the field maps names to it; None for a plain setting."""
    model = _resolved(root, field)
    if "properties" in model:
        return False, model
    inner = model.get("additionalProperties")
    if isinstance(inner, dict) and "properties" in (value := _resolved(root, inner)):
        return True, value
    return None


def _resolved(root: Any, field: Any) -> Any:
    for option in field.get("anyOf", [field]):
        if "$ref" in option:
            return root["$defs"][option["$ref"].rpartition("/")[2]]
    return field


def _type(root: Any, field: Any) -> str:
    options = [one for one in field.get("anyOf", [field]) if one.get("type") != "null"]
    return " or ".join(dict.fromkeys(_plain_type(root, one) for one in options))


def _plain_type(root: Any, field: Any) -> str:
    field = _resolved(root, field)
    if "const" in field:
        return code(str(field["const"]))
    if "enum" in field:
        return ", ".join(code(str(value)) for value in field["enum"] if not isinstance(value, bool))
    match field.get("type"):
        case "array":
            items = _plain_type(root, field.get("items", {}))
            return f"list of {items}" if items.endswith("`") else f"list of {items}s"
        case "object":
            return "mapping"
        case "string":
            return {"path": "path", "password": "secret"}.get(field.get("format", ""), "string")
        case kind:
            return f"{kind}{_bounds(field)}"


def _bounds(field: Any) -> str:
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "&lt;"}
    return "".join(f" {sign} {field[key]:.10g}" for key, sign in signs.items() if key in field)


def _default(field: Any) -> str:
    match field.get("default"):
        case None:
            return ""
        case str(word):
            return code(word)
        case value:
            return code(json.dumps(value))


def _text(field: Any) -> str:
    return sentence(field.get("description", ""))
