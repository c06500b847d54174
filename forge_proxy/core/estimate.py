"""About how many tokens a prompt has, for model servers that cannot count. Pure."""

from __future__ import annotations

from forge_proxy.core.jsontypes import Json, is_list, is_object

_CHARACTERS_A_TOKEN = 4
"""Of English text and JSON in the usual tokenizers; of code and other languages it is fewer."""
_MEDIA = frozenset({"image_url", "input_audio", "file"})


def estimate_tokens(*parts: Json) -> int:
    """A quarter of the characters of all texts and names in messages and tools. Pictures and sound count nothing."""
    characters = 0
    left: list[Json] = [*parts]
    while left:
        value = left.pop()
        if isinstance(value, str):
            characters += len(value)
        elif is_list(value):
            left += value
        elif is_object(value):
            characters += sum(map(len, value))
            left += [inner for key, inner in value.items() if key not in _MEDIA]
    return characters // _CHARACTERS_A_TOKEN
