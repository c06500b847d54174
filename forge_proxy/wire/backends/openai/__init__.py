"""OpenAI's chat completions API, as model servers speak it."""
