"""Checks if a file can be a GGUF model before a server is started for it."""

from __future__ import annotations

from pathlib import Path

_MAGIC = b"GGUF"


def model_fault(path: Path) -> str | None:
    """Return what is wrong with a model file; None if it begins like a GGUF file. Reads four bytes."""
    try:
        with path.open("rb") as file:
            magic = file.read(len(_MAGIC))
    except FileNotFoundError:
        return f"file not found: {path}"
    except IsADirectoryError:
        return f"{path} is a folder; name the model file in it"
    except OSError as exc:
        return f"{path} cannot be read: {exc.strerror or exc}"
    if magic == _MAGIC:
        return None
    if not magic:
        return f"{path} is empty; was its download cut off?"
    if magic.startswith((b"MZ", b"\x7fELF", b"#!")):
        return f"{path} is a program, not a model file; name a llamafile with --llama-server"
    return f"{path} is not a GGUF model: it begins with {magic!r} instead of {_MAGIC!r}"
