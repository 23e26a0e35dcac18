"""What rules read of the user's text: its sources, what variables hold where they are read, calls and losses."""
