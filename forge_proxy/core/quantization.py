"""The quantization of a model, as far as its server reports it or its name contains it."""

from __future__ import annotations

import re
from functools import lru_cache

from forge_proxy.core.jsontypes import JsonObject, is_object

_IN_NAME = re.compile(
    r"(?<![a-z0-9])((?:UD-)?I?Q[1-8](?:_[0-9KMSLX]{1,3}){1,2}|IQ[1-4]_[A-Z]{1,3}|TQ[12]_0|MXFP4(?:_MOE)?|NVFP4"
    r"|BF16|F(?:P)?(?:16|32)|FP8|AWQ|GPTQ(?:-INT[48])?|INT[48])(?![a-z0-9])",
    re.IGNORECASE,
)
"""The names that llama.cpp, vLLM and the publishers of model files use."""


def find_quantization(name: str, details: JsonObject) -> str:
    """Return the quantization of a model in capitals, such as `Q4_K_M`; empty if unknown.

    Ollama reports it in the model's details; others have it in the name of the model or its file.
    """
    reported = details.get("details")
    level = reported.get("quantization_level") if is_object(reported) else None
    if isinstance(level, str) and level and level != "unknown":
        return level.upper()[:32]
    return _find_in_name(name)


@lru_cache(maxsize=256)
def _find_in_name(name: str) -> str:
    found = _IN_NAME.search(name)
    return found[1].upper() if found else ""
