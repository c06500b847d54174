"""The guardrails before a real Ollama that has the prompt the tiny model was trained on.

In a Go template the arguments of a tool stand in the order of their names, which such a small model does not follow.
"""

import pytest

from tests.live.test_guarding import *  # noqa: F403

pytestmark = pytest.mark.parametrize("running", [False], indirect=True, ids=["gguf-template"], scope="session")
