"""Runs a workflow to its end: asks the model, executes what it calls, tells it what came of that.

`WorkflowRunner.run` is for Python programs; `drive` yields the state after each move, for those who store it.
"""

from __future__ import annotations

import asyncio
import inspect
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from forge_proxy.core.guardrails import GuardPolicy, Retry, Switches
from forge_proxy.core.jsontypes import JsonObject, no_fields
from forge_proxy.core.messages import Message
from forge_proxy.core.workflow.cancelled import WorkflowCancelledError
from forge_proxy.core.workflow.definition import Workflow
from forge_proxy.core.workflow.errors import MaxIterationsError
from forge_proxy.core.workflow.run import (
    Limits,
    RunState,
    allowed,
    begin,
    called,
    closed,
    corrected,
    executed,
    interrupted,
)
from forge_proxy.core.workflow.steps import Steps
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.clock import MonotonicClock
from forge_proxy.workflows.cancellation import Cancelled, unless
from forge_proxy.workflows.context import ContextManager
from forge_proxy.workflows.iterations import IterationRunner
from forge_proxy.workflows.sdk.client import ChunkType, LLMClient, StreamChunk
from forge_proxy.workflows.sdk.client_backend import ClientBackend
from forge_proxy.workflows.sdk.engine_client import EngineClient
from forge_proxy.workflows.stream_listener import StreamListener
from forge_proxy.workflows.tools import CallableTools, Executor

OnChunk = Callable[[StreamChunk], Awaitable[None]]
OnMessage = Callable[[Message], None]
OnUsage = Callable[[JsonObject], None]


class WorkflowRunner:
    """The agentic loop over one model.

    `client` is an `Engine`, an `EngineClient`, or an `LLMClient` of one's own. Each answer of the model is an
    iteration, whether it is of any use or not; text alone is never accepted. With `stream`, `on_chunk` is awaited for
    each piece of an answer while it is written, before anybody knows whether it is of use. `on_message` hears of each
    message that is added. `options` are fields for the model server, such as `temperature`. `guardrails` say which of
    them are on, in place of `rescue_enabled`: where calls are not validated they reach the tools as they were written.
    `on_usage` hears of the tokens of each answer, as the model server counts them.
    """

    def __init__(
        self,
        client: LLMClient | Engine,
        context_manager: ContextManager | None = None,
        max_iterations: int = 10,
        max_retries_per_step: int = 3,
        max_tool_errors: int = 2,
        stream: bool = False,
        on_chunk: OnChunk | None = None,
        on_message: OnMessage | None = None,
        rescue_enabled: bool = True,
        *,
        model: str | None = None,
        options: JsonObject | None = None,
        guardrails: Switches | None = None,
        on_usage: OnUsage | None = None,
    ) -> None:
        if inspect.iscoroutinefunction(on_message):
            raise TypeError("on_message: expected a function that is not async, for it is called and not awaited")
        engine = client if isinstance(client, Engine | EngineClient) else _engine_over(client, stream=stream)
        if isinstance(client, EngineClient):
            model, options = model or client.model, {**client.options, **(options or {})}
        # A call is demanded, so no tool to answer in words with is added; with all off nothing would be judged.
        switches = (guardrails or Switches(rescue=rescue_enabled)).model_copy(update={"respond": True})
        policy = GuardPolicy(enabled=switches, on_exhausted="error")
        retries = max_retries_per_step if switches.retry else 0
        self._limits = Limits(max_iterations, retries, max_tool_errors)
        self._asker = IterationRunner(engine, context_manager, policy, self._limits, model, options or no_fields())
        self._on_chunk = on_chunk if stream else None
        self._on_message = on_message
        self._on_usage = on_usage

    async def run(
        self,
        workflow: Workflow,
        user_message: str,
        prompt_vars: Mapping[str, str] | None = None,
        initial_messages: Sequence[Message] | None = None,
        cancel_event: asyncio.Event | None = None,
        *,
        steps: Steps | None = None,
    ) -> Any:
        """The result of the terminal tool that ended the workflow.

        `initial_messages` take the place of system prompt and `user_message`, and have to hold both; `steps` are those
        done before, of a run that is gone on with (`WorkflowCancelledError.steps`). Once
        `cancel_event` is set, an answer that is being written is stopped, a tool that runs is waited for.

        Raises `MaxIterationsError`, `ToolCallError`, `ToolExecutionError`, `StepEnforcementError`,
        `PrerequisiteError`, `WorkflowCancelledError`, `StreamError`, `ContextBudgetExceeded`, or a `BackendFault`.
        """
        state = begin(workflow, user_message, prompt_vars, initial_messages, steps or Steps())
        if initial_messages is None:
            self.hear(state.messages)
        async with aclosing(self.drive(workflow, state, cancel_event=cancel_event)) as states:
            async for now in states:
                state = now
        return result_of(state)

    async def drive(
        self,
        workflow: Workflow,
        state: RunState,
        *,
        executor: Executor | None = None,
        cancel_event: asyncio.Event | None = None,
        run_id: str | None = None,
    ) -> AsyncGenerator[RunState]:
        """The states after `state`, each as soon as it is reached: what one who goes on from it has to know.

        Ends when the run has, or when it waits for calls that the executor leaves to somebody else: their outcomes are
        to be told by `executed`, and the rest driven anew. Raises like `run`.
        """
        executor = executor or CallableTools(workflow)
        run_id = run_id or uuid.uuid4().hex
        while state.ended is None:
            if state.batch is None:
                state = await self._ask(workflow, state, cancel_event, run_id)
                yield state
                continue
            calls, elsewhere = state.batch.calls, False
            for place in state.batch.open:
                self._check(cancel_event, state)
                outcome = await executor.execute(calls[place], f"{run_id}/{state.iteration}/{place}")
                if outcome is None:
                    elsewhere = True
                    continue
                state = self._heard(state, executed(state, place, outcome))
                yield state
            if elsewhere:
                return
            state = closed(state, workflow, self._limits)
            yield state

    async def _ask(
        self, workflow: Workflow, state: RunState, cancel_event: asyncio.Event | None, run_id: str
    ) -> RunState:
        """The state after one more answer of the model."""
        self._check(cancel_event, state)
        if state.iteration >= self._limits.max_iterations:
            pending = state.steps.pending(workflow.required_steps)
            raise MaxIterationsError(state.iteration, state.steps.completed, pending)
        watcher = StreamListener(self._on_chunk)
        try:
            state = await unless(cancel_event, self._asker.fit(workflow, state))
            answer = await unless(cancel_event, self._asker.ask(workflow, state, watcher, run_id))
        except Cancelled:
            raise self._cancelled(state) from None
        finally:
            if watcher.usage is not None and self._on_usage is not None:
                self._on_usage(watcher.usage)
        if isinstance(answer, Retry):
            await watcher.tell(StreamChunk(ChunkType.RETRY))
            return self._heard(state, corrected(state, answer.turn.added, answer.fault, held=answer.turn.held))
        calls = answer.settled.calls
        await watcher.tell(StreamChunk(ChunkType.FINAL, response=calls))
        # Heard of together: where the nudges are spent, nobody is told of a call that never gets a result.
        told = called(state, answer.settled, answer.reasoning)
        return self._heard(state, allowed(told, workflow, self._limits))

    def _heard(self, before: RunState, after: RunState) -> RunState:
        """The state after a move, once its messages were told of."""
        self.hear(after.messages[len(before.messages) :])
        return after

    def hear(self, messages: Sequence[Message]) -> None:
        """Tell `on_message` of messages: those that a run begins with, where it is driven and not `run`."""
        if self._on_message is not None:
            for message in messages:
                self._on_message(message)

    def _check(self, cancel_event: asyncio.Event | None, state: RunState) -> None:
        if cancel_event is not None and cancel_event.is_set():
            raise self._cancelled(state)

    def _cancelled(self, state: RunState) -> WorkflowCancelledError:
        return WorkflowCancelledError(interrupted(state), state.steps, state.iteration)


def result_of(state: RunState) -> Any:
    """What a run came to. Raises `TypeError` for one that waits for calls which nothing executes."""
    if state.ended is None:
        names = ", ".join(state.batch.calls[place].tool for place in state.batch.open) if state.batch else ""
        raise TypeError(f"nothing executes {names}: give each tool a callable, or use drive()")
    return state.ended.result


def _engine_over(client: LLMClient, *, stream: bool) -> Engine:
    return Engine(ClientBackend(client, stream=stream), MonotonicClock(), lambda _: None)
