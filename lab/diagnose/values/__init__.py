"""Numbers: NaN and infinities, digits that are lost, sizes that grow."""
