"""The clients: a module for each, and the rows of the table in their order."""

from __future__ import annotations

from tests.harness.client import Client
from tests.harness.clients import (
    aider,
    cline,
    continue_cli,
    instructor,
    langgraph,
    litellm,
    llm,
    mini_swe_agent,
    openai_agents,
    openai_node,
    openai_python,
    opencode,
    pi,
    pydantic_ai,
    qwen_code,
    smolagents,
)

CLIENTS: tuple[Client, ...] = (
    *openai_python.ROWS,
    *openai_node.ROWS,
    *openai_agents.ROWS,
    *pydantic_ai.ROWS,
    *langgraph.ROWS,
    *litellm.ROWS,
    *instructor.ROWS,
    *aider.ROWS,
    *opencode.ROWS,
    *qwen_code.ROWS,
    *pi.ROWS,
    *cline.ROWS,
    *continue_cli.ROWS,
    *llm.ROWS,
    *smolagents.ROWS,
    *mini_swe_agent.ROWS,
)
