"""The tuner. `space` says what may be tuned; it knows neither Triton nor Jupyter."""
