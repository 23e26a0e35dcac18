"""What everything stands on: errors, dtypes, devices, shapes, modes, places in the source."""
