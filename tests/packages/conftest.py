"""The programs are run by the table, each in a process of its own."""

collect_ignore_glob = ["with_*.py", "told.py", "forked.py"]
