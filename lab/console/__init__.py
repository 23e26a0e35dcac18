"""What commands and magics share: options, and an output that is updated in place."""
