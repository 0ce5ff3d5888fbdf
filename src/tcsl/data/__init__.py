"""What a dataset is, and the known ones."""
