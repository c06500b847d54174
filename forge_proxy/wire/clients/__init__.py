"""Client protocols: decodes requests to core types, encodes responses from them. One folder per API.

A folder has `request.py` (`decode_request`: JSON to `ChatRequest`), `response.py` (`Chunk` and `Completion` to bytes),
`models.py` and `errors.py`. For all of them, `body.py` parses a request body and `fields.py` validates its fields.
"""
