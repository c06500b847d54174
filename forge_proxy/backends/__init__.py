"""Adapters for model servers, over HTTP or as child processes. An adapter yields chunks and does not judge them."""
