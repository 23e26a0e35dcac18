"""Mutation testing: random small faults in the sources, and whether the tests notice them."""
