"""What a run shows: its figures, and how it looks in a notebook."""
