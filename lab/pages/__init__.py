"""`python -m lab docs`: the documentation as a site of static pages. See `lab.pages.command`."""
