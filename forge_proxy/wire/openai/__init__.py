"""The OpenAI chat completions dialect, both ways."""
