"""Model server protocols: encodes a `ModelCall`, decodes the response to chunks. One folder per API.

A folder has `request.py` (`encode_call`), `stream.py` (a reader that takes bytes and returns chunks), `response.py`,
`models.py` and `errors.py`. `responses.py` is the base of the readers.
"""
