"""Random numbers: the engines, and generators that hold their state."""
