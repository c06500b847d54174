"""Reports on results: text, Markdown, HTML, and comparisons of two configurations."""
