"""Tunables, constraints and spaces."""

from types import SimpleNamespace

import numpy as np
import pytest

from triton_kernels.tune.space import Constraint, Space, Tunable, powers_of_two
from triton_kernels.tune.table import Table


def space():
    return Space(
        [powers_of_two("BLOCK", 64, 512, default=128), Tunable("order", ("row", "column"), "row")],
        [Constraint("columns only in large blocks", lambda c: c["order"] == "row" or c["BLOCK"] >= 256)],
    )


def test_configs_meet_the_constraints():
    s = space()
    assert len(list(s.product())) == 8
    assert len(list(s.configs())) == 6
    assert s.default == {"BLOCK": 128, "order": "row"}
    assert s.rejected({"BLOCK": 64, "order": "column"}) == "columns only in large blocks"


def test_neighbours_are_one_step_away_and_legal():
    assert space().neighbours(space().default) == [{"BLOCK": 64, "order": "row"}, {"BLOCK": 256, "order": "row"}]
    near = space().neighbours({"BLOCK": 256, "order": "row"})
    assert {"BLOCK": 256, "order": "column"} in near
    assert len(near) == 3


def test_encoding():
    assert space().encode({"BLOCK": 64, "order": "column"}) == (0.0, 1.0)
    assert space().encode({"BLOCK": 512, "order": "row"}) == (1.0, 0.0)
    assert powers_of_two("n", 1, 8, default=1).encode(2) == pytest.approx(1 / 3)
    assert Tunable("n", (5,), 5).encode(5) == 0.0
    assert Tunable("n", (0, 1, 2), 1).encode(1) == 0.5  # zero has no logarithm


def test_triton_configs_become_a_space():
    configs = [
        SimpleNamespace(kwargs={"BLOCK": b}, num_warps=w, num_stages=2) for b, w in ((256, 4), (64, 2), (512, 8))
    ]
    s = Space.of(configs)
    assert s.default == {"BLOCK": 256, "num_warps": 4, "num_stages": 2}
    assert len(list(s.configs())) == 3  # not the product
    assert s.neighbours(s.default) == []  # two tunables differ between any two
    assert Space.of([{"A": "x"}, {"A": "y"}]).default == {"A": "x"}
    with pytest.raises(ValueError, match="at least one config"):
        Space.of([])
    with pytest.raises(ValueError, match="the same tunables"):
        Space.of([{"A": 1}, {"B": 1}])


def test_configs_of_triton_itself():
    triton = pytest.importorskip("triton")
    plain = [triton.Config({"BLOCK": b}, num_warps=w) for b in (64, 128) for w in (2, 4)]
    s = Space.of(plain)
    assert s.names == ("BLOCK", "num_warps", "num_stages")
    assert len(Table(s)) == 4
    assert s.default == {"BLOCK": 64, "num_warps": 2, "num_stages": plain[0].num_stages}
    limited = Space.of([*plain, triton.Config({"BLOCK": 64}, num_warps=2, maxnreg=64)])
    assert [c["maxnreg"] for c in limited.configs()] == [None, None, None, None, 64]
    assert len(Table(limited)) == 5
    with pytest.raises(ValueError, match="has a pre_hook, which a tuner cannot store"):
        Space.of([triton.Config({"BLOCK": 64}, pre_hook=print)])


def test_coordinates():
    def of(*values):
        return Tunable("A", values, values[0]).coordinates()

    assert of(1, 2, 4, 8).tolist() == [[0.0], [1 / 3], [2 / 3], [1.0]]
    assert of(16, 32, 48, 64)[:, 1].tolist() == [0.0, 0.5, 0.0, 1.0]  # how often two divides
    assert of(0, 1, 2).tolist() == [[0.0], [0.5], [1.0]]
    assert of(1, 3, 5).shape == (3, 1)
    assert of(False, True).tolist() == of("a", "b").tolist() == [[0.0], [1.0]]
    apart = of("row", "column", "tile", None)
    assert {round(float(((p - q) ** 2).sum()), 9) for p in apart for q in apart} == {0.0, 1.0}
    assert of(7).tolist() == [[0.0]]


def test_configs_around():
    s = space()
    assert {"BLOCK": 512, "order": "row"} in s.around({"BLOCK": 64, "order": "row"})
    assert {"BLOCK": 64, "order": "column"} not in s.around({"BLOCK": 64, "order": "row"})
    far = s.beyond({"BLOCK": 64, "order": "row"}, np.random.default_rng(0), 50)
    assert {"BLOCK": 512, "order": "column"} in far
    assert all(s.rejected(c) is None for c in far)
    some = Space.of([{"A": 1, "B": 1}, {"A": 2, "B": 2}, {"A": 2, "B": 1}])
    assert some.around({"A": 1, "B": 1}) == [{"A": 2, "B": 1}]


def test_complete():
    assert space().complete({"BLOCK": 256}) == {"BLOCK": 256, "order": "row"}
    assert space().complete(None) == space().default
    with pytest.raises(ValueError, match="no tunable named BLOK; the tunables are BLOCK, order"):
        space().complete({"BLOK": 1})
    with pytest.raises(ValueError, match="columns only in large blocks"):
        space().complete({"order": "column"})


def test_what_makes_no_space():
    with pytest.raises(ValueError, match="none of its values"):
        Tunable("n", (1, 2), 3)
    with pytest.raises(ValueError, match="distinct"):
        Tunable("n", (1, 1), 1)
    with pytest.raises(ValueError, match="powers of two"):
        powers_of_two("n", 3, 8, default=4)
    with pytest.raises(ValueError, match="each tunable once"):
        Space([Tunable("n", (1,), 1), Tunable("n", (2,), 2)])
    with pytest.raises(ValueError, match="breaks a constraint: never"):
        Space([Tunable("n", (1,), 1)], [Constraint("never", lambda c: False)])
