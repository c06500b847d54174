"""A lane: a scripted server and a daemon in front of it, which do one cell after another.

A daemon takes longer to start than most cells to run. One cell must not affect the next one, so a fault that the daemon
may remember is the last one of its daemon.
"""

from __future__ import annotations

from contextlib import ExitStack
from tempfile import TemporaryDirectory

from tests.fakes.processes import daemon
from tests.harness.server import ScriptedServer


class Lane:
    """Runs cells one at a time; the daemon is started when it is first needed."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._daemon = ExitStack()
        self._daemon_url: str | None = None
        self.server = self._stack.enter_context(ScriptedServer())
        self._stack.callback(self.end_daemon)

    def __enter__(self) -> Lane:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def has_daemon(self) -> bool:
        return self._daemon_url is not None

    def daemon_url(self) -> str:
        """The daemon's root, without `/v1`."""
        if self._daemon_url is None:
            state = self._daemon.enter_context(TemporaryDirectory(ignore_cleanup_errors=True))  # stored responses
            options = ("--backend", "openai", "--backend-url", self.server.url)
            process = daemon(*options, env={"XDG_STATE_HOME": state})
            self._daemon_url = self._daemon.enter_context(process).url
        return self._daemon_url

    def end_daemon(self) -> None:
        """Start a new daemon for the next cell."""
        self._daemon_url = None
        self._daemon.close()
