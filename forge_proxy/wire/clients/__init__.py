"""What clients speak: requests are decoded to core types, responses encoded from them. One folder for each API."""
