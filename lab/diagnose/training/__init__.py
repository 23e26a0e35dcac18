"""The training step: its order, its rates and schedules, start values, and what it forgets."""
