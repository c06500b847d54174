"""The JSON Schema of the settings file. Editors use it to complete and validate settings; the first line of
config/forge-proxy.yaml refers to it.

`forge-proxy config schema` prints it; config/forge-proxy.schema.json is a copy of the output.
"""

from __future__ import annotations

import json

from forge_proxy.core.jsontypes import Json
from forge_proxy.settings import Settings

_DRAFT = "https://json-schema.org/draft/2020-12/schema"


def settings_schema() -> dict[str, Json]:
    """Return the schema. `on` and `off` are strings or booleans, because YAML 1.1 and 1.2 parse them differently."""
    schema = Settings.model_json_schema(by_alias=True)
    return {"$schema": _DRAFT, **schema, "title": "forge-proxy settings"}


def render_schema() -> str:
    """Return the schema as formatted JSON."""
    return json.dumps(settings_schema(), indent=2, ensure_ascii=False) + "\n"
