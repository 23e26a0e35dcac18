"""Variants of a model, in fewer bits or with fewer channels, measured beside it. See `lab.shrinking.shrink`."""
