"""Random numbers in CUDA graphs: each replay draws what the same code, run there and then, would draw.

What kernels do with a place in memory is tried by interpreting them; what a capture and its replays tell the device, on
the fake libcuda, where the launches of a graph can be read.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core
import core.nn.functional as F
from core.base.device import device as Device
from core.rng.generator import default_of
from core.rng.philox import Place, uniform
from tests.fake_gpu import run

SEED, BASE = (3 << 32) + 11, (1 << 33) + 5


def forward(x: Any, q: Any) -> list[Any]:
    y = F.scaled_dot_product_attention(q, q * 0.5, q + 1, dropout_p=0.3, is_causal=True)
    return [F.dropout(x, 0.25), y, F.dropout(x, 0.5), core.rand(7, device="cuda"), core.randn(3, device="cuda"),
            core.randperm(9, device="cuda"), core.randint(100, (4,), device="cuda")]  # fmt: skip


def arrays() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    made = [core.tensor(rng.standard_normal(s).astype("f"), device="cuda") for s in ((5, 33), (1, 2, 9, 16))]
    for t in made:
        t.requires_grad = True
    return made[0], made[1]


def gradients(outs: list[Any], inputs: Any) -> list[Any]:
    total = sum((o * o).sum() for o in outs[:3])
    return [g.cpu().numpy() for g in core.autograd.grad(total, inputs, retain_graph=True) if g is not None]


def eager(seed: int, base: int) -> tuple[list[Any], list[Any], int]:
    generator = default_of(Device("cuda", 0)).manual_seed(seed)
    generator.engine.offset = base
    inputs = arrays()
    outs = forward(*inputs)
    return [o.detach().cpu().numpy() for o in outs], gradients(outs, inputs), generator.engine.offset - base


def test_kernels_take_the_seed_and_the_first_offset_from_memory() -> None:
    generator = default_of(Device("cuda", 0)).manual_seed(1)
    place = Place(lambda: np.array([SEED, BASE], np.int64))
    inputs = arrays()
    generator.begin_capture(place)
    try:
        outs = forward(*inputs)
    finally:
        count = generator.end_capture()
    assert generator.engine.offset == 0  # nothing was drawn yet
    wanted, slopes, drawn = eager(SEED, BASE)
    assert count == drawn
    for got, want in zip(outs, wanted, strict=True):
        np.testing.assert_array_equal(got.detach().cpu().numpy(), want)
    for g, want in zip(gradients(outs, inputs), slopes, strict=True):
        np.testing.assert_array_equal(g, want)
    place.array[1] += 1  # as a replay would: the gradients follow, without the forward pass
    (slope,) = core.autograd.grad(outs[2].sum(), inputs[0], retain_graph=True)
    assert slope is not None
    offset = BASE + 1 + outs[0].numel() + 2 * 9 * 9
    np.testing.assert_array_equal(slope.cpu().numpy() == 0, uniform(np, SEED, offset, 165).reshape(5, 33) < 0.5)


def test_a_seed_within_a_capture_must_be_the_one_there_is() -> None:
    generator = core.Generator("cuda").manual_seed(4)
    generator.begin_capture(Place(lambda: np.zeros(2, np.int64)))
    generator.take(5)
    assert generator.manual_seed(4) is generator
    with pytest.raises(RuntimeError, match="only if new seed is the same as the original seed"):
        generator.manual_seed(5)
    state = generator.get_state()
    first = generator.take(3)
    generator.set_state(state)  # as a checkpoint does before it runs its piece again
    again = generator.take(3)
    assert first == again == (4, 5)
    assert again[1].place is first[1].place  # type: ignore[attr-defined]
    assert generator.end_capture() == 8


@pytest.fixture(scope="module")
def told() -> Any:
    """Three replays of a graph with two dropouts and their gradients: of each launch where it reads, and what."""
    return run("""
import ctypes, json, struct
import core
F, seen = core.nn.functional, {}
class Launched(ctypes.Structure):
    _fields_ = [("count", ctypes.c_uint64), ("stream", ctypes.c_uint64), ("rest", ctypes.c_uint32 * 7),
                ("parameters", ctypes.c_uint64 * 24)]
class Captured(ctypes.Structure):
    _fields_ = [("count", ctypes.c_int), ("copies", ctypes.c_int), ("launches", Launched * 256)]
def launches(g):
    found = ctypes.cast(g._graph.ptr, ctypes.POINTER(Captured)).contents
    return [list(one.parameters[:8]) for one in found.launches[:found.count]]
def drawn(g):
    number = lambda bits: struct.unpack("<d", struct.pack("<Q", bits))[0]
    there = lambda p: list(ctypes.cast(p[2], ctypes.POINTER(ctypes.c_int64 * 2)).contents)
    return [[there(p)[0], there(p)[1] + int(number(p[7])), p[2]] for p in launches(g)]
x, g = core.ones(64, 128, device="cuda", requires_grad=True), core.ones(64, 128, device="cuda")
def step():
    a, b = F.dropout(x, 0.25), F.dropout(x, 0.5)
    return core.autograd.grad(a, x, g), core.autograd.grad(b, x, g)
core.manual_seed(5)
step()
generator = core.rng.generator.default_of(x.device)
before = generator.engine.offset
graph = core.cuda.CUDAGraph()
with core.cuda.graph(graph):
    kept = step()
seen["captured"] = generator.engine.offset - before, before
replays = []
for seed in (None, None, 9):
    if seed is not None:
        core.manual_seed(seed)
    graph.replay()
    replays.append(drawn(graph))
seen["replays"], seen["after"] = replays, generator.engine.offset
own = core.Generator("cuda").manual_seed(2)
with_own = core.cuda.CUDAGraph()
with_own.register_generator_state(own)
with core.cuda.graph(with_own):
    core.rand(6, device="cuda", generator=own)
with_own.replay()
seen["own"] = own.engine.offset, list(with_own._generators[own].array._h)
core.manual_seed(1, kind="torch")
try:
    graph.replay()
except RuntimeError as error:
    seen["torch"] = str(error)
core.manual_seed(6)
forward = core.cuda.make_graphed_callables(lambda t: F.dropout(t, 0.5), (x,))
from_warmups = generator.engine.offset
y = forward(x)
y.backward(g)
seen["graphed"] = generator.engine.offset - from_warmups
print(json.dumps(seen, default=int))
""", FAKE_PARAMETERS=9)  # fmt: skip


@pytest.mark.by_turns
def test_each_replay_draws_what_the_code_would_draw_then(told: Any) -> None:
    n = 64 * 128
    assert told["captured"] == [0, 2 * n]  # the warm-up drew; the capture did not
    for seed, base, launches in zip((5, 5, 9), (2 * n, 4 * n, 0), told["replays"], strict=True):
        assert [(s, o) for s, o, _ in launches] == [(seed, base), (seed, base + n), (seed, base), (seed, base + n)]
        assert len({place for *_, place in launches}) == 1  # gradients read what the forward pass read
    assert told["after"] == 2 * n
    masks = [uniform(np, seed, base, n) < 0.25 for seed, base, _ in (launches[0] for launches in told["replays"])]
    assert not (masks[0] == masks[1]).all()
    assert 0.2 < masks[0].mean() < 0.3


def test_generators_of_ones_own_are_registered(told: Any) -> None:
    assert told["own"] == [6, [2, 0]]
    assert "of the kind 'torch' now" in told["torch"]


def test_a_graphed_callable_draws_at_each_call(told: Any) -> None:
    assert told["graphed"] == 64 * 128
