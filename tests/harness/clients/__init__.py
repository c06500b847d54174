"""The clients: a module for each, and the rows of the table in their order."""

from __future__ import annotations

from tests.harness.client import Client
from tests.harness.clients import (
    aider,
    anthropic_sdk,
    claude_code,
    cline,
    codex,
    continue_cli,
    instructor,
    langgraph,
    litellm,
    llm,
    llm_ollama,
    mini_swe_agent,
    ollama_python,
    openai_agents,
    openai_node,
    openai_python,
    openai_responses,
    opencode,
    pi,
    pydantic_ai,
    qwen_code,
    smolagents,
)

CLIENTS: tuple[Client, ...] = (
    *openai_python.ROWS,
    *openai_responses.ROWS,
    *anthropic_sdk.ROWS,
    *ollama_python.ROWS,
    *openai_node.ROWS,
    *openai_agents.ROWS,
    *pydantic_ai.ROWS,
    *langgraph.ROWS,
    *litellm.ROWS,
    *instructor.ROWS,
    *aider.ROWS,
    *codex.ROWS,
    *claude_code.ROWS,
    *opencode.ROWS,
    *qwen_code.ROWS,
    *pi.ROWS,
    *cline.ROWS,
    *continue_cli.ROWS,
    *llm.ROWS,
    *llm_ollama.ROWS,
    *smolagents.ROWS,
    *mini_swe_agent.ROWS,
)
