"""Ollama's native API: `/api/chat`, and the routes that list and describe models."""
