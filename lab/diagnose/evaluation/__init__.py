"""How a model is judged: modes, counts, means over batches, and which model is kept."""
