"""What ended the cell: errors of ops, of modules and of Python, with the line that brought them about."""
