"""What a client needs to reach the daemon, as values: the address, its files, its variables, its settings. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

JsonDict = dict[str, Any]
_OUTPUT = 8192
"""Maximum tokens of a response, if the window is at least four times as large."""
_ASSUMED_WINDOW = 16_384
"""For clients that require a number if the daemon does not know the window."""
CHAT_COMPLETIONS = "/v1/chat/completions"
RESPONSES = "/v1/responses"
MESSAGES = "/v1/messages"


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model of the daemon. `window` is None if it is not known."""

    name: str
    window: int | None

    @property
    def output(self) -> int:
        """The maximum number of tokens of a response."""
        return min(_OUTPUT, self.window // 4) if self.window else _OUTPUT

    @property
    def window_or_default(self) -> int:
        """The window, or a cautious number if it is not known."""
        return self.window or _ASSUMED_WINDOW


@dataclass(frozen=True, slots=True)
class DaemonAddress:
    """The daemon from a client's view. `root` is its URL without `/v1`; `window` is None if it is not known.

    `others` are the other models that it serves; `small` is the model for short side tasks.
    """

    root: str
    key: str
    model: str
    window: int | None
    others: tuple[ServedModel, ...] = ()
    small: str | None = None

    @property
    def base(self) -> str:
        """The base URL of OpenAI clients."""
        return f"{self.root}/v1"

    @property
    def output(self) -> int:
        """The maximum number of tokens of a response."""
        return self.models[0].output

    @property
    def models(self) -> tuple[ServedModel, ...]:
        """All models, the chosen one first."""
        return (ServedModel(self.model, self.window), *self.others)

    @property
    def small_model(self) -> str:
        """The model for short side tasks such as titles."""
        return self.small or self.model


@dataclass(frozen=True, slots=True)
class ClientConfigFile:
    """A file of the client. `values` are merged into it; in a list the entry of the same name is replaced.

    `other_paths` are alternative paths from which the client reads the file.
    """

    path: str
    format: Literal["json", "yaml", "toml"]
    values: Any
    """An object, or a list of objects with names."""
    other_paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SettingsDialog:
    """What the user enters in a client that stores its settings where no other program can write them."""

    place: str
    fields: dict[str, str]
    reason: str
    """Why no file is written."""


@dataclass(frozen=True, slots=True)
class ClientSetup:
    """The complete configuration of a client. `route` is the route of its requests."""

    files: tuple[ClientConfigFile, ...] = ()
    variables: dict[str, str] = field(default_factory=dict[str, str])
    run: str = ""
    route: str = CHAT_COMPLETIONS
    dialog: SettingsDialog | None = None
    note: str = ""
    """What else the user has to do or to know."""
