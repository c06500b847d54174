"""The two tools for llm, which runs this file's text and offers each function in it."""

import pathlib


def read_file(path: str) -> str:
    """Read a file."""
    return pathlib.Path(path).read_text()


def write_file(path: str, content: str) -> str:
    """Write a file."""
    pathlib.Path(path).write_text(content)
    return f"{len(content)} characters written"
