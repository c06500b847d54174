"""Client protocols: decodes requests to core types, encodes responses from them. One folder per API."""
