"""Packages that are written for PyTorch, unchanged from PyPI, on core: each program beside PyTorch."""
