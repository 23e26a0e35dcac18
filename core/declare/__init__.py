"""Declarations: what an op is, and the expressions of elementwise ones."""
