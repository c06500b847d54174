"""OpenAI's chat completions API, as clients speak it."""
