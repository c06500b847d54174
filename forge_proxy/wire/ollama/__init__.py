"""Ollama's own dialect, `/api/chat` and what stands around it: JSON and lines of JSON to core types, and back."""
