"""Methods: one file each, from a training set to a final model."""
