"""What cuts the graph, and which parameters get no gradient."""
