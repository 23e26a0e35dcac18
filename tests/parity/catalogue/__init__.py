"""Every function that PyTorch documents, run under PyTorch and under `core`: ``python -m tests.parity.catalogue``."""
