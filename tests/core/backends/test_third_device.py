"""A further device is one object that is handed to `core.backends.add`; nothing else of core names it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import core

TOY = Path(__file__).with_name("toy_device.py")


def test_a_toy_device_computes_differentiates_trains_and_moves() -> None:
    done = subprocess.run([sys.executable, str(TOY)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["device"] == seen["random"] == "toy:0"
    assert seen["ran"] == ["softmax_toy"]
    assert [name for name, _, _ in seen["kernels"]] == ["mul", "softmax"]
    assert seen["kernels"][1][1:] == ["softmax_toy", "toy"]
    assert seen["close"]
    assert seen["learned"]
    assert seen["moved"] == ["cpu", "toy:0", [[1.0, 2.0, 3.0]]]
    assert seen["mixed"].startswith("Expected all tensors to be on the same device, but found at least two devices")


def test_a_device_that_nobody_has_registered_is_named() -> None:
    with pytest.raises(RuntimeError, match=r"Expected one of cpu, cuda.* device type"):
        core.device("toys")
