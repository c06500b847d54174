"""The guardrails in front of a real Ollama with the prompt that the tiny model was trained on.

A Go template renders the arguments of a tool in the order of their names, which such a small model does not follow.
"""

import pytest

from tests.live.test_guarding import *  # noqa: F403

pytestmark = pytest.mark.parametrize("running", [False], indirect=True, ids=["gguf-template"], scope="session")
