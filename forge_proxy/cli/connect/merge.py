"""Merges values into the text of a client's file: JSON with comments, YAML or TOML. Pure."""

from __future__ import annotations

import re
import tomllib
from typing import Any, cast

import yaml

from forge_proxy.cli.connect.jsonc import edit_jsonc, read_jsonc
from forge_proxy.cli.connect.setups import ClientConfigFile, JsonDict
from forge_proxy.cli.connect.text import as_text, as_toml

_TABLE = re.compile(r"^\s*\[", re.MULTILINE)


def parse(file: ClientConfigFile, text: str) -> Any:
    """Return the values of a text in the format of the file; an empty object if it is empty. Raises `ValueError`."""
    match file.format:
        case "toml":
            return tomllib.loads(text)
        case "yaml":
            return yaml.safe_load(text) or {}
        case "json":
            return read_jsonc(text)


def merge_text(file: ClientConfigFile, old: str) -> str:
    """Return the text of a file with the values merged into it. Raises `ValueError` or `YAMLError`."""
    if isinstance(file.values, list):
        return _merge_list_file(file, old)
    if file.format == "toml":
        return _merge_toml(old, file.values)
    found = parse(file, old)
    if not isinstance(found, dict):
        raise ValueError("it is not an object")  # noqa: TRY004  the same type as the errors of the parsers
    merged = _merge(cast("JsonDict", found), file.values)
    if merged == found:
        return old
    return edit_jsonc(old, merged) if file.format == "json" else as_text(file, merged)


def _merge_list_file(file: ClientConfigFile, old: str) -> str:
    """Merge into a file that contains a list. Its comments are lost if something changes."""
    found: Any = parse(file, old) or list[Any]()
    if not isinstance(found, list):
        raise ValueError("it is not a list")  # noqa: TRY004  the same type as the errors of the parsers
    merged = _merge_list(cast("list[Any]", found), file.values)
    return old if merged == found else as_text(file, merged)


def _merge(found: JsonDict, values: JsonDict) -> JsonDict:
    """Return the old values with the new ones: objects are merged; in lists the entry of the same name is replaced."""
    merged = dict(found)
    for key, value in values.items():
        there = found.get(key)
        if isinstance(value, dict) and isinstance(there, dict):
            merged[key] = _merge(cast("JsonDict", there), cast("JsonDict", value))
        elif isinstance(there, list) and _has_names(value):
            merged[key] = _merge_list(cast("list[Any]", there), cast("list[Any]", value))
        elif key in ("name", "version", "schema", "$schema") and there is not None:
            continue  # how the user named the file
        else:
            merged[key] = value
    return merged


def _has_names(value: Any) -> bool:
    """Return whether this is a list of objects with names."""
    return isinstance(value, list) and all(isinstance(one, dict) and "name" in one for one in cast("list[Any]", value))


def _merge_list(entries: list[Any], values: list[Any]) -> list[Any]:
    """Return the old entries without those that have the name of a new one, then the new ones."""
    names = [entry["name"] for entry in values]

    def is_replaced(entry: Any) -> bool:
        return isinstance(entry, dict) and cast("JsonDict", entry).get("name") in names

    return [entry for entry in entries if not is_replaced(entry)] + values


def _merge_toml(old: str, values: JsonDict) -> str:
    """Return the text with the new keys before its first table and the new tables at its end. Comments are kept."""
    if _merge(found := tomllib.loads(old), values) == found:
        return old
    simple = {key: value for key, value in values.items() if not isinstance(value, dict)}
    first = _TABLE.search(old)
    head, rest = (old[: first.start()], old[first.start() :]) if first else (old, "")
    for key in simple:
        head = re.sub(rf"^\s*{re.escape(key)}\s*=.*\n?", "", head, flags=re.MULTILINE)
    for table in _tables(values):
        rest = re.sub(
            rf"^\s*\[{re.escape(table)}(?:\.[^\]\n]*)?\][^\n]*\n(?:(?!\s*\[)[^\n]*\n?)*", "", rest, flags=re.MULTILINE
        )
    tables = as_toml({key: value for key, value in values.items() if key not in simple})
    merged = f"{as_toml(simple)}{head}{rest.rstrip()}\n\n{tables}".lstrip("\n")
    tomllib.loads(merged)  # raises if a multi-line key was cut in two
    return merged


def _tables(values: JsonDict) -> list[str]:
    return [
        f"{key}.{name}" for key, value in values.items() if isinstance(value, dict) for name in cast("JsonDict", value)
    ]
