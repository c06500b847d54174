"""The wire protocols: converts bytes and JSON to core types and back. Pure: no I/O, no clock, no asyncio.

`clients/` has a folder for each API that clients use, `backends/` one for each API that model servers use. A folder
decodes what it receives (`request.py` or `response.py`, `stream.py`, `models.py`, `errors.py`) and encodes what it
sends. The modules here are shared: event streams, large JSON, the message history of a chat request.
"""
