"""The tuner in a real JupyterLab where things go wrong: two notebooks at one problem, a browser that is killed."""

from __future__ import annotations

import re
import sqlite3
import time

import pytest
from playwright.sync_api import expect

from .test_tuner_panel import tried

SETUP = """import os; os.environ['XDG_DATA_HOME'] = {!r}
%load_ext lab
import lab.notebook.panel"""
COMMAND = "%tune matmul_f32 96x96x96 float32 --budget {}s"
WAIT = "result = lab.notebook.panel.latest.wait(90); print('ended', result.ended, result.verdict)"


def kept(folder):
    """Of the database: trials, sessions, those with an end, claims, configs tried twice, whether it is whole."""
    base = sqlite3.connect(folder / "gradlab" / "tuning" / "tuning.db")
    try:
        counts = [base.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
                  for table in ("trial", "session", "outcome", "claim")]  # fmt: skip
        twice = base.execute("SELECT count(*) FROM (SELECT 1 FROM trial GROUP BY config HAVING count(*) > 1)")
        whole = base.execute("PRAGMA integrity_check").fetchone()[0]
        return [*counts, twice.fetchone()[0], whole]
    finally:
        base.close()


@pytest.mark.by_turns
def test_two_notebooks_at_once_lose_nothing(notebook, tmp_path):
    both = [notebook(SETUP.format(str(tmp_path)), COMMAND.format(9), WAIT) for _ in range(2)]
    for nb in both:
        nb.run(0)
    for nb in both:
        nb.run(1)
    said = 0
    for nb in both:
        panel = nb.output(1)
        expect(panel.locator(".state")).to_have_text("Tuned", timeout=90_000)
        figures = panel.locator(".figures").inner_text()
        said += int(re.search(r"(\d+) of 22,200 configs tried", figures)[1])
    trials, sessions, ended, claims, twice, whole = kept(tmp_path)
    assert (sessions, ended, claims, whole) == (2, 2, 0, "ok")
    assert trials >= said - 2  # what one has heard of the other is in both panels
    assert twice <= 1  # the default, without which neither knows what a time means
    assert all(nb.watched.errors == [] for nb in both)


@pytest.mark.by_turns
def test_a_killed_browser_ends_no_session(notebook, tmp_path):
    nb = notebook(SETUP.format(str(tmp_path)), COMMAND.format(15), WAIT)
    nb.run(0)
    nb.run(1)
    before, _ = tried(nb.output(1))
    nb.save()
    nb.page.context.close()  # as when it is killed: nothing is said to the kernel
    began, seen = time.monotonic(), []
    while time.monotonic() - began < 60:
        seen = kept(tmp_path)
        if seen[2]:
            break
        time.sleep(0.5)
    trials, sessions, ended, claims, _, whole = seen
    assert (sessions, ended, claims, whole) == (1, 1, 0, "ok")
    assert trials >= before
    again = notebook(path=nb.path)
    again.run(2)  # the kernel is the same, and has the result
    expect(again.output(2)).to_contain_text(re.compile("ended (budget|complete)"), timeout=60_000)
    again.run(0)
    again.run(1)
    expect(again.output(1).locator(".state")).to_have_text("Tuned", timeout=90_000)
    expect(again.output(1)).to_contain_text("known from earlier runs")
    again.output(1).get_by_role("tab", name="History").click()
    expect(again.output(1).locator(".standing tbody tr")).to_have_count(2)
