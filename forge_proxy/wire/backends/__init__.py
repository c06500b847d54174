"""What model servers speak: encodes a `ModelCall`, decodes the response to chunks. One folder for each API."""
