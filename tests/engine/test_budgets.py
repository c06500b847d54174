"""Budgets while requests are answered: determined now and then, switched as a whole or not at all."""

from __future__ import annotations

import tracemalloc
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from forge_proxy.core.backend_errors import BackendUnreachable
from forge_proxy.core.budget import BudgetMode, BudgetPolicy, WindowSizing
from forge_proxy.core.budget_errors import BudgetUnchanged, ContextBudgetExceeded
from forge_proxy.core.chat import ChatRequest, ModelCall, ModelCard, ResolvedModel
from forge_proxy.core.hardware import Gpu, HardwareProfile
from forge_proxy.core.health import Health
from forge_proxy.core.jsontypes import Json
from forge_proxy.core.stream import Chunk
from forge_proxy.engine.budgets import Budgets
from forge_proxy.engine.context_fitting import ContextFitter
from forge_proxy.engine.events import BudgetResolved, Event

DOWN = BackendUnreachable("http://model", "connection refused")
FAST, FULL = (BudgetPolicy(mode=BudgetMode(mode)) for mode in ("forge-fast", "forge-full"))


@dataclass
class Server:
    """A backend with a window that can be changed, and counts a token for each character of the one message."""

    window: int | None = 8192
    own: int = 8192
    most: int = 1_000_000
    fault: BackendUnreachable | None = None
    counts: bool = True
    asked: list[str | None] = field(default_factory=list[str | None])
    counted: int = 0
    url: str = "http://model"

    async def context_window(self, model: str | None = None) -> int | None:
        self.asked.append(model)
        if self.fault:
            raise self.fault
        return self.window

    def served(self) -> Sequence[str | None]:
        return (None,)

    async def resize(self, tokens: int | None, model: str | None = None) -> None:
        if self.fault:
            raise self.fault
        self.window = min(tokens or self.own, self.most)

    async def count_tokens(self, call: ModelCall) -> int | None:
        self.counted += 1
        if self.fault:
            raise self.fault
        return len(str(call.request.messages[0]["content"])) if self.counts else None

    def stream(self, call: ModelCall) -> AsyncGenerator[Chunk]:
        raise NotImplementedError

    async def models(self) -> Sequence[ModelCard]:
        return ()

    async def slots(self) -> int | None:
        return None

    async def health(self) -> Health:
        return Health("ok")


@dataclass
class SetClock:
    time: float = 0.0

    def now(self) -> float:
        return self.time


async def admit(budgets: Budgets, call: ModelCall, server: Server) -> None:
    await ContextFitter(budgets, server.count_tokens, lambda _: None).admit(call, "r")


class Machine:
    async def profile(self) -> HardwareProfile:
        return HardwareProfile("nvml", (Gpu("card", 24_576),), None, 1, "made up")


def made(
    server: Server,
    policy: BudgetPolicy | None = None,
    sizing: WindowSizing | None = None,
    clock: SetClock | None = None,
) -> tuple[Budgets, list[Event]]:
    heard: list[Event] = []
    sizing = sizing or WindowSizing()
    resizer = server if sizing.by != "fixed" else None
    return Budgets(server, clock or SetClock(), heard.append, policy, sizing, resizer, Machine()), heard


def call(said: str, tools: list[Json] | None = None) -> ModelCall:
    messages: list[Json] = [{"role": "user", "content": said}]
    body: dict[str, Json] = {"messages": messages, **({"tools": tools} if tools else {})}
    return ModelCall(ChatRequest(body, ({"role": "user", "content": said},)), stream=False)


async def test_a_window_is_queried_at_intervals_and_reported_when_it_changes() -> None:
    server, clock = Server(), SetClock()
    budgets, heard = made(server, clock=clock)

    first, again = await budgets.of(), await budgets.of()
    clock.time, server.window = 31.0, 4096
    later = await budgets.of()

    assert (first.tokens, again.tokens, later.tokens, len(server.asked)) == (8192, 8192, 4096, 2)
    assert heard == [BudgetResolved(None, first), BudgetResolved(None, later)]


async def test_a_server_that_cannot_be_asked_has_no_budget_and_that_is_no_error() -> None:
    budgets, _ = made(Server(fault=DOWN), FAST)

    assert (await budgets.of()).tokens is None
    await admit(budgets, call("x" * 100_000), Server())


async def test_what_was_known_of_a_server_holds_while_it_cannot_be_asked() -> None:
    server, clock = Server(), SetClock()
    budgets, heard = made(server, FAST, clock=clock)

    before = await budgets.of()
    server.fault, clock.time = DOWN, 31.0
    meanwhile = await budgets.of()
    server.fault, server.window, clock.time = None, 4096, 33.0
    after = await budgets.of()

    assert (before.tokens, meanwhile.tokens, after.tokens) == (4096, 4096, 2048)
    assert len(heard) == 2


async def test_cards_have_the_budget_as_their_window() -> None:
    server = Server()
    budgets, _ = made(server, FAST)

    cards = await budgets.advertise([ModelCard("told", 2000), ModelCard("asked")])

    assert [(card.id, card.window) for card in cards] == [("told", 1000), ("asked", 4096)]
    assert server.asked == ["asked"]


async def test_the_trusted_window_of_a_server_that_refuses_costs_a_request_nothing() -> None:
    server = Server()
    budgets, _ = made(server)

    await admit(budgets, call("x" * 100_000), server)

    assert (server.asked, server.counted) == ([], 0)


async def test_what_is_clearly_within_the_budget_is_not_counted() -> None:
    server = Server()
    budgets, _ = made(server, FAST)

    await admit(budgets, call("x" * 4000), server)

    assert server.counted == 0


@pytest.mark.parametrize(("characters", "fits"), [(4096, True), (4097, False)])
async def test_what_may_be_over_it_is_counted(characters: int, fits: bool) -> None:
    server = Server()
    budgets, _ = made(server, FAST)

    if fits:
        await admit(budgets, call("x" * characters), server)
    else:
        with pytest.raises(ContextBudgetExceeded, match=r"context length is 4096 .* resulted in 4097 tokens"):
            await admit(budgets, call("x" * characters), server)

    assert server.counted == 1


@pytest.mark.parametrize("counts", [True, False])
async def test_if_the_prompt_cannot_be_counted_it_is_estimated_and_marked_so(counts: bool) -> None:
    server = Server(counts=False)
    budgets, _ = made(server, FAST)
    counter = Server(fault=DOWN if counts else None, counts=False)

    await admit(budgets, call("x" * 16_000), counter)
    with pytest.raises(ContextBudgetExceeded, match="resulted in about 4"):
        await admit(budgets, call("x" * 17_000), counter)


async def test_tools_count() -> None:
    server = Server(counts=False)
    budgets, _ = made(server, FAST)

    with pytest.raises(ContextBudgetExceeded):
        await admit(budgets, call("hi", [{"function": {"description": "x" * 20_000}}]), server)


async def test_with_forward_every_prompt_is_sent() -> None:
    server = Server()
    budgets, _ = made(server, BudgetPolicy(mode=BudgetMode.FORGE_FAST, overflow="forward"))

    await admit(budgets, call("x" * 100_000), server)

    assert server.counted == 0


async def test_a_switch_restarts_a_managed_server_and_can_be_reverted() -> None:
    server = Server()
    budgets, _ = made(server, sizing=WindowSizing("restart"))

    await budgets.switch(FAST)
    fast, half = await budgets.of(), server.window
    await budgets.switch(FULL)
    full = await budgets.of()

    assert (fast.tokens, half, full.tokens, server.window) == (4096, 4096, 8192, 8192)
    assert budgets.policy is FULL


async def test_a_name_first_asked_for_after_a_switch_has_the_budget_of_the_server() -> None:
    server = Server()
    budgets, heard = made(server, FULL, WindowSizing("restart"))
    await budgets.switch(FAST)

    assert (await budgets.of("tiny", window=4096)).tokens == 4096
    assert (await budgets.of("other")).tokens == 4096
    assert [event.model for event in heard if isinstance(event, BudgetResolved)] == [None]  # reported once


async def test_if_a_server_chooses_a_smaller_window_that_is_the_budget() -> None:
    server = Server(most=8192)
    budgets, _ = made(server, sizing=WindowSizing("restart"))

    await budgets.switch(BudgetPolicy(mode=BudgetMode.MANUAL, tokens=999_999))

    asked = await budgets.of()
    assert (asked.tokens, server.window) == (8192, 8192)
    assert asked.reason == "999999 tokens are configured, but the model server uses 8192"


async def test_a_configured_budget_is_set_on_the_server_once_it_is_reachable() -> None:
    server = Server()
    budgets, _ = made(server, FAST, WindowSizing("restart"))

    await budgets.settle()

    assert server.window == 4096
    assert (await budgets.of()).tokens == 4096


async def test_a_failed_switch_changes_nothing() -> None:
    server = Server()
    budgets, _ = made(server, FULL, WindowSizing("restart"))
    before = await budgets.of()

    server.fault = DOWN
    with pytest.raises(BudgetUnchanged, match="connection refused"):
        await budgets.switch(FAST)
    server.fault = None

    assert (budgets.policy, await budgets.of()) == (FULL, before)


async def test_the_window_of_an_ollama_depends_on_the_hardware() -> None:
    server = Server(window=None)
    budgets, _ = made(server, sizing=WindowSizing("request", truncates=True))

    await budgets.switch(FULL)

    budget = await budgets.of()
    assert (budget.tokens, server.window) == (32_768, 32_768)


@dataclass
class Shelf(Server):
    """One model at a time of several, by name and own window; `windows` are what each was last loaded with."""

    loaded: str = "a"
    windows: dict[str, int] = field(default_factory=dict[str, int])
    starts: list[tuple[str, int | None]] = field(default_factory=list[tuple[str, int | None]])
    too_much: int | None = None

    async def context_window(self, model: str | None = None) -> int | None:
        return self.windows.get(model or self.loaded)

    def served(self) -> Sequence[str | None]:
        return (self.loaded,)

    async def resize(self, tokens: int | None, model: str | None = None) -> None:
        assert model is not None
        if model == self.loaded:
            await self.start(model, tokens)

    async def start(self, model: str, tokens: int | None) -> None:
        self.starts.append((model, tokens))
        if tokens is not None and tokens == self.too_much:
            raise DOWN
        self.loaded = model
        self.windows[model] = tokens or self.own


def shelf(policy: BudgetPolicy | None = None, own: BudgetPolicy | None = None) -> tuple[Shelf, Budgets]:
    """It serves `a`; the policy of `b` may be its own."""
    server = Shelf(windows={"a": 8192})
    wishes = {"b": own} if own else {}
    budgets = Budgets(server, SetClock(), [].append, policy, WindowSizing("restart"), server, Machine(), wishes)
    return server, budgets


async def loads(budgets: Budgets, server: Shelf, model: str) -> None:
    await budgets.load(model, lambda tokens: server.start(model, tokens))


async def test_a_model_is_loaded_with_its_own_window_and_the_others_with_the_common_one() -> None:
    server, budgets = shelf(FULL, own=BudgetPolicy(mode=BudgetMode.MANUAL, tokens=1024))

    await loads(budgets, server, "b")
    await loads(budgets, server, "a")

    assert server.starts == [("b", 1024), ("a", None)]
    assert [(await budgets.of(name)).tokens for name in ("a", "b")] == [8192, 1024]


async def test_half_of_a_window_that_is_not_known_yet_is_found_by_loading_it_once_and_remembered() -> None:
    server, budgets = shelf(own=FAST)

    await loads(budgets, server, "b")
    await loads(budgets, server, "a")
    await loads(budgets, server, "b")

    assert server.starts == [("b", None), ("b", 4096), ("a", None), ("b", 4096)]
    assert (await budgets.of("b")).tokens == 4096


async def test_if_a_window_cannot_be_set_the_model_keeps_its_own() -> None:
    server, budgets = shelf(own=FAST)
    server.too_much = 4096

    await loads(budgets, server, "b")

    assert (server.loaded, server.windows["b"]) == ("b", 8192)


async def test_a_switch_is_for_the_loaded_model_now_and_for_the_others_when_they_are_loaded() -> None:
    server, budgets = shelf(FULL)
    await loads(budgets, server, "b")
    await loads(budgets, server, "a")
    server.starts.clear()

    await budgets.switch(FAST)
    fast, now = await budgets.of(), list(server.starts)
    await loads(budgets, server, "b")

    assert fast.tokens == 4096
    assert (now, server.starts) == ([("a", 4096)], [("a", 4096), ("b", 4096)])
    assert [(await budgets.of(name)).tokens for name in ("a", "b")] == [4096, 4096]


async def test_a_model_with_its_own_budget_does_not_follow_a_switch() -> None:
    server, budgets = shelf(FULL, own=FULL)
    await loads(budgets, server, "b")

    await budgets.switch(FAST)

    assert server.starts == [("b", None)]


async def test_the_overflow_policy_is_applied_per_model() -> None:
    server = Server(window=8192)
    own = {"b": BudgetPolicy(mode=BudgetMode.FORGE_FAST, overflow="forward")}
    budgets = Budgets(server, SetClock(), [].append, FAST, own=own)
    long = call("x" * 5000)

    await admit(budgets, ModelCall(long.request, stream=False, resolved=ResolvedModel("b")), server)
    with pytest.raises(ContextBudgetExceeded):
        await admit(budgets, ModelCall(long.request, stream=False, resolved=ResolvedModel("a")), server)


def large(said: str) -> ModelCall:
    one = call(said)
    return replace(one, request=replace(one.request, is_large=True))


@pytest.mark.parametrize("make", [call, large])
@pytest.mark.parametrize(("characters", "is_over"), [(100, False), (3_000_000, True)])
async def test_the_bytes_of_a_prompt_are_compared_with_the_budget_whether_it_is_large_or_not(
    make: Callable[[str], ModelCall], characters: int, is_over: bool
) -> None:
    budgets, _ = made(Server(), BudgetPolicy(mode=BudgetMode.MANUAL, tokens=1000))

    assert (await budgets.limit_of(make("x" * characters)) is not None) == is_over


async def test_a_large_prompt_is_serialised_only_until_it_exceeds_the_limit() -> None:
    budgets, _ = made(Server(), BudgetPolicy(mode=BudgetMode.MANUAL, tokens=1000))
    one = large("x" * 20_000_000)
    tracemalloc.start()
    try:
        assert await budgets.limit_of(one) is not None
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 5_000_000
