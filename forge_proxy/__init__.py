"""forge-proxy: an OpenAI-compatible daemon that makes a self-hosted model's tool calling dependable."""

__version__ = "0.1.0"
