"""The quantization of a model, from its server's details or from its name."""

from __future__ import annotations

import pytest

from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.quantization import find_quantization


@pytest.mark.parametrize(
    ("name", "quantization"),
    [
        ("Qwen3-8B-Q4_K_M.gguf", "Q4_K_M"),
        ("unsloth/Qwen3-30B-A3B-GGUF:UD-Q4_K_XL", "UD-Q4_K_XL"),
        ("gpt-oss-20b-mxfp4", "MXFP4"),
        ("model.iq3_xxs", "IQ3_XXS"),
        ("Mistral-Small-Q8_0", "Q8_0"),
        ("llama-bf16", "BF16"),
        ("Qwen2.5-7B-Instruct-AWQ", "AWQ"),
        ("Qwen3-8B-FP8", "FP8"),
        ("Llama-3.1-8B-GPTQ-INT4", "GPTQ-INT4"),
        ("qwen3:8b", ""),
        ("prefixQ4_K_M2", ""),
        ("", ""),
    ],
)
def test_the_name(name: str, quantization: str) -> None:
    assert find_quantization(name, {}) == quantization


@pytest.mark.parametrize(
    ("details", "quantization"),
    [
        ({"details": {"quantization_level": "Q6_K"}}, "Q6_K"),
        ({"details": {"quantization_level": "unknown"}}, "Q4_0"),
        ({"details": {"quantization_level": 4}}, "Q4_0"),
        ({"details": "Q6_K"}, "Q4_0"),
    ],
)
def test_what_the_server_reports_comes_first(details: JsonObject, quantization: str) -> None:
    assert find_quantization("m-q4_0", details) == quantization
