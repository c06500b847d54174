"""The tests of the embedded model with the real openai SDK, and with hostile requests, against a real Ollama."""

from tests.live.test_hostile_requests import *  # noqa: F403
from tests.live.test_openai_sdk import *  # noqa: F403

# Ollama delivers a call whole, also one of the `respond` tool: its message comes at once.
del test_a_streamed_conversation_goes_from_call_to_result_to_text  # noqa: F821
# Its model has a tag: see test_ollama.py.
del test_the_model_is_listed_with_its_window  # noqa: F821
