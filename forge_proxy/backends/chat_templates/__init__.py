"""The chat templates of models: where the daemon reads them, and how it renders them safely."""

MAX_TEMPLATE = 400_000
"""Characters of a template; the longest known one has 40,000."""
GO_TEMPLATE = "{{- /* Go */}}"
"""Precedes a template in Go's syntax, which only the server can render."""


class RenderError(Exception):
    """The template cannot be rendered. The message is the template's or Jinja's own."""
