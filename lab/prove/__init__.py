"""Verified remedies: patches for findings, tried in a fenced copy of the process, judged by a criterion of their kind."""
