"""What the model server answers in the transcripts, for each API that it may have."""

from __future__ import annotations

import json
from dataclasses import replace

from tests.contracts.messages_recordings import MESSAGES_RECORDINGS
from tests.contracts.ollama_recordings import OLLAMA_RECORDINGS
from tests.contracts.recordings import RECORDINGS
from tests.fakes.says import Said, respond
from tests.transcripts.server import EVENTS, JSON, LINES, Reply

NATIVE = Said(calls=(("get_weather", '{"city": "Paris", "days": 2}'),))
PLAIN = Said("It is sunny in Paris.")

SEQUENCES: dict[str, tuple[Said, ...]] = {
    "plain text": (PLAIN, PLAIN),
    "plain text five times": (PLAIN,) * 5,
    "plain text, then a call": (PLAIN, NATIVE),
    "plain text, then 500": (PLAIN, *(Said(status=500, body={"error": {"message": "boom"}}),) * 2),
    "another tool, then that one": (NATIVE, Said(calls=(("get_time", "{}"),))),
    "native call": (NATIVE,),
    "two native calls": (Said(calls=(*NATIVE.calls, ("get_time", "{}"))),),
    "text before a call": (Said("Let me look.", calls=NATIVE.calls),),
    "reasoning and a call": (Said(calls=NATIVE.calls, reasoning="The user wants the weather."),),
    "reasoning and text": (Said("Sunny.", reasoning="The user wants the weather."), respond("Sunny.")),
    "reasoning in the text": (Said("<think>The user wants the weather.</think>Sunny."), respond("Sunny.")),
    "respond": (respond("It is sunny."),),
    "Hermes markup": (Said('<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</tool_call>'),),
    "Qwen markup": (
        Said("<tool_call><function=get_weather><parameter=city>Paris</parameter></function></tool_call>"),
    ),
    "Mistral markup": (Said('[TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Paris"}}]'),),
    "fenced JSON": (Said('```json\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n```'),),
    "broken markup, then a call": (Said('<tool_call>{"name": "get_weather", "arguments": {"city": '), NATIVE),
    "unknown tool, then a call": (Said(calls=(("get_wether_now", '{"city": "Paris"}'),)), NATIVE),
    "misspelt tool": (Said(calls=(("Get_Weather", '{"city": "Paris"}'),)),),
    "number as text": (Said(calls=(("get_weather", '{"city": "Paris", "days": "2"}'),)),),
    "wrong type, then a call": (Said(calls=(("get_weather", '{"city": "Paris", "days": "many"}'),)), NATIVE),
    "missing argument, then a call": (Said(calls=(("get_weather", "{}"),)), NATIVE),
    "broken arguments, repaired": (Said(calls=(("get_weather", "{'city': 'Paris', days: 2,}"),)),),
    "wrong to the end": (Said(calls=(("get_weather", '{"days": "many"}'),)),) * 4,
    "nothing, then text": (Said(""), PLAIN, PLAIN),
    "nothing to the end": (Said(""),) * 4,
    "cut text": (Said("It is sun", finish="length"),) * 4,
    "complete call with length": (Said(calls=NATIVE.calls, finish="length"),),
    "cut call, then a call": (Said(calls=(("get_weather", '{"city": "Par'),), finish="length"), NATIVE),
    "text that repeats": (Said("again and again " * 60), PLAIN, PLAIN),
    "lost, then a call": (Said("It is", breaks_off=True), NATIVE),
    "500": (Said(status=500, body={"error": {"message": "boom", "type": "server_error"}}),),
    "429": (Said(status=429, body={"error": {"message": "slow down", "type": "rate_limit"}}),),
    "401": (Said(status=401, body={"error": {"message": "no key", "type": "auth"}}),),
    "400 of the form": (Said(status=400, body={"error": {"message": "tools param requires --jinja flag"}}), PLAIN),
    "overflow": (
        Said(
            status=400,
            body={"error": {"code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": 9000, "n_ctx": 8192,
                            "message": "the request exceeds the available context size"}},
        ),
    ),
}  # fmt: skip
"""The model's responses, by the feature that they test."""


def openai_replies(sequence: tuple[Said, ...], *, stream: bool) -> tuple[Reply, ...]:
    """These responses as an OpenAI-compatible server sends them to requests with that `stream`."""
    return tuple(_openai_reply(said, stream=stream) for said in sequence)


def _openai_reply(said: Said, *, stream: bool) -> Reply:
    said = replace(said, piece=12)  # enough cuts inside words and markup, without hundreds of events for each
    if said.status != 200:
        return Reply(json.dumps(said.body).encode(), status=said.status)
    body = said.as_stream() if stream else said.as_whole()
    return Reply(body, EVENTS if stream else JSON, is_complete=not said.breaks_off)


def recorded_replies(kind: str, *, stream: bool) -> dict[str, Reply]:
    """The recorded responses of real servers of a kind, by name."""
    recordings = {"openai": RECORDINGS, "anthropic": MESSAGES_RECORDINGS, "ollama": OLLAMA_RECORDINGS}[kind]
    streamed = LINES if kind == "ollama" else EVENTS
    return {
        one.name: Reply(one.streamed, streamed) if stream else Reply(one.whole) for one in recordings
    }  # fmt: skip
