"""Verified remedies: patches for findings, tried in a fenced copy of the process, and judged."""
