"""Answers whose content is a list of parts."""

from __future__ import annotations

import orjson

from forge_proxy.wire.backends.openai.response import decode_response


def test_text_parts_are_read_as_text() -> None:
    content = [{"type": "text", "text": "It is "}, {"type": "text", "text": "sunny."}, {"type": "thinking"}]

    chunk = decode_response(orjson.dumps({"choices": [{"delta": {"content": content}}]}))

    assert chunk.deltas[0].text == "It is sunny."
