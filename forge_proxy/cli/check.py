"""`forge-proxy check`: tests the settings and the backend, for people and for scripts."""

from __future__ import annotations

import asyncio

from rich.console import Console
from rich.text import Text

from forge_proxy import daemon
from forge_proxy.api.auth import read_keys
from forge_proxy.api.server import address
from forge_proxy.backends.capability_cache import state_folder
from forge_proxy.cli.connect.minimum import describe_small_windows
from forge_proxy.core.backend_errors import BackendError, BackendFault
from forge_proxy.core.capability import CapabilityCard
from forge_proxy.core.chat import ModelCard
from forge_proxy.core.errors import ForgeError
from forge_proxy.core.rescue.templates import describe_template
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.events import Event
from forge_proxy.engine.ports import Backend
from forge_proxy.settings import Settings
from forge_proxy.settings.startup_checks import refuse_unusable


def run_check(settings: Settings, *, self_test: bool = False) -> bool:
    """Print the settings and the backend in use. Returns whether the daemon would start and answer."""
    rows, good = asyncio.run(_collect(settings, self_test=self_test))
    console = Console(highlight=False)
    for name, value in rows:  # no rich markup: the values contain text of other programs, including brackets
        console.print(Text.assemble((f"{name:<12}", "bold"), " ".join(value.split())), soft_wrap=True)
    return good


async def _collect(settings: Settings, *, self_test: bool) -> tuple[list[tuple[str, str]], bool]:
    guardrails = settings.guardrails
    off = [name for name, on in guardrails.enabled.model_dump(by_alias=True).items() if not on]
    rows = [("guardrails", "all on" if not off else f"off: {', '.join(off)}")]
    try:
        refuse_unusable(settings)
    except ForgeError as error:
        return [*rows, ("settings", str(error)), ("result", "not ready")], False
    where, free = _try_address(settings)
    rows.insert(0, ("listen", where))
    try:
        async with daemon.assemble(settings, _ignore_event) as parts:
            await parts.load()
            rows.append(("backend", f"{parts.choice.kind} at {parts.backend.url}"))
            rows.append(("reason", parts.choice.reason))
            health = await parts.backend.health()
            rows.append(("health", ": ".join(filter(None, (health.status, health.detail)))))
            models, answers, windows = await _list_models(parts.backend)
            rows.append(("models", models))
            if small := describe_small_windows(windows):
                rows.append(("window", small))
            good = health.status == "ok" and answers and free
            if good:
                rows.append(("template", await _describe_template(parts.engine)))
            if self_test and good:
                rows += _self_test_rows(await parts.engine.test(await parts.engine.models.default_name()))
            rows.append(("result", "ready" if good else "not ready"))
            return rows, good
    except ForgeError as error:
        rows.append(("backend", str(error)))
        rows.append(("result", "not ready"))
        return rows, False


async def _describe_template(engine: Engine) -> str:
    """Return what is learned from the chat template of the default model, if it can be read."""
    try:
        return describe_template(await engine.forms.learn(await engine.models.default_name()))
    except ForgeError as error:  # a server that lists no models
        return f"not read: {error}"


async def _list_models(backend: Backend) -> tuple[str, bool, list[int | None]]:
    """Return a description of the models, whether the backend would accept requests, and the models' context windows.

    A backend that does not list its models may still accept requests, unless it rejects the key.
    """
    try:
        cards = await backend.models()
        return ", ".join(map(_describe_model, cards)) or "none", True, [card.window for card in cards]
    except BackendError as error:
        return f"not known: {error}", error.status not in (401, 403), []
    except BackendFault as fault:
        return f"not known: {fault}", False, []


def _try_address(settings: Settings) -> tuple[str, bool]:
    server = settings.server
    try:
        daemon.open_listener(server, state_folder()).close()
        keys = len(read_keys(server))
    except ForgeError as error:
        return str(error), False
    wanted = f"one of {keys} keys" if keys > 1 else "a key" if keys else "no key"
    return f"{address(server.host, server.port)}, free; clients need {wanted}", True


def _self_test_rows(card: CapabilityCard) -> list[tuple[str, str]]:
    """Return the rows of a self-test result."""
    capabilities = {
        "valid call": card.calls,
        "tool_choice required": card.required,
        "constrained calls": None if card.constraint is None else card.constraint != "none",
        "parallel calls": card.parallel,
        "prefix cache": card.prefix_cache,
    }
    results = ", ".join(f"{name} {_WORDS[value]}" for name, value in capabilities.items())
    markup = f", written as {card.markup}" if card.markup else ""
    return [("self-test", f"{card.model}: {results}"), ("tools", f"{card.tools}: {card.reason}{markup}")]


_WORDS = {True: "yes", False: "no", None: "not known"}


def _describe_model(card: ModelCard) -> str:
    return f"{card.id} ({card.window} tokens)" if card.window else card.id


def _ignore_event(_: Event) -> None:
    """Ignore engine events."""
