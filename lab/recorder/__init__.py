"""What a cell does, gathered while it runs: rows of ops, leaves, gradients, times, memory."""
