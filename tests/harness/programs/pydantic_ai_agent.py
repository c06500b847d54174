"""pydantic-ai. Modes: run, run_stream."""

import asyncio
import sys

import tools
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

mode, base_url, prompt = sys.argv[1:]
model = OpenAIChatModel("scripted", provider=OpenAIProvider(base_url=base_url, api_key="none"))
agent = Agent(model, tools=list(tools.TOOLS.values()))


async def main():
    if mode == "run":
        print((await agent.run(prompt)).output)
    else:
        async with agent.run_stream(prompt) as ran:
            print(await ran.get_output())


asyncio.run(main())
