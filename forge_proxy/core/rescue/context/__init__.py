"""Context of a possible call: in code, in a quotation, in reasoning, or in text for display only."""
