"""Selection rules: pure functions from scores and labels to the indices that are kept."""
