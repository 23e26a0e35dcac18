"""Jupyter's side: the magics, the tuner's panel, a card's buttons, shorter tracebacks."""
