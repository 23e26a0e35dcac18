"""What is no test here."""

collect_ignore = ["worker_program.py"]  # a program without a guard, which runs when it is imported
