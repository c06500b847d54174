"""Model server protocols: encodes a `ModelCall`, decodes the response to chunks. One folder per API."""
