"""openai-agents with a chat completions model. Modes: run, run_streamed."""

import asyncio
import sys

import tools
from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool
from openai import AsyncOpenAI

mode, base_url, prompt = sys.argv[1:]
model = OpenAIChatCompletionsModel("scripted", AsyncOpenAI(base_url=base_url, api_key="none"))
agent = Agent("worker", tools=[function_tool(tool) for tool in tools.TOOLS.values()], model=model)


async def main():
    if mode == "run":
        ran = await Runner.run(agent, prompt)
    else:
        ran = Runner.run_streamed(agent, prompt)
        async for _ in ran.stream_events():
            pass
    print(ran.final_output)


asyncio.run(main())
