"""The OpenAI dialect over HTTP."""
