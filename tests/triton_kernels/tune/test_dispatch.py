"""Several shapes tuned together: the tree, its regret, its boundaries, and the forms that it is written in."""

from __future__ import annotations

import math

import numpy as np
import pytest

from triton_kernels import tune
from triton_kernels.tune import dispatch_tree as trees
from triton_kernels.tune.dispatch_tree import Leaf, Split, grow
from triton_kernels.tune.dispatching import described, dispatch, from_json
from triton_kernels.tune.problem import Problem
from triton_kernels.tune.replay import ReplayMeasure
from triton_kernels.tune.space import Space

BLOCKS = (1, 2, 4, 8, 16)


def problem(shape, wrong=()):
    """A kernel whose best block grows with its columns, and is 16 for few rows."""
    rows, columns = shape
    best = 16 if rows < 8 else min(16, max(1, columns // 64))
    times = {(b,): 1.0 + 0.3 * abs(math.log2(b / best)) for b in BLOCKS}
    for block in wrong:
        times[(block,)] = "correctness"
    space = Space.of([{"BLOCK": b} for b in BLOCKS])
    return Problem("recorded", shape, "float32", space, ReplayMeasure(times), "", "recorded", "replay")


SHAPES = [(r, c) for r in (1, 32, 512) for c in (64, 128, 256, 1024)]


def test_a_tree_of_few_leaves_is_nearly_as_good_as_each_shapes_own_best():
    said: list[str] = []
    made = dispatch(problem, SHAPES, budget=10.0, axes=("rows", "columns"), say=said.append)
    assert made.leaves <= 6
    assert made.mean_regret < 0.03
    assert made.of_one() > 0.2
    assert made.config(1, 64) == {"BLOCK": 16}
    assert made.config(100, 64) == {"BLOCK": 1}
    assert "mean regret" in described(made)
    assert len(said) >= len(SHAPES)
    names: dict = {}
    exec(made.to_python(), names)
    for shape in [*SHAPES, (3, 3), (7, 100), (8, 65), (4096, 4096)]:
        assert names["choose"](*shape) == made.config(*shape)


def test_two_leaves_when_two_are_allowed():
    made = dispatch(problem, SHAPES, budget=10.0, leaves=2)
    assert made.leaves == 2
    assert made.axes == ("n0", "n1")


def test_it_is_written_and_read():
    made = dispatch(problem, SHAPES, budget=10.0)
    again = from_json(made.to_json())
    assert again.tree == made.tree
    assert again.regret == made.regret
    with pytest.raises(ValueError, match="no dispatch"):
        from_json("{}")
    pytest.importorskip("triton")
    text = made.to_triton()
    assert "@triton.heuristics" in text
    compile(text + "\ndef kernel(n0, n1, BLOCK): pass\n", "a kernel", "exec")


def test_a_boundary_moves_to_where_the_configs_change():
    def steep(shape):
        (n,) = shape
        times = {(1,): 1.0 if n <= 20 else 3.0, (2,): 2.0}
        space = Space.of([{"BLOCK": 1}, {"BLOCK": 2}])
        return Problem("recorded", shape, "float32", space, ReplayMeasure(times), "", "recorded", "replay")

    made = dispatch(steep, [(8,), (512,)], budget=5.0)
    assert isinstance(made.tree, Split)
    assert made.boundaries[0].moved == 64
    assert made.tree.at == 22
    assert made.mean_regret == 0.0


def test_a_config_that_is_wrong_at_a_boundary_is_not_taken():
    def odd(shape):
        return problem((32, shape[0]), wrong=() if shape[0] % 64 == 0 else (4, 8, 16))

    made = dispatch(odd, [(64,), (1024,)], budget=5.0)
    assert {leaf.config["BLOCK"] for leaf in trees.leaves(made.tree)} == {1}
    assert "not right" in made.notes[0]


def test_a_config_that_fails_at_a_shape_is_not_taken_there():
    times = np.array([[1.0, 2.0], [math.inf, 2.0], [1.0, 2.0]])
    tree = grow([(1,), (2,), (3,)], [{"B": 1}, {"B": 2}], times, most=1)
    assert tree == Leaf({"B": 2}, ((1,), (2,), (3,)))
    with pytest.raises(ValueError, match=r"no config runs at \(2,\)"):
        grow([(1,), (2,)], [{"B": 1}], np.array([[1.0], [math.inf]]))


def test_devices_are_a_size_too():
    shapes = [("A100", 64), ("A100", 512), ("MI250X", 64), ("MI250X", 512)]
    tree = grow(shapes, [{"B": 1}, {"B": 2}], np.array([[1.0, 2.0], [1.0, 2.0], [2.0, 1.0], [2.0, 1.0]]))
    assert tree == Split(0, "A100", Leaf({"B": 1}, tuple(shapes[:2])), Leaf({"B": 2}, tuple(shapes[2:])))


def test_one_shape_is_no_choice():
    with pytest.raises(ValueError, match="at least two"):
        tune.dispatch("softmax_f32", ["64x64"])


def test_a_kernel_in_c(tmp_path):
    store = tune.Store(tmp_path)
    made = tune.dispatch("softmax_f32", ["16x64", "16x2048"], budget="2s", store=store, evaluations=4)
    assert made.axes == ("ROWS", "COLUMNS")
    assert set(made.config(16, 64)) == set(made.default)
    assert made.mean_regret < 10.0
