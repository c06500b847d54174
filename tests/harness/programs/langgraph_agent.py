"""langchain-openai in a langgraph agent. Modes: invoke, stream."""

import sys

import tools
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI

mode, base_url, prompt = sys.argv[1:]
model = ChatOpenAI(model="scripted", base_url=base_url, api_key="none", streaming=mode == "stream")
agent = create_agent(model, list(tools.TOOLS.values()))
messages = {"messages": [{"role": "user", "content": prompt}]}
if mode == "invoke":
    print(agent.invoke(messages)["messages"][-1].content)
else:
    print("".join(piece.content for piece, _ in agent.stream(messages, stream_mode="messages") if piece.content))
