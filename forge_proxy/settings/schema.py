"""The JSON Schema of the settings file. Editors that read it complete and check
settings; config/forge-proxy.yaml names it in its first line.

`forge-proxy config schema` prints it; config/forge-proxy.schema.json is a copy of that.
"""

from __future__ import annotations

import json

from forge_proxy.core.jsontypes import Json
from forge_proxy.settings import Settings

_DRAFT = "https://json-schema.org/draft/2020-12/schema"


def settings_schema() -> dict[str, Json]:
    """What a settings file may hold. On and off are words or booleans: YAML 1.1 and 1.2 read them differently."""
    schema = Settings.model_json_schema(by_alias=True)
    return {"$schema": _DRAFT, **schema, "title": "forge-proxy settings"}


def render_schema() -> str:
    """The schema as the text of a file."""
    return json.dumps(settings_schema(), indent=2, ensure_ascii=False) + "\n"
