"""Requests made up after our own description of the API, right ones and wrong ones: none may end in a 500."""
