"""Where the time goes, and what would save it."""
