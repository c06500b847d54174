"""Code of a model is executed by the checks: whatever it tries, it achieves nothing outside of its worktree.

Each attack is a test of the repository, run by a real pytest, all of them in one run: an attack that stopped the others
would be seen without the sandbox. One that succeeds writes a file. Without a sandbox all do, which shows that they work
at all.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from forge_proxy.checks.bubblewrap import BubblewrapSandbox
from forge_proxy.checks.checks import CheckSettings
from forge_proxy.checks.commands import CommandLimits, Workplace
from forge_proxy.core.tasks.errors import CheckUnavailable
from forge_proxy.core.tasks.findings import Baseline
from forge_proxy.core.tasks.models import CheckCommand
from tests.fakes.checked_project import PYTEST, create_project
from tests.fakes.processes import has_ended, until

_SECRET = "s3cret-of-the-daemon"


@dataclass(frozen=True)
class Victims:
    """What is outside of the sandbox."""

    folder: Path
    port: int
    pid: int


@pytest.fixture
def victims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Victims]:
    key = tmp_path / "home" / ".ssh" / "id_rsa"
    key.parent.mkdir(parents=True)
    key.write_text("private key")
    monkeypatch.setenv("FORGE_PROXY_SECRET", _SECRET)
    daemon = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env={"SECRET": _SECRET})
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as abstract, daemon:
        abstract.bind(f"\0{tmp_path}")
        abstract.listen()
        yield Victims(tmp_path, server.getsockname()[1], daemon.pid)
        daemon.kill()


_ATTACKS = {
    "reads ~/.ssh": "achieve(open('{folder}/home/.ssh/id_rsa').read())",
    "lists the home folder": "achieve(os.listdir('{folder}/home/.ssh'))",
    "reads the environment of the daemon": "achieve('{secret}' in open('/proc/{pid}/environ').read())",
    "reads the environment of any process": "achieve('{secret}' in ''.join(map(environment, os.listdir('/proc'))))",
    "uses the network": "achieve(socket.create_connection(('127.0.0.1', {port}), timeout=5))",
    "connects to an abstract socket": "s = socket.socket(socket.AF_UNIX); s.connect('\\0{folder}'); achieve(s)",
    "writes outside": "open('{folder}/written', 'w').close()",
    "signals another process": "os.kill({pid}, 0); achieve(True)",
    "reads the objects of the repository": (
        "achieve(os.listdir(open('.git').read().removeprefix('gitdir:').strip() + '/../..'))"
    ),
    "changes the virtual environment": "open('{folder}/home/repo/.venv/pyvenv.cfg', 'r+').close(); achieve(True)",
    "replaces .git": "open('.git', 'a').write(' '); achieve(True)",
    "renames .git": "os.rename('.git', 'moved'); achieve(True)",
}
_PRELUDE = """
import os, pathlib, socket

def environment(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/environ").read_text("latin1")
    except OSError:
        return ""

"""
_ATTACK = """
def test_attack_{number}():
    def achieve(found):
        if found:
            pathlib.Path("achieved {number}").write_text(str(found))

    pathlib.Path("tried {number}").touch()
    {attack}
"""


async def attack(victims: Victims, *, is_sandboxed: bool) -> list[str]:
    """Run the attacks as tests of one file, and return the names of those that have achieved something."""
    values = {"folder": victims.folder, "port": victims.port, "pid": victims.pid, "secret": _SECRET}
    code = _PRELUDE + "".join(
        _ATTACK.format(number=number, attack=text.format(**values)) for number, text in enumerate(_ATTACKS.values())
    )
    command = PYTEST.model_copy(
        update={"run": (sys.executable if not is_sandboxed else "python", *PYTEST.run[1:], "-s")}
    )
    project = await create_project(
        victims.folder, {"test_attack.py": code}, command, settings=CheckSettings(is_sandboxed=is_sandboxed)
    )
    results = await project.checks.run(project.request("test_attack.py"), Baseline())
    tests = next(result for result in results if result.check == "tests")
    assert all((project.folder / f"tried {number}").exists() for number in range(len(_ATTACKS))), tests.details
    return [
        name
        for number, name in enumerate(_ATTACKS)
        if (project.folder / f"achieved {number}").exists()
        or (name == "writes outside" and (victims.folder / "written").exists())
    ]


@pytest.mark.usefixtures("bubblewrap")
async def test_no_attack_in_the_sandbox_achieves_anything(victims: Victims) -> None:
    assert await attack(victims, is_sandboxed=True) == []


async def test_each_of_these_attacks_succeeds_without_a_sandbox(victims: Victims) -> None:
    assert await attack(victims, is_sandboxed=False) == list(_ATTACKS)


class World:
    """A sandbox with a workplace."""

    def __init__(self, folder: Path, limits: CommandLimits | None = None) -> None:
        self.worktree = folder / "worktree"
        self.worktree.mkdir()
        self.sandbox = BubblewrapSandbox(limits or CommandLimits())
        self.workplace = Workplace(self.worktree, folder / "repo")

    async def run(self, code: str, seconds: float = 30) -> tuple[int, str, str]:
        """Run a Python program; return its exit code, its output, and why it was stopped."""
        ended = await self.sandbox.run(["python3", "-c", code], self.workplace, seconds)
        return ended.code, (ended.out + ended.err).decode(), ended.stopped


@pytest.mark.usefixtures("bubblewrap")
async def test_the_environment_is_path_and_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", _SECRET)

    code, out, _ = await World(tmp_path).run("import os; print(*sorted(os.environ), os.environ['HOME'])")

    assert (code, set(out.split())) == (0, {"HOME", "LC_CTYPE", "PATH", "PWD", "/tmp/home"})


@pytest.mark.usefixtures("bubblewrap")
async def test_no_open_file_is_inherited(tmp_path: Path) -> None:
    (tmp_path / "secret").touch()
    descriptor = os.open(tmp_path / "secret", os.O_RDONLY)
    os.set_inheritable(descriptor, True)
    try:
        _, out, _ = await World(tmp_path).run("import os; print(os.listdir('/proc/self/fd'))")
    finally:
        os.close(descriptor)

    assert out.split("[")[-1] == "'0', '1', '2', '3']\n"  # the last one is the listing


@pytest.mark.usefixtures("bubblewrap")
async def test_only_the_worktree_and_temporary_folders_can_be_written(tmp_path: Path) -> None:
    world = World(tmp_path)
    code = """
import os
for folder in ("/", "/usr", "/etc", "/dev", "/proc", "/proc/self", "/dev/shm", "/tmp", os.environ["HOME"], "."):
    try:
        open(f"{folder}/written", "w").close()
        print(folder)
    except OSError:
        pass
"""

    _, out, _ = await world.run(code)

    assert out.split() == ["/dev/shm", "/tmp", "/tmp/home", "."]
    assert (world.worktree / "written").exists()


@pytest.mark.usefixtures("bubblewrap")
async def test_the_settings_of_the_kernel_cannot_be_written_even_by_root(tmp_path: Path) -> None:
    """bubblewrap leaves /proc/sys writable for root, and core_pattern is a program that the kernel starts."""
    rewrites = "place = '/proc/sys/kernel/core_pattern'; before = open(place).read(); open(place, 'w').write(before)"

    code, out, _ = await World(tmp_path).run(rewrites)

    assert code == 1
    assert "Read-only file system" in out


@pytest.mark.usefixtures("bubblewrap")
async def test_a_command_without_end_is_killed_with_all_its_processes(tmp_path: Path) -> None:
    world = World(tmp_path)
    code = (
        "import os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "if os.fork() == 0: os.setsid()\nprint('running', flush=True)\ntime.sleep(600)"
    )

    ended, out, stopped = await world.run(code, seconds=1.5)

    assert stopped == "it ran longer than 1.5 s"
    assert ended < 0
    assert out.split() == ["running", "running"]
    until(lambda: not _running("time.sleep(600)"), "all processes have ended")


@pytest.mark.usefixtures("bubblewrap")
async def test_a_process_that_a_command_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    marker = "time.sleep(601)"
    code = f"import os, time\nif os.fork() == 0:\n    os.setsid()\n    os.closerange(0, 3)\n    {marker}"

    ended, _, stopped = await World(tmp_path).run(code)

    assert (ended, stopped) == (0, "")
    until(lambda: not _running(marker), "the process has ended")


def _running(marker: str) -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        try:
            if marker in str(process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.mark.usefixtures("bubblewrap")
async def test_one_process_cannot_use_more_memory_than_the_limit(tmp_path: Path) -> None:
    code, out, _ = await World(tmp_path, CommandLimits(memory_mb=200)).run("x = bytearray(400_000_000)")

    assert code == 1
    assert "MemoryError" in out


@pytest.mark.usefixtures("bubblewrap")
async def test_all_processes_together_cannot_use_more_memory_than_the_limit(tmp_path: Path) -> None:
    code = "import os, time\nfor _ in range(4): os.fork()\nx = bytearray(b'x' * 60_000_000)\ntime.sleep(60)"

    _, _, stopped = await World(tmp_path, CommandLimits(memory_mb=300)).run(code)

    assert stopped == "its processes used more than 300 MB of memory"


@pytest.mark.usefixtures("bubblewrap")
async def test_a_fork_bomb_is_stopped(tmp_path: Path) -> None:
    code = "import os, time\nfor _ in range(200):\n    if os.fork() == 0: time.sleep(60)\ntime.sleep(60)"

    _, _, stopped = await World(tmp_path, CommandLimits(processes=50)).run(code)

    assert stopped == "it started more than 50 processes"


@pytest.mark.usefixtures("bubblewrap")
async def test_temporary_files_and_output_are_limited(tmp_path: Path) -> None:
    world = World(tmp_path)

    code, out, _ = await world.run("open('/tmp/x', 'wb').write(b'x' * 600_000_000)")
    assert code == 1
    assert "No space left on device" in out
    code, out, _ = await world.run("print('x' * 50_000_000)")
    assert code == 0
    assert 256_000 <= len(out) < 257_000


@pytest.mark.usefixtures("bubblewrap")
async def test_a_symlink_in_the_worktree_is_no_place_to_mount_at(tmp_path: Path) -> None:
    world = World(tmp_path)
    (tmp_path / "repo" / "node_modules").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (world.worktree / "node_modules").symlink_to(tmp_path / "outside" / "created")

    code, _, _ = await world.run("pass")

    assert code == 0
    assert not list((tmp_path / "outside").iterdir())


async def test_without_bubblewrap_code_of_a_repository_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = CheckCommand(name="tests", run=("touch", str(tmp_path / "executed")))
    project = await create_project(tmp_path, {"a.py": "x = 1\n"}, command)
    broken = tmp_path / "programs" / "bwrap"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\necho 'bwrap: No permissions to create a new namespace' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(broken.parent))

    with pytest.raises(CheckUnavailable, match=r"No permissions .* or set tasks\.sandbox: none"):
        await project.baseline()
    broken.unlink()
    with pytest.raises(CheckUnavailable, match="bubblewrap is not installed: install it"):
        await project.baseline()

    assert not (tmp_path / "executed").exists()


def _kill_once(command: list[str], file: Path) -> list[int]:
    """Run a program, kill it as soon as a file exists, and return the processes that it had started."""
    with subprocess.Popen(command) as daemon:
        until(file.exists, "the check has started")
        started = [child.pid for child in psutil.Process(daemon.pid).children(recursive=True)]
        daemon.kill()
    return started


@pytest.mark.parametrize("kind", ["bubblewrap", "none"])
async def test_a_killed_daemon_leaves_no_process_of_a_check(tmp_path: Path, kind: str) -> None:
    if kind == "bubblewrap":
        try:
            await BubblewrapSandbox(CommandLimits()).probe()
        except CheckUnavailable as error:
            pytest.skip(str(error))

    started = _kill_once([sys.executable, "-c", _RUNS, kind, str(tmp_path)], tmp_path / "started")

    assert started
    until(lambda: all(map(has_ended, started)), "the check has ended")


_RUNS = """
import asyncio, sys
from pathlib import Path
from forge_proxy.checks.bubblewrap import BubblewrapSandbox
from forge_proxy.checks.commands import CommandLimits, Workplace
from forge_proxy.checks.unsandboxed import Unsandboxed

async def main():
    kind = {"bubblewrap": BubblewrapSandbox, "none": Unsandboxed}[sys.argv[1]]
    workplace = Workplace(Path(sys.argv[2]), Path(sys.argv[2]))
    await kind(CommandLimits()).run(["sh", "-c", "touch started; sleep 602"], workplace, 60)

asyncio.run(main())
"""


@pytest.mark.usefixtures("bubblewrap")
async def test_visible_paths_can_be_read_and_their_programs_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "home" / "tools"
    (tools / "bin").mkdir(parents=True)
    (tools / "bin" / "greet").write_text("#!/bin/sh\necho hello\n")
    (tools / "bin" / "greet").chmod(0o755)
    (tmp_path / "home" / "secret").write_text("secret")
    monkeypatch.setenv("PATH", f"{tools}/bin{os.pathsep}{os.environ['PATH']}")
    code = f"""
import os, subprocess
print(subprocess.run(["greet"], capture_output=True, text=True).stdout.strip() if {{seen}} else "nothing")
print(os.path.exists("{tools}/bin/greet"), os.path.exists("{tmp_path}/home/secret"))
try:
    open("{tools}/bin/greet", "a").close()
except OSError:
    print("read-only")
"""
    hidden = World(tmp_path)
    _, without, _ = await hidden.run(code.format(seen=False))
    hidden.sandbox = BubblewrapSandbox(CommandLimits(), [tools])
    _, shown, _ = await hidden.run(code.format(seen=True))

    assert without.split()[:3] == ["nothing", "False", "False"]
    assert shown.split() == ["hello", "True", "False", "read-only"]
