"""The generated files, by their paths, each with the function that renders it. A test compares them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from forge_proxy.settings.schema import render_schema
from scripts.commands_page import render_commands
from scripts.routes_page import render_routes
from scripts.settings_page import render_settings

ROOT = Path(__file__).parents[1]
GENERATED: Mapping[str, Callable[[], str]] = {
    "config/forge-proxy.schema.json": render_schema,
    "docs/configuration.md": render_settings,
    "docs/commands.md": render_commands,
    "docs/http-routes.md": render_routes,
}
