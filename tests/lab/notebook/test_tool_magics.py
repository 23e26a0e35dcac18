"""`%dataload` and `%gpustat` in a shell: what they show, and what they say to a line that cannot be."""

from __future__ import annotations

import pytest

SETUP = """
import core
loader = core.utils.data.DataLoader(range(64), batch_size=8)
seen = []
def step(batch):
    seen.append(len(batch))
"""


def test_dataload_gives_a_table(run):
    result, _, _ = run("%dataload loader --step step --workers 0 --batches 4")
    assert result.result.recommended == 0
    assert "num_workers=0 is right" in str(result.result)
    bundle = result.result._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"}
    assert "<table" in bundle["text/html"]
    assert run("set(seen)")[0].result == {8}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("%dataload loder", "nothing is called 'loder'; did you mean loader?"),
        ("%dataload [1]", "%dataload: list is no DataLoader"),
        ("%dataload loader --stp step", "unrecognized arguments: --stp step; did you mean --step?"),
        ("%dataload loader --workers a", "%dataload: argument --workers"),
        ("%gpustat now", "%gpustat: it takes no options; came: 'now'"),
    ],
)
def test_a_line_that_cannot_be_is_told_in_one(run, line, said):
    result, _, printed = run(line)
    assert said in f"{result.error_in_exec}{printed}"


def test_help_and_gpustat(run):
    assert "--step FUNCTION" in run("%dataload --help")[2]
    assert "GPU" in str(run("%gpustat")[0].result)
