"""Results for people: as text, as Markdown, as a page, and two of them compared."""
