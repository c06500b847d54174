"""What the real openai SDK, and hostile requests, ask of the embedded model is asked of a real Ollama too."""

from tests.live.test_hostile_requests import *  # noqa: F403
from tests.live.test_openai_sdk import *  # noqa: F403

# Ollama hands on a call whole, the one of our own tool too: its message comes at once.
del test_a_streamed_conversation_goes_from_call_to_result_to_text  # noqa: F821
# Its model has a tag: see test_ollama.py.
del test_the_model_is_listed_with_its_window  # noqa: F821
