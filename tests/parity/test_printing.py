"""The text of a tensor against PyTorch's, which this environment has."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import core

INF, NAN = float("inf"), float("nan")

VALUES = {
    "number": 1.5, "whole": 2.0, "int": 3, "bool": True, "negative": -0.25, "nan": NAN, "inf": INF, "minus inf": -INF,
    "floats": [1.0, 2.5, -3.25], "wholes": [1.0, 200.0, -3.0], "zeros": [0.0, 0.0], "minus zero": [-0.0, 1.0],
    "ints": [1, -20, 300], "bools": [True, False], "trues": [True, True], "small": [1e-5, 1.0], "large": [1e9, 1.5],
    "large wholes": [1e9, 1.0], "wide wholes": [1.0, 2000.0], "wide wholes below": [1.0, 999.0], "tiny": [1e-10, 1e-9],
    "ratio": [0.001, 1.5], "ratio edge": [0.002, 2.0], "with nan": [1.0, NAN, 3.0], "with inf": [1.5, INF, -INF],
    "only nan": [NAN, INF], "with zero": [0.0, 1e-6], "long line": [i / 7 for i in range(40)],
    "long ints": list(range(60)), "matrix": [[1.0, 2.0], [3.5, -4.0]], "empty": [], "empty rows": [[], []],
    "nested": [[[1, 2], [3, 4]], [[5, 6], [7, 8]]], "half way": [0.00005, 0.99995], "1e8": [1e8], "above 1e8": [1.1e8],
    "1000.5": [1.0, 1000.5], "-1e-4": [-1e-4, 0.05],
}  # fmt: skip


def ours(text: str) -> str:
    return text.replace("torch.", "core.")


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("dtype", [None, "float64", "float16", "bfloat16", "int32", "uint8", "bool"])
def test_text(name: str, dtype: str | None) -> None:
    data = VALUES[name]
    if dtype is None:
        theirs, mine = torch.tensor(data), core.tensor(data)
    else:
        source = torch.tensor(data)
        fits = bool(((source >= 0) & (source < 200)).all())
        if dtype in ("int32", "uint8", "bool") and not fits:
            data = [1, 2, 30]
        theirs, mine = torch.tensor(data, dtype=getattr(torch, dtype)), core.tensor(data, dtype=getattr(core, dtype))
    assert repr(mine) == ours(repr(theirs))
    assert str(mine) == ours(str(theirs))


SHAPES = [
    (1001,),
    (7,),
    (1000,),
    (40, 30),
    (2, 600),
    (600, 2),
    (3, 20, 30),
    (20, 3, 30),
    (2, 2, 2, 2),
    (1, 1),
    (8, 9, 7, 6),
    (0,),
    (0, 3),
    (2, 0, 3),
    (),
    (1200, 1),
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["normal", "wholes", "ints", "bools", "wide"])
def test_shapes(shape: tuple[int, ...], kind: str) -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(size=shape)
    a = {"normal": a.astype(np.float32), "wholes": np.round(a * 50), "ints": (a * 100).astype(np.int64), "bools": a > 0,
         "wide": np.exp(a * 9)}[kind]  # fmt: skip
    a = np.asarray(a)
    assert repr(core.from_numpy(a)) == ours(repr(torch.from_numpy(a)))


def test_history() -> None:
    for lib in (torch, core):
        x = lib.tensor([1.0, 2.0], requires_grad=True)
        assert repr(x) == "tensor([1., 2.], requires_grad=True)"
        assert repr(x * 2) == "tensor([2., 4.], grad_fn=<MulBackward0>)"
    texts = []
    for lib in (torch, core):
        x = lib.tensor(np.linspace(0, 1, 12), requires_grad=True)
        y = lib.tensor(np.linspace(0, 1, 9), requires_grad=True)
        texts.append(
            [
                ours(repr(t))
                for t in (
                    x,
                    y,
                    x.reshape(3, 4),
                    x + 1,
                    y.exp(),
                    x.sum(),
                    x[2:],
                    x[3],
                    x.reshape(3, 4).t(),
                    x.unsqueeze(0),
                    lib.cat([x, y]),
                    x.clone(),
                    y.expand(2, 9),
                )
            ]
        )
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    "options",
    [
        {"precision": 2},
        {"threshold": 5},
        {"edgeitems": 1, "threshold": 3},
        {"linewidth": 40},
        {"sci_mode": True},
        {"sci_mode": False},
        {"profile": "short"},
        {"profile": "full"},
    ],
)
def test_options(options: dict[str, object]) -> None:
    a = np.random.default_rng(0).normal(size=(9, 8))
    try:
        torch.set_printoptions(**options)
        core.set_printoptions(**options)
        for x in (a, a * 1e5, np.round(a * 100), (a * 100).astype(int)):
            assert repr(core.from_numpy(x)) == ours(repr(torch.from_numpy(x)))
    finally:
        torch.set_printoptions(profile="default")
        core.set_printoptions(profile="default")


def test_many_ranges() -> None:
    rng = np.random.default_rng(1)
    for low, high, whole in itertools.product((-9, -5, -1, 0), (0, 2, 5, 9), (False, True)):
        a = rng.choice([-1, 1], 9) * 10.0 ** rng.uniform(low, high, 9)
        a = np.round(a) if whole else a
        for dtype in (np.float32, np.float64):
            assert repr(core.from_numpy(a.astype(dtype))) == ours(repr(torch.from_numpy(a.astype(dtype))))


def test_complex() -> None:
    for data in ([1 + 2j, -0.5 - 3j], [1 + 1j], [[1e9 + 1j]], 2j):
        assert repr(core.tensor(data)) == ours(repr(torch.tensor(data)))
