"""smolagents' ToolCallingAgent."""

import sys
from pathlib import Path

from smolagents import OpenAIModel, ToolCallingAgent, tool


@tool
def read_file(path: str) -> str:
    """Read a file.

    Args:
        path: Where it is.
    """
    return Path(path).read_text()


@tool
def write_file(path: str, content: str) -> str:
    """Write a file.

    Args:
        path: Where it is.
        content: What it shall hold.
    """
    Path(path).write_text(content)
    return f"{len(content)} characters written"


_, base_url, prompt = sys.argv[1:]
model = OpenAIModel("scripted", api_base=base_url, api_key="none")
print(ToolCallingAgent([read_file, write_file], model).run(prompt))
