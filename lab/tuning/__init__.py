"""`tune`: the command, the cells that hold a kernel of one's own, and what is shown of a session."""
