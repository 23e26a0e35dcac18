"""What observers are told, and where values came from."""
