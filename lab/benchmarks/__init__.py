"""`python -m lab bench`: measurements, as ratios of things timed in turn."""
