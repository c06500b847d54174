"""A repository with the worktree of a task, whose checks are run."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import entry_points
from pathlib import Path

from forge_proxy.checks.checks import CheckSettings, RepositoryChecks
from forge_proxy.core.tasks.findings import Baseline
from forge_proxy.core.tasks.models import CheckCommand, ValidationConfig
from forge_proxy.core.tasks.workspace import Worktree
from forge_proxy.git.repositories import GitRepositories
from forge_proxy.tasks.ports import CheckRequest, Checks
from tests.fakes.repository import UserRepository, create_repository, repositories_of

_WITHOUT_PLUGINS = [f"-pno:{plugin.name}" for plugin in entry_points(group="pytest11")]
"""Importing the plugins of this virtual environment takes three quarters of a run."""
PYTEST = CheckCommand(
    name="tests", run=("python", "-m", "pytest", "-q", "-pno:cacheprovider", *_WITHOUT_PLUGINS), timeout=60
)


@dataclass
class CheckedProject:
    """The project. Its virtual environment is the one of the test process."""

    repository: UserRepository
    repositories: GitRepositories
    checks: Checks
    worktree: Worktree
    config: ValidationConfig = field(default_factory=ValidationConfig)

    @property
    def folder(self) -> Path:
        return Path(self.worktree.path)

    def request(self, *files: str) -> CheckRequest:
        return CheckRequest(self.worktree, files, self.config)

    async def write(self, files: Mapping[str, str]) -> CheckRequest:
        """Write files as a task does, and return the request that checks them."""
        await self.repositories.write(self.worktree, {path: text.encode() for path, text in files.items()})
        return self.request(*files)

    async def baseline(self) -> Baseline:
        """Record what the checks find before anything is changed."""
        return await self.checks.record_baseline(self.request(*await self.repositories.list_files(self.worktree)))

    async def find(self, request: CheckRequest, baseline: Baseline | None = None) -> list[str]:
        """Return the findings of the checks that have failed."""
        results = await self.checks.run(request, baseline or Baseline())
        assert all(bool(result.findings) != result.passed for result in results)
        return [f"{finding.check}: {finding}" for result in results for finding in result.findings]

    def read(self, path: str) -> str:
        return (self.folder / path).read_text()


async def create_project(
    folder: Path,
    files: Mapping[str, str | bytes],
    *commands: CheckCommand,
    settings: CheckSettings | None = None,
    has_environment: bool = True,
) -> CheckedProject:
    """Create a repository with these files, and a worktree of it, below a folder."""
    repository = create_repository(folder / "home" / "repo", files)
    if has_environment:
        (repository.path / ".venv").symlink_to(sys.prefix)
        (repository.path / ".git" / "info" / "exclude").write_text(".venv\n")
    repositories = repositories_of(folder / "state", repository.path)
    worktree = await repositories.create_worktree(str(repository.path), "t1", repository.head())
    chosen = replace(settings or CheckSettings(), checks=commands)
    return CheckedProject(repository, repositories, RepositoryChecks(repositories, chosen), worktree)
