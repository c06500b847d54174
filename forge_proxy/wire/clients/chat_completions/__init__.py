"""OpenAI's chat completions API (`/v1/chat/completions`, `/v1/models`) for clients."""
