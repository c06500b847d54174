"""Runs checks in a sandbox made by bubblewrap, because they execute code that a model has written.

A command sees the programs of the system, the virtual environment of the repository, and its worktree, which is the
only place that it can write and keep. It has no network, sees no other processes, and its environment is PATH and HOME.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from forge_proxy.checks.commands import MAX_OUTPUT_BYTES, CommandLimits, Workplace, limit_command
from forge_proxy.checks.interpreters import find_interpreter, find_shared, program_folders
from forge_proxy.checks.process_guard import guard_processes
from forge_proxy.core.tasks.errors import CheckUnavailable
from forge_proxy.processes.program import ProgramLimits, ProgramOutput, run_program

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store")
_ETC = (
    "alternatives", "ca-certificates", "group", "hosts", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime",
    "mime.types", "nsswitch.conf", "passwd", "pki", "ssl/certs", "ssl/openssl.cnf",
)  # fmt: skip
"""Files below /etc that programs need, and that every user may read anyway."""
_TEMPORARY = "/tmp"  # noqa: S108  # of the sandbox
_HOME = f"{_TEMPORARY}/home"
_TEMPORARY_BYTES = 512 * 1024 * 1024
_PROBE_SECONDS = 20.0
_MISSING = "install it (Debian: apt-get install bubblewrap), or set tasks.sandbox: none to run checks without isolation"


class BubblewrapSandbox:
    """Runs commands under bubblewrap, which is probed once. `visible` are further paths that commands may read."""

    def __init__(self, limits: CommandLimits, visible: Sequence[Path] = (), program: str = "bwrap") -> None:
        self._limits = limits
        self._visible = tuple(visible)
        self._program = program
        self._options: Sequence[str] = ()
        self._probing = asyncio.Lock()

    async def probe(self) -> None:
        """Raise `CheckUnavailable` if bubblewrap is missing or does not work here."""
        async with self._probing:
            if not self._options:
                self._options = await self._find_options()

    def mount_point(self, workplace: Workplace) -> Path:
        """See `CommandRunner`. The worktree takes the place of the repository, to which virtual environments refer."""
        is_bare = not (workplace.repository / ".git").exists()
        return workplace.worktree if is_bare else workplace.repository

    async def run(self, command: Sequence[str], workplace: Workplace, seconds: float) -> ProgramOutput:
        """See `CommandRunner`."""
        await self.probe()
        words, path = await asyncio.to_thread(self._mount, workplace)
        limited = limit_command(command, self._limits)
        try:
            return await run_program(
                [*self._options, *words, "--", *limited], ProgramLimits(seconds, MAX_OUTPUT_BYTES),
                env={"PATH": path, "HOME": _HOME}, guard=guard_processes(self._limits),
            )  # fmt: skip
        except OSError as error:
            raise CheckUnavailable(f"bubblewrap cannot be started: {error.strerror or error}") from error

    async def _find_options(self) -> Sequence[str]:
        program = shutil.which(self._program)
        if program is None:
            raise CheckUnavailable(f"checks run in a sandbox, and bubblewrap is not installed: {_MISSING}")
        limits = ProgramLimits(_PROBE_SECONDS, 20_000)
        env = {"PATH": os.defpath}
        described = (await run_program([program, "--help"], limits, env=env)).out.decode("utf-8", "replace")
        options = [program, *_isolate(described), *_show_system()]
        probed = await run_program([*options, "--remount-ro", "/", "--", "/bin/sh", "-c", "exit 0"], limits, env=env)
        if probed.code != 0:
            reason = probed.err.decode("utf-8", "replace").strip()[:300] or f"exit code {probed.code}"
            raise CheckUnavailable(
                f"checks run in a sandbox, and bubblewrap does not work here ({reason}); permit unprivileged user"
                " namespaces, or set tasks.sandbox: none to run checks without isolation"
            )
        return options

    def _mount(self, workplace: Workplace) -> tuple[Sequence[str], str]:
        """Return the options that show the files of a check, and PATH."""
        top = self.mount_point(workplace)
        shared = find_shared(workplace.repository, workplace.worktree)
        words = [word for path in (*self._visible, *workplace.readable) for word in _show(path)]
        for name in shared:
            folder = (workplace.repository / name).resolve()
            words += _show(folder)
            if interpreter := find_interpreter(folder):
                words += _show(interpreter)
        words += ["--bind", str(workplace.worktree), str(top)]
        git = workplace.worktree / ".git"
        if git.exists() and not git.is_symlink():  # git would run programs that a changed one names
            words += ["--ro-bind", str(git), str(top / ".git")]
        for name in shared:
            words += ["--ro-bind", str((workplace.repository / name).resolve()), str(top / name)]
        own = [str(folder) for folder in program_folders(top, shared)]
        visible = [
            folder for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if self._is_visible(folder)
        ]
        return [*words, "--remount-ro", "/", "--chdir", str(top)], os.pathsep.join([*own, *visible])

    def _is_visible(self, folder: str) -> bool:
        shown = (*_SYSTEM, *(str(path) for path in self._visible))
        return any(folder == path or folder.startswith(f"{path}/") for path in shown)


def _isolate(described: str) -> Sequence[str]:
    """Return the options that separate a command from the rest of the system. `described` is the help of bubblewrap.

    /proc is read-only because bubblewrap leaves /proc/sys writable: with a daemon that runs as root, the command could
    change the settings of the kernel.
    """
    forbidden = ["--disable-userns"] if "--disable-userns" in described else []
    size = ["--size", str(_TEMPORARY_BYTES)] if "--size" in described else []
    return [
        "--unshare-all", "--unshare-user", *forbidden, "--die-with-parent", "--new-session", "--cap-drop", "ALL",
        "--proc", "/proc", "--remount-ro", "/proc",
        "--dev", "/dev", *size, "--tmpfs", "/dev/shm", "--remount-ro", "/dev",  # noqa: S108
        *size, "--tmpfs", _TEMPORARY, "--dir", _HOME,
    ]  # fmt: skip


def _show_system() -> Sequence[str]:
    words: list[str] = []
    for name in _SYSTEM:
        path = Path(name)
        if path.is_symlink():
            words += ["--symlink", str(path.readlink()), name]
        elif path.exists():
            words += ["--ro-bind", name, name]
    for name in _ETC:
        words += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    return words


def _show(path: Path) -> Sequence[str]:
    return ["--ro-bind-try", str(path), str(path)]
