"""The thirty models from a file, by NumPy alone and by onnxruntime; test_c.py has them as C."""

from __future__ import annotations

import pytest

import core

from .models import CASES
from .run_c import flat
from .thirty import BOUND, EXPORTED, RUN, WAYS


@pytest.mark.parametrize("way", ["core", ".gl", "NumPy", "onnxruntime"])
@pytest.mark.parametrize("name", CASES)
def test_on_other_data_at_another_size(name, way, tmp_path):
    if way == "onnxruntime":
        pytest.importorskip("onnxruntime")
    function, args, dynamic = CASES[name]()
    program = core.export(function, args(EXPORTED), dynamic)
    wanted = flat(function(*args(RUN)), lambda x: isinstance(x, core.Tensor))
    assert WAYS[way](program, args(RUN), wanted, tmp_path) <= BOUND
