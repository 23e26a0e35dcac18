"""Data sets, splits, batches, samplers, and what is done to samples."""
