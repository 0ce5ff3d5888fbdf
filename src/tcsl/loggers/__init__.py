"""Loggers: what a run reports, sent to the tools that people already have. `base.py` says what a logger is."""
