"""Kill -9 in the middle of saving and of an epoch: never half a checkpoint, and the losses go on as if nothing was.

The longer storm is a command: ``python tests/core/serialization/killed.py --kills 20``.
"""

from __future__ import annotations

import importlib.util
import os
import random
from pathlib import Path

import numpy as np
import pytest

spec = importlib.util.spec_from_file_location("killed", Path(__file__).with_name("killed.py"))
assert spec is not None
assert spec.loader is not None
killed = importlib.util.module_from_spec(spec)
spec.loader.exec_module(killed)


@pytest.mark.by_turns
def test_a_run_that_is_killed_over_and_over_ends_as_one_that_is_not(tmp_path):
    folder = tmp_path / "storm"
    folder.mkdir()
    state, lines = killed.storm(folder, 5, random.Random(0))
    assert sum(" killed " in line for line in lines) >= 4, lines
    assert any("remains: [" in line for line in lines), "one at least was hit while it wrote"
    whole = killed.finished(tmp_path / "whole.safetensors")
    assert len(whole["values"]["losses"]) == killed.STEPS
    assert state["values"]["losses"] == whole["values"]["losses"]
    for key, t in whole["parts"]["model"].items():
        np.testing.assert_array_equal(state["parts"]["model"][key].numpy(), t.numpy())
    for k, moments in whole["parts"]["optimizer"]["state"].items():
        assert all((state["parts"]["optimizer"]["state"][k][name] == m).all() for name, m in moments.items())
    assert os.listdir(folder) == ["run.safetensors"], "the next save swept what the killed ones left"
