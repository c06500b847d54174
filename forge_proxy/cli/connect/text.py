"""Renders the file of a client as JSON, YAML or TOML. Pure."""

from __future__ import annotations

import json
from typing import Any, cast

import yaml

from forge_proxy.cli.connect.setups import ClientConfigFile, JsonDict


def as_text(file: ClientConfigFile, values: Any = None) -> str:
    """Return the text of a file with these values, or its own values if None."""
    values = file.values if values is None else values
    match file.format:
        case "json":
            return json.dumps(values, indent=2, ensure_ascii=False) + "\n"
        case "yaml":
            return yaml.safe_dump(values, sort_keys=False, allow_unicode=True)
        case "toml":
            return as_toml(values)


def as_toml(values: JsonDict) -> str:
    """Render keys and values, then tables of tables. Objects that are nested deeper are inline tables."""
    lines = [f"{key} = {_toml_value(value)}" for key, value in values.items() if not isinstance(value, dict)]
    for key, value in values.items():
        if isinstance(value, dict):
            for name, table in cast("dict[str, JsonDict]", value).items():
                lines += ["", f"[{key}.{name}]", *(f"{one} = {_toml_value(inner)}" for one, inner in table.items())]
    return "\n".join(lines).lstrip("\n") + "\n" if lines else ""


def _toml_value(value: Any) -> str:
    if isinstance(value, dict):
        members = cast("JsonDict", value).items()
        return "{ " + ", ".join(f"{key} = {_toml_value(inner)}" for key, inner in members) + " }"
    return json.dumps(value)  # strings, numbers, booleans and lists of them are written as in TOML
