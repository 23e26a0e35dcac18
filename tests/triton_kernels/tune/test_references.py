"""The references that kernels are judged by, against loops over single numbers, differences, and known values."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from triton_kernels.tune import c_kernels, references


def test_softmax_and_the_logarithm_of_a_sum(rng):
    x = 30 * rng.standard_normal((3, 5))
    for row, y, log in zip(x, references.softmax(x), references.logsumexp(x), strict=True):
        sums = math.fsum(math.exp(v - 50) for v in row)
        assert y == pytest.approx([math.exp(v - 50) / sums for v in row], rel=1e-12)
        assert log == pytest.approx(50 + math.log(sums))
    assert references.softmax(np.array([1e4, 0.0])).tolist() == [1.0, 0.0]
    assert references.logsumexp(np.array([[1e4, 0.0]])) == [1e4]


def test_attention_sees_no_later_key_and_its_gradients_are_right(rng):
    q, k, v, g = (rng.standard_normal((1, 2, n, 4)) for n in (3, 5, 5, 3))

    def out(q, k, v):
        found = np.zeros((2, 3, 4))
        for h, i in itertools.product(range(2), range(3)):
            scores = [q[0, h, i] @ k[0, h, j] / 2 for j in range(i + 1)]
            weights = [math.exp(s) for s in scores]
            found[h, i] = sum(w * v[0, h, j] for j, w in enumerate(weights)) / sum(weights)
        return found

    found = list(references.attended(q, k, v, g))
    values, size = references.heads(found, "out")
    assert values.shape == (1, 2, 3, 4)
    assert np.allclose(values[0], out(q, k, v))
    assert np.allclose(size[0], out(q, k, np.abs(v)) + 1e-7, rtol=1e-12, atol=0)
    for h, each in enumerate(found):
        logs = [math.log(sum(math.exp(q[0, h, i] @ k[0, h, j] / 2) for j in range(i + 1))) for i in range(3)]
        assert each.logs == pytest.approx(logs)
    for name, at in (("dq", 0), ("dk", 1), ("dv", 2)):
        gradient, size = references.heads(found, name)
        given = [q, k, v]
        for place in itertools.product(range(2), range(given[at].shape[2]), range(4)):
            both = []
            for step in (1e-6, -1e-6):
                moved = [a.copy() for a in given]
                moved[at][(0, *place)] += step
                both.append(float((out(*moved) * g[0]).sum()))
            assert gradient[(0, *place)] == pytest.approx((both[0] - both[1]) / 2e-6, abs=1e-7), (name, place)
        assert (np.abs(gradient) <= size).all()
    assert next(references.attended(q, k, v)).dq.size == 0


def test_the_scales_of_attentions_errors():
    """Where nothing cancels they are the gradients' sizes: one query, one key and one item."""
    q, k, v, g = (np.full((1, 1, 2, 1), n) for n in (0.5, 2.0, 3.0, 5.0))
    (found,) = references.attended(q, k, v, g)
    # each row's weights are alike: 1, and a half each
    assert found.sizes["dv"].ravel().tolist() == [5 * 1.5, 5 * 0.5]
    dp = 5 * 3 + 5 * 3  # of |y| |c| and of |y| |out|
    assert found.sizes["dq"].ravel().tolist() == [dp * 2.0, (dp / 2 + dp / 2) * 2.0]
    assert found.sizes["dk"].ravel().tolist() == [0.5 * dp * 1.5, 0.5 * dp * 0.5]


@pytest.mark.parametrize(("kernel", "stride"), [((3, 3), 1), ((3, 3), 2), ((1, 3), 1), ((2, 4), 2), ((5, 3), 1)])
def test_windows_and_their_transpose(rng, kernel, stride):
    x = rng.standard_normal((2, 6, 7))
    found = references.windows(x, kernel, stride, -9.0)
    pads = [(k - 1) // 2 for k in kernel]
    high, broad = ((6 + 2 * pads[0] - kernel[0]) // stride + 1, (7 + 2 * pads[1] - kernel[1]) // stride + 1)
    assert found.shape == (2, high, broad, kernel[0] * kernel[1])
    for n, i, j, a, b in itertools.product(range(2), range(high), range(broad), *map(range, kernel)):
        row, column = i * stride + a - pads[0], j * stride + b - pads[1]
        inside = 0 <= row < 6 and 0 <= column < 7
        assert found[n, i, j, a * kernel[1] + b] == (x[n, row, column] if inside else -9.0)
    found = references.windows(x, kernel, stride, 0.0)
    values = rng.standard_normal(found.shape)
    back = references.scattered(values, kernel, stride, (6, 7))
    assert back.shape == x.shape
    assert (back * x).sum() == pytest.approx((found * values).sum())  # <A x, y> = <x, A' y>
    place = np.zeros(x.shape)
    place[1, 2, 3] = 1
    assert back[1, 2, 3] == pytest.approx((references.windows(place, kernel, stride, 0.0) * values).sum())


def test_convolution_and_its_weights_gradient(rng):
    x, weight, g = (
        rng.standard_normal((2, 3, 5, 4)),
        rng.standard_normal((6, 3, 3, 3)),
        rng.standard_normal((2, 6, 5, 4)),
    )
    out = references.convolved(x, weight)
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)])
    for n, o, i, j in itertools.product(range(2), range(6), range(5), range(4)):
        assert out[n, o, i, j] == pytest.approx((padded[n, :, i : i + 3, j : j + 3] * weight[o]).sum())
    found = references.convolved_weight(x, g, (3, 3))
    assert found.shape == weight.shape
    for at in [(0, 0, 0, 0), (5, 2, 2, 1), (3, 1, 1, 2)]:
        one = np.zeros(weight.shape)
        one[at] = 1
        assert found[at] == pytest.approx((references.convolved(x, one) * g).sum())


def philox_words(key, counter):
    """Philox4x32-10 in Python's whole numbers, as its paper has it."""
    (k0, k1), (c0, c1, c2, c3) = key, counter
    for _ in range(10):
        a, b = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c1, c2, c3 = (b >> 32) ^ c1 ^ k0, b & 0xFFFFFFFF, (a >> 32) ^ c3 ^ k1, a & 0xFFFFFFFF
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c0, c1, c2, c3


def test_philox_is_the_papers():
    # known answers of Random123's kat_vectors
    assert philox_words((0, 0), (0, 0, 0, 0)) == (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
    for seed in (0, 5, (7 << 32) + 3, 0xFFFFFFFFFFFFFFFF):
        found = references.philox(seed, 300)
        assert found.dtype == np.float32
        for at in range(300):
            word = philox_words((seed & 0xFFFFFFFF, seed >> 32), (at, 0, 0, 0))[0]
            word = word if word < 1 << 31 else ~word & 0xFFFFFFFF
            assert found[at] == np.float32(np.float32(word) * np.float32(4.6566127342e-10))
    assert 0.4 < references.philox(1, 3000).mean() < 0.6


def test_two_steps_of_an_lstm_and_their_gradients(rng):
    n, hidden = 3, 2
    sums, weight = rng.standard_normal((2 * n, 4 * hidden)), rng.standard_normal((4 * hidden, hidden))
    h0, c0 = rng.standard_normal((2, n, hidden))

    def steps(sums, c0):
        h, c, ys, cells = h0, c0, [], []
        for step in range(2):
            z = sums[step * n : (step + 1) * n] + h @ weight.T
            i, f, o = (1 / (1 + np.exp(-z[:, k * hidden : (k + 1) * hidden])) for k in (0, 1, 3))
            c = f * c + i * np.tanh(z[:, 2 * hidden : 3 * hidden])
            h = o * np.tanh(c)
            ys.append(h)
            cells.append(c)
        return np.concatenate(ys), np.concatenate(cells), h, c

    ys, cells, gates, last = references.lstm(sums, weight, h0, c0)
    right = steps(sums, c0)
    assert np.allclose(ys, right[0])
    assert np.allclose(cells, right[1])
    assert np.allclose(last, right[2])
    z = sums[:n] + h0 @ weight.T
    assert np.allclose(gates[:n, :hidden], 1 / (1 + np.exp(-z[:, :hidden])))
    assert np.allclose(gates[:n, 2 * hidden : 3 * hidden], np.tanh(z[:, 2 * hidden : 3 * hidden]))
    g, dh, dc = rng.standard_normal((2 * n, hidden)), *rng.standard_normal((2, n, hidden))

    def value(sums, c0):
        found = steps(sums, c0)
        return float((found[0] * g).sum() + (found[2] * dh).sum() + (found[3] * dc).sum())

    by_sums, by_cells = references.lstm_gradients(g, weight, cells, c0, gates, dh, dc)
    for array, gradient, at in ((sums, by_sums, 0), (c0, by_cells, 1)):
        assert gradient.shape == array.shape
        for place in np.ndindex(array.shape):
            both = []
            for step in (1e-6, -1e-6):
                moved = [sums.copy(), c0.copy()]
                moved[at][place] += step
                both.append(value(*moved))
            assert gradient[place] == pytest.approx((both[0] - both[1]) / 2e-6, abs=1e-7)


def test_printed_lines_run_in_numpy():
    x = np.array([0.25, 0.5])
    lines = ["a = tl.exp(x) + scalar.sigmoid(x)", "b = scalar.rsqrt(a) * k", "c = tl.erf(x) + scalar.erfc(x)"]
    a, b, c = references.printed(lines, ["a", "b", "c"], {"x": x, "k": 3.0})
    assert a == pytest.approx([math.exp(v) + 1 / (1 + math.exp(-v)) for v in x])
    assert b == pytest.approx([3 / math.sqrt(v) for v in a])
    assert c.tolist() == [1.0, 1.0]
    (sign,) = references.printed([], ["scalar.atan2(x, -x) + tl.abs(x)"], {"x": x})
    assert sign == pytest.approx([0.75 * math.pi + v for v in x])


# -- the tuner's own C kernels -----------------------------------------------------------------------------------------


def test_what_a_c_kernels_results_are_judged_by(rng):
    a, b = rng.standard_normal((3, 4)).astype(np.float32), rng.standard_normal((4, 5)).astype(np.float32)
    right, scale, terms = c_kernels.FAMILIES["matmul"].reference([a, b])
    for i, j in itertools.product(range(3), range(5)):
        products = [float(a[i, k]) * float(b[k, j]) for k in range(4)]
        assert right[i, j] == pytest.approx(sum(products), rel=1e-12)
        assert scale[i, j] == pytest.approx(sum(map(abs, products)), rel=1e-12)
    assert (right.dtype, terms) == (np.float64, 4)
    x = np.array([[0.0, 8.0, -4.0], [1.0, 1.0, 1.0]], np.float32)
    right, scale, terms = c_kernels.FAMILIES["softmax"].reference([x])
    sums = 1 + math.exp(-8) + math.exp(-12)
    assert right[0] == pytest.approx([math.exp(-8) / sums, 1 / sums, math.exp(-12) / sums])
    assert right[1] == pytest.approx([1 / 3] * 3)
    assert scale[0] == pytest.approx([right[0, 0] * 3 + 1e-7, right[0, 1] + 1e-7, right[0, 2] * 4 + 1e-7], rel=1e-12)
    assert terms == 3


def test_a_c_kernels_inputs_work_and_odd_shapes():
    matmul, softmax = c_kernels.FAMILIES["matmul"], c_kernels.FAMILIES["softmax"]
    assert [x.shape for x in matmul.inputs((3, 5, 4), "float64", np.random.default_rng(0))] == [(3, 4), (4, 5)]
    assert matmul.out((3, 5, 4)) == (3, 5)
    assert matmul.work((3, 5, 4)) == (120.0, 3 * 4 + 4 * 5 + 3 * 5)
    (x,) = softmax.inputs((40, 50), "float32", np.random.default_rng(0))
    assert x.dtype == np.float32
    far = np.zeros((40, 50), bool)
    far[:, ::7] = True
    assert (x[far] < -150).all()
    assert (np.abs(x[~far]) < 30).all()
    assert 3.5 < x[~far].std() < 4.5
    assert softmax.out((4, 5)) == (4, 5)
    assert softmax.work((4, 5)) == (80.0, 40.0)
    for size, odd in [(1, 1), (2, 1), (3, 1), (6, 3), (9, 3), (30, 11), (900, 301), (903, 301), (10_000, 301)]:
        assert matmul.odd((size,)) == (odd,), size


@pytest.mark.parametrize(("most", "values"), [(1, (1,)), (2, (1, 2)), (3, (1, 2, 3)), (4, (1, 2, 4)),
                                              (96, (1, 2, 4, 8, 16, 32, 64, 96))])  # fmt: skip
def test_threads_are_powers_of_two_and_all(monkeypatch, most, values):
    monkeypatch.setattr(c_kernels, "cpu_count", lambda: most)
    found = c_kernels.threads()
    assert (found.name, found.values, found.default) == ("THREADS", values, most)


@pytest.mark.parametrize(("dtype", "features", "default"), [
    ("float32", "avx2 avx512f", {"NV": 4, "VECTOR": 64}), ("float64", "avx2", {"NV": 2, "VECTOR": 32})])  # fmt: skip
def test_the_space_of_products(monkeypatch, dtype, features, default):
    monkeypatch.setattr(c_kernels, "cpu_features", lambda: features)
    monkeypatch.setattr(c_kernels, "cpu_count", lambda: 2)
    space = c_kernels.FAMILIES["matmul"].space(dtype)
    assert space.default == {"MR": 6, "KC": 256, "MC": 96, "NC": 768, "UNROLL": 1, "THREADS": 2, **default}
    assert {t.name: t.values for t in space.tunables} == {
        "MR": (2, 4, 6, 8, 12), "NV": (1, 2, 3, 4), "VECTOR": (32, 64), "KC": (64, 128, 256, 384, 512),
        "MC": (24, 48, 96, 192, 384), "NC": (192, 384, 768, 1536), "UNROLL": (1, 2, 4), "THREADS": (1, 2)}  # fmt: skip

    def why(**changes):
        return space.rejected({**space.default, "NV": 1, "VECTOR": 32, **changes})

    fits = "a tile's sums fit 32 registers of 64 bytes, or its half 32 of 32"
    assert why(MR=12, NV=4) is None  # (12 + 1) 4 = 52 vectors of 32 bytes
    assert why(MR=12, NV=2, VECTOR=64) is None
    assert why(MR=12, NV=3, VECTOR=64) == fits
    assert why(MR=6, NV=4, VECTOR=64) is None  # 56
    assert why(MR=8, NV=4, VECTOR=64) == fits  # 72
    size = 8 if dtype == "float64" else 4
    for kc, mc in itertools.product((64, 128, 256, 384, 512), (24, 48, 96, 192, 384)):
        assert (why(KC=kc, MC=mc, MR=4) == "a block of a fits 1 MiB") == (kc * mc * size > 2**20), (kc, mc)
    assert why(KC=512, NV=4, VECTOR=64, MR=4) is None  # just 128 KiB
    assert why(MC=24, MR=12) is None
    assert why(MC=96, MR=4) is None
    assert [mr for mr in (2, 4, 6, 8, 12) if why(MC=24, MR=mr) is None] == [2, 4, 6, 8, 12]


def test_the_space_of_softmax(monkeypatch):
    monkeypatch.setattr(c_kernels, "cpu_count", lambda: 2)
    space = c_kernels.FAMILIES["softmax"].space("float32")
    assert space.default == {"PASSES": 3, "UNROLL": 1, "VECTOR": 32, "DIVIDE": 0, "CHUNK": 8, "THREADS": 2}
    assert {t.name: t.values for t in space.tunables} == {
        "PASSES": (2, 3), "UNROLL": (1, 2, 4, 8), "VECTOR": (16, 32, 64), "DIVIDE": (0, 1), "CHUNK": (1, 8, 64),
        "THREADS": (1, 2)}  # fmt: skip
    chunks = [
        (c["THREADS"], c["CHUNK"]) for c in space.configs() if (c["PASSES"], c["UNROLL"], c["VECTOR"]) == (2, 1, 16)
    ]
    assert sorted(set(chunks)) == [(1, 8), (2, 1), (2, 8), (2, 64)]


def test_an_empty_product_calls_nothing():
    assert c_kernels.run("matmul", np.ones((0, 3), np.float32), np.ones((3, 4), np.float32)).shape == (0, 4)
    assert c_kernels.run("matmul", np.ones((2, 3), np.float32), np.ones((3, 0), np.float32)).shape == (2, 0)
    out = np.ones((2, 2), np.float32)
    found = c_kernels.run("matmul", np.ones((2, 3), np.float32)[:, ::-1], np.ones((3, 2), np.float32), out=out)
    assert found is out
    assert (out == 3).all()
    for wrong in (np.ones((2, 2)), np.ones((2, 2), np.float32).T[:, ::-1], np.ones((2, 3), np.float32)):
        with pytest.raises(ValueError, match=r"matmul: out must be a row-major float32 array of \(2, 2\)"):
            c_kernels.run("matmul", np.ones((2, 3), np.float32), np.ones((3, 2), np.float32), out=wrong)
    for given in ((np.ones((2, 3)), np.ones((3, 2), np.float32)), (np.ones(3), np.ones(3)), (np.ones((1, 2), int),)):
        with pytest.raises(TypeError, match="takes float32 or float64 arrays of two dimensions and one dtype"):
            c_kernels.run("matmul", *given)
    with pytest.raises(ValueError, match=r"mat1 and mat2 shapes cannot be multiplied: \(2, 3\) needs"):
        c_kernels.run("matmul", np.ones((2, 3)))
