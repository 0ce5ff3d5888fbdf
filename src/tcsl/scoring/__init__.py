"""Scores: higher is harder, for every score in the package; only a selection rule sorts."""
