"""Where in a text a possible call stands: in code, in a quotation, in reasoning, in text for display only."""
