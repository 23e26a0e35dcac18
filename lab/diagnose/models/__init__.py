"""What stands in a forward(): layers, attention, recurrent states, and the order of dimensions."""
