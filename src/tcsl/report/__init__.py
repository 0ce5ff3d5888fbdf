"""What a run shows: its page, its figures, and how it looks in a notebook."""
