"""Stores the results of self-tests in a JSON file in the state folder, so that a model is tested once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import orjson
from platformdirs.unix import Unix

from forge_proxy.core.capability import CapabilityCard, read_card
from forge_proxy.core.jsontypes import Json, is_object


def state_folder() -> Path:
    """Return the folder for state of this machine: `forge-proxy` in `$XDG_STATE_HOME`, by default `~/.local/state`.

    It is the same on macOS, where other programs use `~/Library`. Raises `RuntimeError` if there is no home directory.
    """
    return Unix("forge-proxy").user_state_path


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


class CapabilityCache:
    """`CardStore` of one model server, in a file shared by all servers. Ignores errors of the file system."""

    def __init__(self, folder: Path, server: str) -> None:
        self._path = folder / "capabilities.json"
        self._server = server

    def load(self) -> Sequence[CapabilityCard]:
        """See `engine.ports.CardStore`."""
        cards = self._all().get(self._server)
        read = [read_card(card) for card in cards.values()] if is_object(cards) else []
        return [card for card in read if card is not None]

    def keep(self, card: CapabilityCard) -> None:
        """See `engine.ports.CardStore`."""
        servers = self._all()
        cards = servers.get(self._server)
        servers[self._server] = {**(cards if is_object(cards) else {}), card.model: card.as_json()}
        written = self._path.with_suffix(f".{os.getpid()}")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(written, "wb", opener=_open_private) as file:  # a Path has no opener
                file.write(orjson.dumps(servers, option=orjson.OPT_INDENT_2))
            written.replace(self._path)
        except OSError:  # a read-only home folder: the model will be tested again
            with suppress(OSError):
                written.unlink(missing_ok=True)

    def _all(self) -> dict[str, Json]:
        try:
            read: object = orjson.loads(self._path.read_bytes())
        except (OSError, orjson.JSONDecodeError):
            return {}
        return read if is_object(read) else {}
