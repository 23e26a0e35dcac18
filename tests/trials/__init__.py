"""Blind trials of the card: notebooks made from people's own threads, by hands that had not seen the rules."""
