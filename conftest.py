"""For every test of this tree, wherever pytest is started: what plain `pytest` runs, and `pytest --all`."""

pytest_plugins = ["tests.thinning"]
