"""Runs a workflow to its end: calls the model, executes its tool calls and returns their results to it.

`WorkflowRunner.run` is for Python programs; `drive` yields the state after each step, for code that stores it.
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
    apply_calls,
    apply_correction,
    apply_outcome,
    begin_run,
    check_order,
    close_batch,
    close_open_calls,
)
from forge_proxy.core.workflow.steps import Steps
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.clock import MonotonicClock
from forge_proxy.engine.config import EngineConfig
from forge_proxy.jobs.cancellation import Cancelled, run_cancellable
from forge_proxy.workflows.context import ContextManager
from forge_proxy.workflows.iterations import IterationRunner
from forge_proxy.workflows.sdk.client import ChunkType, LLMClient, StreamChunk
from forge_proxy.workflows.sdk.client_backend import ClientBackend
from forge_proxy.workflows.sdk.engine_client import EngineClient
from forge_proxy.workflows.stream_listener import StreamListener
from forge_proxy.workflows.tools import CallableTools, CallExecutor

OnChunk = Callable[[StreamChunk], Awaitable[None]]
OnMessage = Callable[[Message], None]
OnUsage = Callable[[JsonObject], None]


class WorkflowRunner:
    """The agentic loop over one model.

    `client` is an `Engine`, an `EngineClient`, or a custom `LLMClient`. Each response of the model is one iteration,
    valid or not; plain text is never accepted. With `stream`, `on_chunk` is awaited for each piece of a response as it
    is generated, before it is validated. `on_message` is called with each message that is added. `options` are request
    fields for the model server, such as `temperature`. `guardrails` selects the guardrails, instead of
    `rescue_enabled`: if calls are not validated, they reach the tools unchanged. `on_usage` is called with the usage of
    each response, as the model server reports it.
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
            raise TypeError("on_message: expected a function that is not async: it is called, not awaited")
        engine = client if isinstance(client, Engine | EngineClient) else _wrap_client(client, stream=stream)
        if isinstance(client, EngineClient):
            model, options = model or client.model, {**client.options, **(options or {})}
        # A call is required, so the `respond` tool is never added; with every switch off nothing would be judged.
        switches = (guardrails or Switches(rescue=rescue_enabled)).model_copy(update={"respond": True})
        policy = GuardPolicy(enabled=switches, on_exhausted="error")
        retries = max_retries_per_step if switches.retry else 0
        self._limits = Limits(max_iterations, retries, max_tool_errors)
        self._iterations = IterationRunner(engine, context_manager, policy, self._limits, model, options or no_fields())
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
        """Run a workflow and return the result of the terminal tool that ends it.

        `initial_messages` replace the system prompt and `user_message` and must contain both; `steps` are the steps
        already completed, if a run is resumed (`WorkflowCancelledError.steps`). When `cancel_event` is set, a
        generation in progress is stopped and a running tool is awaited.

        Raises `MaxIterationsError`, `ToolCallError`, `ToolExecutionError`, `StepEnforcementError`,
        `PrerequisiteError`, `WorkflowCancelledError`, `StreamError`, `ContextBudgetExceeded`, or a `BackendFault`.
        """
        state = begin_run(workflow, user_message, prompt_vars, initial_messages, steps or Steps())
        if initial_messages is None:
            self.report_messages(state.messages)
        async with aclosing(self.drive(workflow, state, cancel_event=cancel_event)) as states:
            async for now in states:
                state = now
        return result_of(state)

    async def drive(
        self,
        workflow: Workflow,
        state: RunState,
        *,
        executor: CallExecutor | None = None,
        cancel_event: asyncio.Event | None = None,
        run_id: str | None = None,
    ) -> AsyncGenerator[RunState]:
        """Yield each state after `state` as soon as it is reached; the run can be resumed from any of them.

        Ends when the run ends, or when it waits for calls that the executor does not execute itself: add their
        outcomes by `apply_outcome`, then call `drive` again. Raises like `run`.
        """
        executor = executor or CallableTools(workflow)
        run_id = run_id or uuid.uuid4().hex
        while state.ended is None:
            if state.batch is None:
                state = await self._request_response(workflow, state, cancel_event, run_id)
                yield state
                continue
            calls, is_waiting = state.batch.calls, False
            for place in state.batch.open:
                self._check_cancelled(cancel_event, state)
                outcome = await executor.execute(calls[place], f"{run_id}/{state.iteration}/{place}")
                if outcome is None:
                    is_waiting = True
                    continue
                state = self._report_added(state, apply_outcome(state, place, outcome))
                yield state
            if is_waiting:
                return
            state = close_batch(state, workflow, self._limits)
            yield state

    async def _request_response(
        self, workflow: Workflow, state: RunState, cancel_event: asyncio.Event | None, run_id: str
    ) -> RunState:
        """Return the state after one more response of the model."""
        self._check_cancelled(cancel_event, state)
        if state.iteration >= self._limits.max_iterations:
            pending = state.steps.pending(workflow.required_steps)
            raise MaxIterationsError(state.iteration, state.steps.completed, pending)
        listener = StreamListener(self._on_chunk)
        try:
            state = await run_cancellable(cancel_event, self._iterations.fit_context(workflow, state))
            work = self._iterations.request_response(workflow, state, listener, run_id)
            response = await run_cancellable(cancel_event, work)
        except Cancelled:
            raise self._cancelled_error(state) from None
        finally:
            if listener.usage is not None and self._on_usage is not None:
                self._on_usage(listener.usage)
        if isinstance(response, Retry):
            await listener.notify(StreamChunk(ChunkType.RETRY))
            turn = response.turn
            return self._report_added(
                state, apply_correction(state, turn.added, response.fault, held=turn.constrains_decoding)
            )
        calls = response.answer.calls
        await listener.notify(StreamChunk(ChunkType.FINAL, response=calls))
        # Reported together: if the nudges are exhausted, `on_message` never receives a call without a result.
        state_with_call = apply_calls(state, response.answer, response.reasoning)
        return self._report_added(state, check_order(state_with_call, workflow, self._limits))

    def _report_added(self, before: RunState, after: RunState) -> RunState:
        """Report the messages that a step added, and return its state."""
        self.report_messages(after.messages[len(before.messages) :])
        return after

    def report_messages(self, messages: Sequence[Message]) -> None:
        """Pass messages to `on_message`; for the initial messages of a run that `drive` runs instead of `run`."""
        if self._on_message is not None:
            for message in messages:
                self._on_message(message)

    def _check_cancelled(self, cancel_event: asyncio.Event | None, state: RunState) -> None:
        if cancel_event is not None and cancel_event.is_set():
            raise self._cancelled_error(state)

    def _cancelled_error(self, state: RunState) -> WorkflowCancelledError:
        return WorkflowCancelledError(close_open_calls(state), state.steps, state.iteration)


def result_of(state: RunState) -> Any:
    """Return the result of a run. Raises `TypeError` if it waits for calls that nothing executes."""
    if state.ended is None:
        names = ", ".join(state.batch.calls[place].tool for place in state.batch.open) if state.batch else ""
        raise TypeError(f"nothing executes {names}: give each tool a callable, or use drive()")
    return state.ended.result


def _wrap_client(client: LLMClient, *, stream: bool) -> Engine:
    return Engine(EngineConfig(ClientBackend(client, stream=stream), MonotonicClock(), lambda _: None))
