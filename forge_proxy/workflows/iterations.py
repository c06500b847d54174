"""Runs one iteration of a run: fits the messages into the context and returns a valid call or a reason to retry."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing

from forge_proxy.core.backend_errors import ContextOverflow, UnreadCall
from forge_proxy.core.budget_errors import ContextBudgetExceeded
from forge_proxy.core.chat import ChatRequest
from forge_proxy.core.errors import ToolCallInvalid, ToolChoiceUnsatisfied
from forge_proxy.core.estimate import estimate_tokens
from forge_proxy.core.guardrails import GuardPolicy, Retry
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.messages import Message
from forge_proxy.core.workflow.definition import Workflow
from forge_proxy.core.workflow.errors import ToolCallError
from forge_proxy.core.workflow.run import Limits, RunState
from forge_proxy.engine.answer import AttemptResult, Engine
from forge_proxy.workflows.context import ContextManager
from forge_proxy.workflows.requests import build_request, build_turn
from forge_proxy.workflows.sdk.engine_client import EngineClient
from forge_proxy.workflows.stream_listener import StreamListener


class IterationRunner:
    """Runs iterations through an engine. It holds what is the same for all iterations of all runs."""

    def __init__(
        self,
        engine: Engine | EngineClient,
        context_manager: ContextManager | None,
        policy: GuardPolicy,
        limits: Limits,
        model: str | None,
        options: JsonObject,
    ) -> None:
        self._engine = engine
        self._context = context_manager
        self._policy = policy
        self._limits = limits
        self._model = model
        self._options = options
        self._tool_tokens: tuple[Workflow, int] | None = None

    async def fit_context(self, workflow: Workflow, state: RunState) -> RunState:
        """Return the state with messages that fit the context. Raises `ContextBudgetExceeded` if that is impossible."""
        context = self._context
        if context is None:
            return state

        async def count(messages: Sequence[Message]) -> int | None:
            return await self._engine.count(self._request(workflow, messages))

        tool_tokens = self._estimate_tool_tokens(workflow)
        hint = state.steps.summary_hint()
        kept = await context.maybe_compact_counted(state.messages, count, state.iteration, hint, tool_tokens)
        if context.is_over_budget(kept, tool_tokens):
            tokens, tokens_after = (context.estimate_tokens(these, tool_tokens) for these in (state.messages, kept))
            reason, shortened = "that of the run's context", tokens_after if kept != state.messages else None
            raise ContextBudgetExceeded(tokens, context.budget_tokens, reason, exact=False, shortened=shortened)
        return state.with_messages(kept)

    async def request_response(
        self, workflow: Workflow, state: RunState, listener: StreamListener, run_id: str
    ) -> Retry | AttemptResult:
        """Run one attempt and return its result.

        Raises `ToolCallError` if no retries are left, or like `Engine.attempt`.
        """
        attempts = state.retries + 1
        try:
            result = await self._attempt(workflow, state, listener, run_id)
        except ToolChoiceUnsatisfied as error:  # the program did not set a tool_choice, so it gets a ToolCallError
            names = ", ".join(workflow.tools)
            why = (
                f"no call of {names} in {attempts} response{'s' if attempts > 1 else ''}; raw_response is the last one"
            )
            raise ToolCallError(why, listener.text, error, attempts) from error
        except ToolCallInvalid as error:
            raise ToolCallError(str(error), listener.text, error, attempts) from error
        except UnreadCall as error:
            raise ToolCallError(str(error), error.written, error, attempts) from error
        except ContextOverflow as error:
            if self._context is None or error.tokens is None:
                raise
            raise ContextBudgetExceeded(
                error.tokens, error.window or self._context.budget_tokens, "the model server's window", exact=True
            ) from error
        if self._context is not None and listener.prompt_tokens is not None:
            self._context.observe_usage(state.messages, listener.prompt_tokens, self._estimate_tool_tokens(workflow))
        return result

    async def _attempt(
        self, workflow: Workflow, state: RunState, listener: StreamListener, run_id: str
    ) -> Retry | AttemptResult:
        request = self._request(workflow, state.messages)
        turn = build_turn(request, self._policy, state, self._limits, run_id)
        result: Retry | AttemptResult | None = None
        async with aclosing(self._engine.attempt(request, turn, run_id=run_id)) as events:
            async for event in events:
                if isinstance(event, Retry | AttemptResult):
                    result = event
                else:
                    await listener.process(event)
        if result is None:
            raise AssertionError("an attempt ended without a result")
        return result

    def _request(self, workflow: Workflow, messages: Sequence[Message]) -> ChatRequest:
        return build_request(workflow, messages, self._model, self._options)

    def _estimate_tool_tokens(self, workflow: Workflow) -> int:
        """Return the estimated tokens of the tools, which are the same for each iteration of a run."""
        if self._tool_tokens is None or self._tool_tokens[0] is not workflow:
            specs = workflow.get_tool_specs()
            tokens = sum(estimate_tokens(spec.name, spec.description, spec.parameters) for spec in specs)
            self._tool_tokens = workflow, tokens
        return self._tool_tokens[1]
