"""What the real openai SDK and hostile requests are answered by the embedded model, a real Ollama answers too."""

from tests.live.test_guarding import *  # noqa: F403
from tests.live.test_hostile_requests import *  # noqa: F403
from tests.live.test_openai_sdk import *  # noqa: F403
