"""Ollama's API (`/api/chat`, `/api/generate`, `/api/embed`, `/api/tags`, …) for clients."""
