"""Losses: what they are given, their signs and shapes, and formulas written by hand."""
