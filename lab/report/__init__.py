"""From the trace of a cell to its record, and the record as tables and files."""
