"""The steps of recurrent layers against float64, gradients against differences of the float64 layer."""

import ml_dtypes
import numpy as np
import pytest

from triton_kernels import recurrent

BF16 = ml_dtypes.bfloat16
TOLERANCE = {np.float16: 4e-3, BF16: 3e-2, np.float32: 2e-6}
SMALL = {"BLOCK_M": 16, "BLOCK_N": 16}
HIDDEN = 33  # three blocks of 16 units, the last with one

# each step's first row and sequences, in the order in which they are gone through, and the rows between sequences
LAYOUTS = {
    "forward": ([(0, 3), (3, 3)], 1),
    "sequences first, backward": ([(1, 3), (0, 3)], 2),
    "packed": ([(0, 3), (3, 2), (5, 1)], 1),
    "packed, backward": ([(5, 1), (3, 2), (0, 3)], 1),
}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def layer(kind, sums, w, h0, c0, layout):
    """All steps in float64, from the sums of all slots without the states' part: outputs, last states, cells."""
    steps, pitch = LAYOUTS[layout]
    h, c, hidden = h0.copy(), c0.copy(), h0.shape[1]
    y, cells, gates = np.zeros((len(sums), hidden)), np.zeros((len(sums), hidden)), np.zeros(sums.shape)
    for first, count in steps:
        rows = first + np.arange(count) * pitch
        part = h[:count] @ w.T
        if kind == "lstm":
            z = (sums[rows] + part).reshape(count, 4, hidden)
            i, f, g, o = sigmoid(z[:, 0]), sigmoid(z[:, 1]), np.tanh(z[:, 2]), sigmoid(z[:, 3])
            c[:count] = f * c[:count] + i * g
            h[:count] = o * np.tanh(c[:count])
            gates[rows], cells[rows] = np.concatenate((i, f, g, o), 1), c[:count]
        elif kind == "gru":
            x, s = sums[rows].reshape(count, 4, hidden), part.reshape(count, 3, hidden)
            r, z, inner = sigmoid(x[:, 0] + s[:, 0]), sigmoid(x[:, 1] + s[:, 1]), x[:, 3] + s[:, 2]
            n = np.tanh(x[:, 2] + r * inner)
            h[:count] = n + z * (h[:count] - n)
            gates[rows] = np.concatenate((r, z, n, inner), 1)
        else:
            h[:count] = np.tanh(sums[rows] + part) if kind == "tanh" else np.maximum(sums[rows] + part, 0)
        y[rows] = h[:count]
    return y, h, c, gates, cells


def tables(layout):
    """The kernels' tables: a step's rows beside those of the step before, and of the one after."""
    steps, pitch = LAYOUTS[layout]
    before, after = [(0, 0), *steps[:-1]], [*steps[1:], (0, 0)]
    forward = [(*s, *b, 0, 0, 0, 0) for s, b in zip(steps, before, strict=True)]
    backward = [(*s, *a, *b, 0, 0) for s, a, b in zip(steps, after, before, strict=True)][::-1]
    return np.array(forward, np.int32), np.array(backward, np.int32), pitch


def made(rng, kind, layout, dtype, initial=True):
    rows, slots = sum(n for _, n in LAYOUTS[layout][0]), recurrent.slots(kind)
    gates = {"lstm": 4, "gru": 3}.get(kind, 1)
    sums = rng.uniform(-1, 1, (rows, slots * HIDDEN)).astype("f")
    w = (rng.uniform(-0.3, 0.3, (gates * HIDDEN, HIDDEN))).astype(dtype)
    h0, c0 = (rng.uniform(-1, 1, (3, HIDDEN)).astype(dtype) * dtype(initial) for _ in range(2))
    return sums, w, h0, c0


def run_forward(kind, sums, w, h0, c0, layout, config=None):
    """The kernel's results; a GRU's fourth slot is one vector, its state's bias."""
    dtype, rows = w.dtype, len(sums)
    bias = None
    if kind == "gru":
        bias = np.concatenate((np.zeros(2 * HIDDEN), sums[0, 3 * HIDDEN :])).astype(dtype)
        sums = np.ascontiguousarray(sums[:, : 3 * HIDDEN])
    state = (c0 if kind == "lstm" else np.zeros((3, HIDDEN)) if h0 is None else h0).astype("f")
    y, last = np.full((rows, HIDDEN), 9, dtype), np.full((3, HIDDEN), 9, dtype)
    gates, cells = np.full((rows, 4 * HIDDEN), 9, dtype), np.full((rows, HIDDEN), 9, dtype)
    forward, _, pitch = tables(layout)
    recurrent.steps_forward(kind, sums, w, bias, h0, state, last, y, gates, cells, forward, pitch, config)
    return y, last, state, gates, cells


FORWARD = [(layout, dtype, None) for layout in LAYOUTS for dtype in TOLERANCE]
FORWARD += [("packed", np.float32, SMALL), ("packed, backward", BF16, SMALL)]


@pytest.mark.parametrize(("layout", "dtype", "config"), FORWARD)
@pytest.mark.parametrize("kind", recurrent.KINDS)
def test_forward(kind, layout, dtype, config, rng):
    sums, w, h0, c0 = made(rng, kind, layout, dtype, initial=layout != "forward")
    if kind == "gru":
        sums[:, 3 * HIDDEN :] = sums[0, 3 * HIDDEN :].astype(dtype)
    want = layer(kind, *(a.astype("d") for a in (sums, w, h0, c0)), layout)
    y, last, state, gates, cells = run_forward(kind, sums, w, None if layout == "forward" else h0, c0, layout, config)
    agree = {"rtol": TOLERANCE[dtype], "atol": TOLERANCE[dtype]}
    assert np.allclose(y.astype("d"), want[0], **agree)
    assert np.allclose(last.astype("d"), want[1], **agree)
    if recurrent.slots(kind) == 4:
        assert np.allclose(gates.astype("d"), want[3], **agree)
        assert np.allclose(state, want[2] if kind == "lstm" else want[1], **agree)
    if kind == "lstm":
        assert np.allclose(cells.astype("d"), want[4], **agree)


def differences(loss, a, places, step=1e-6):
    """The derivatives of `loss` at some elements of `a`."""
    found = []
    for at in places:
        kept = a[at]
        a[at] = kept + step
        high = loss()
        a[at] = kept - step
        found.append((high - loss()) / (2 * step))
        a[at] = kept
    return found


@pytest.mark.parametrize(("layout", "dtype"), [*((name, np.float32) for name in LAYOUTS), ("packed", BF16)])
@pytest.mark.parametrize("kind", recurrent.KINDS)
def test_backward(kind, layout, dtype, rng):
    sums, w, h0, c0 = (a.astype("d") for a in made(rng, kind, layout, dtype, initial=layout != "forward"))
    y, _, _, gates, cells = layer(kind, sums, w, h0, c0, layout)
    g, gh, gc = (rng.standard_normal(s).astype(dtype).astype("d") for s in (y.shape, h0.shape, c0.shape))

    def loss():
        y, h, c, _, _ = layer(kind, sums, w, h0, c0, layout)
        return (g * y).sum() + (gh * h).sum() + (gc * c).sum() * (kind == "lstm")

    dh, dc, dz = gh.astype("f"), gc.astype("f"), np.full(sums.shape, 9, dtype)
    _, backward, pitch = tables(layout)
    states, initial = (cells, c0) if kind == "lstm" else (y, h0)
    arrays = [a.astype(dtype) for a in (g, w, states, initial, gates, y)]
    if layout == "forward":
        arrays[3] = None  # nothing there is as good as zeros
    recurrent.steps_backward(kind, *arrays, dh, dc, dz, backward, pitch, SMALL if layout == "packed" else None)
    some = [
        (int(i), int(j))
        for i, j in zip(rng.integers(0, len(sums), 40), rng.integers(0, sums.shape[1], 40), strict=True)
    ]
    agree = {"rtol": 20 * TOLERANCE[dtype], "atol": 20 * TOLERANCE[dtype]}
    assert np.allclose([dz[at].astype("d") for at in some], differences(loss, sums, some), **agree)
    ends = [(i, j) for i in range(3) for j in (0, 7, HIDDEN - 1)]
    if kind == "lstm":
        assert np.allclose([dc[at] for at in ends], differences(loss, c0, ends), **agree)
    begun = {s: first + s * pitch for first, count in reversed(LAYOUTS[layout][0]) for s in range(count)}
    z = dz[[begun[s] for s in range(3)]].astype("d")
    if kind == "gru":
        z = np.delete(z, np.s_[2 * HIDDEN : 3 * HIDDEN], 1)
    assert np.allclose([(dh + z @ w)[at] for at in ends], differences(loss, h0, ends), **agree)


def test_nan_stays_in_its_sequence(rng):
    sums, w, h0, c0 = made(rng, "relu", "forward", np.float32)
    sums[1, 4] = np.nan
    y = run_forward("relu", sums, w, h0, c0, "forward")[0]
    assert np.isnan(y).any(1).tolist() == [False, True, False, False, True, False]


def test_wrong_arguments_and_defaults(rng):
    sums, w, h0, c0 = made(rng, "tanh", "forward", np.float32)
    with pytest.raises(TypeError, match="tanh: takes row-major arrays, of float16, bfloat16 or float32"):
        run_forward("tanh", sums, w, np.asfortranarray(h0), c0, "forward")
    with pytest.raises(TypeError, match="the last 2 of float32"):
        run_forward("tanh", sums.astype("d"), w, h0, c0, "forward")
    assert all(recurrent.default_for((n, 512)) in list(recurrent.SPACE.configs()) for n in (1, 4096))
