"""Context of a position: the code around it, text for display only, brackets to skip, and the offered tools."""
