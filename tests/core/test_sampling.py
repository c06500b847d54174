"""Which recommendation matches a model name, and what is added to a request."""

from __future__ import annotations

import pytest

from forge_proxy.backends.sampling import read_recommendations
from forge_proxy.core.chat import ChatRequest, ModelCall, ResolvedModel
from forge_proxy.core.dialect import Dialect
from forge_proxy.core.jsontypes import Json
from forge_proxy.core.sampling import SamplingPolicy, UnsupportedModelError, find_recommendation
from forge_proxy.wire.backends.openai.request import encode_call

KNOWN = read_recommendations()


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("qwen3:8b", "Qwen3"),
        ("Qwen3-8B-Q4_K_M", "Qwen3"),
        ("Qwen/Qwen3-4B-Thinking-2507", "Qwen3"),
        ("Qwen3-30B-A3B-Instruct-2507-UD-Q4_K_XL.gguf", "Qwen3 Instruct 2507 (does not think)"),
        ("unsloth/Qwen3-Coder-30B-A3B-Instruct-GGUF", "Qwen3-Coder"),
        ("qwen3-coder:30b", "Qwen3-Coder"),
        ("qwen3.5:9b", None),
        ("qwen3-embedding", None),
        ("qwen2.5:7b-instruct", "Qwen2.5"),
        ("Mistral-Small-3.2-24B-Instruct-2506", "Mistral Small 3"),
        ("mistral-small:24b-instruct-2501-q4_K_M", "Mistral Small 3"),
        ("mistral-7b", None),
        ("openai/gpt-oss-20b", "gpt-oss"),
        ("gemma3:12b", "Gemma 3"),
        ("google_gemma-3-27b-it-Q8_0", "Gemma 3"),
        ("gemma3n:e4b", None),
        ("DeepSeek-R1-Distill-Qwen-7B", "DeepSeek-R1 distilled"),
        ("Meta-Llama-3.1-8B-Instruct", "Llama 3"),
        ("llama3.2", "Llama 3"),
        ("tiny-tools", None),
        ("", None),
    ],
)
def test_a_model_name_in_any_spelling_matches_its_family(model: str, family: str | None) -> None:
    found = find_recommendation(model, KNOWN)

    assert (found.family if found else None) == family


def test_the_error_for_an_unknown_model_lists_the_known_families() -> None:
    error = UnsupportedModelError("tiny-tools", [one.family for one in KNOWN])

    assert (error.model, error.known) == ("tiny-tools", tuple(one.family for one in KNOWN))


def test_every_recommendation_has_a_source() -> None:
    assert all(one.source and one.values for one in KNOWN)


@pytest.mark.parametrize(
    ("said", "llama", "sent"),
    [
        ({}, True, {"temperature": 0.6, "repeat_penalty": 1.05}),
        ({}, False, {"temperature": 0.6, "repetition_penalty": 1.05}),
        ({"temperature": 0}, True, {"temperature": 0, "repeat_penalty": 1.05}),
        ({"temperature": None, "repeat_penalty": 1}, True, {"temperature": 0.6, "repeat_penalty": 1}),
    ],
)
def test_the_clients_values_take_precedence(said: dict[str, Json], llama: bool, sent: dict[str, Json]) -> None:
    sampling: dict[str, Json] = {"temperature": 0.6, "repeat_penalty": 1.05}
    model = ResolvedModel(None, sampling=sampling)
    call = ModelCall(ChatRequest(said), stream=False, resolved=model, dialect=Dialect(llama_cpp=llama))

    assert encode_call(call) == sent
    assert call.request.body is said


@pytest.mark.parametrize(("said", "policy"), [(True, "on"), (False, "off"), ("on", "on"), ("off", "off")])
def test_yaml_booleans_are_accepted_as_on_and_off(said: object, policy: str) -> None:
    assert SamplingPolicy.model_validate({"defaults": said}).defaults == policy
