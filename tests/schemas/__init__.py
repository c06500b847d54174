"""Requests generated from the daemon's own API description, valid and invalid ones: none may end in a 500."""
