"""The two tools of the programs beside this one."""

from pathlib import Path


def read_file(path: str) -> str:
    """Read a file."""
    return Path(path).read_text()


def write_file(path: str, content: str) -> str:
    """Write a file."""
    Path(path).write_text(content)
    return f"{len(content)} characters written"


TOOLS = {"read_file": read_file, "write_file": write_file}


def described(*, required: tuple[str, ...]) -> dict:
    return {
        "type": "object",
        "properties": {name: {"type": "string"} for name in required},
        "required": list(required),
        "additionalProperties": False,
    }


AS_FUNCTIONS = [
    {
        "type": "function",
        "function": {"name": name, "description": TOOLS[name].__doc__, "parameters": described(required=required)},
    }
    for name, required in (("read_file", ("path",)), ("write_file", ("path", "content")))
]
