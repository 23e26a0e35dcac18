"""What a user starts: a recording, a count of ops, a walk backward."""
