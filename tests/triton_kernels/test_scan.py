"""Running sums, products, extremes and log-sums: any dimension, rows in blocks and in chunks, zeros and infinities."""

import ml_dtypes
import numpy as np
import pytest

from triton_kernels import scan

BF16 = ml_dtypes.bfloat16
TOLERANCE = {np.float16: 4e-3, BF16: 3e-2, np.float32: 1e-5, np.float64: 1e-12}
SMALL = {"BLOCK": 32, "ROWS": 32}
WAYS = [(None, None), (SMALL, None), (SMALL, 3)]
IDS = ["whole", "blocks", "chunks"]
UFUNC = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum, "logsumexp": np.logaddexp}


def run(kind, x, dim, config=None, chunks=None, reverse=False):
    y, places = np.empty_like(x), np.empty(x.shape, np.int64)
    scan.scan_forward(kind, x, dim, y, places if kind in ("max", "min") else None, reverse, config, chunks)
    return (y, places) if kind in ("max", "min") else y


def last_places(x, dim, worse):
    """By the definition: of equals the later place, and of NaN."""
    rows = np.moveaxis(x, dim, -1)
    out = np.zeros(rows.shape, np.int64)
    for at in np.ndindex(rows.shape[:-1]):
        best = 0
        for j, v in enumerate(rows[at]):
            if not worse(v, rows[at][best]) and not (np.isnan(rows[at][best]) and not np.isnan(v)):
                best = j
            out[(*at, j)] = best
    return np.moveaxis(out, -1, dim)


CASES = [(np.float32, *way) for way in WAYS] + [(d, SMALL, 2) for d in TOLERANCE if d is not np.float32]


@pytest.mark.parametrize(("dtype", "config", "chunks"), CASES)
@pytest.mark.parametrize("kind", UFUNC)
def test_forward(kind, dtype, config, chunks, rng):
    for shape, dim in (((3, 77), 1), ((2, 50, 3), 1), ((1, 1), 0)):
        x = rng.uniform(0.8, 1.2, shape).astype(dtype) if kind == "prod" else rng.standard_normal(shape).astype(dtype)
        y = run(kind, x, dim, config, chunks)
        want = UFUNC[kind].accumulate(x.astype("d"), dim)
        if kind in ("max", "min"):
            y, places = y
            worse = (lambda a, b: a < b) if kind == "max" else (lambda a, b: a > b)
            assert (places == last_places(x.astype("d"), dim, worse)).all()
        scale = np.add.accumulate(np.abs(x.astype("d")), dim) if kind == "sum" else np.abs(want) + 0.1
        assert (np.abs(y.astype("d") - want) <= TOLERANCE[dtype] * scale).all()


@pytest.mark.parametrize(("config", "chunks"), WAYS, ids=IDS)
def test_from_the_end_and_integers(config, chunks, rng):
    x = rng.integers(-(2**40), 2**40, (2, 100))
    assert (run("sum", x, 1, config, chunks) == x.cumsum(1)).all()
    assert (run("sum", x, 1, config, chunks, reverse=True) == x[:, ::-1].cumsum(1)[:, ::-1]).all()


@pytest.mark.parametrize(("config", "chunks"), WAYS, ids=IDS)
def test_infinities_and_nan(config, chunks, rng):
    x = rng.standard_normal((6, 70)).astype("f")
    x[0], x[1, 5:], x[2, 40], x[3, 50], x[4, :40], x[5, 20] = -np.inf, -np.inf, np.nan, np.inf, -np.inf, 1e30
    with np.errstate(all="ignore"):
        want = {k: UFUNC[k].accumulate(x.astype("d"), 1) for k in ("max", "min", "logsumexp")}
    for kind in ("max", "min"):
        y, places = run(kind, x, 1, config, chunks)
        assert np.array_equal(y, want[kind].astype("f"), equal_nan=True)
        worse = (lambda a, b: a < b) if kind == "max" else (lambda a, b: a > b)
        assert (places == last_places(x, 1, worse)).all()
    assert np.allclose(run("logsumexp", x, 1, config, chunks), want["logsumexp"], rtol=1e-5, equal_nan=True)


def exact_gradient(kind, g, x):
    """By the definition, along the last of two dimensions."""
    n = x.shape[1]
    out = np.zeros_like(x)
    for j in range(n):
        for k in range(j, n):
            if kind == "prod":
                slope = np.delete(x[:, : k + 1], j, 1).prod(1)
            else:
                slope = np.exp(x[:, j] - np.logaddexp.reduce(x[:, : k + 1], 1))
            out[:, j] += g[:, k] * slope
    return out


@pytest.mark.parametrize(("config", "chunks"), WAYS, ids=IDS)
@pytest.mark.parametrize("kind", ["prod", "logsumexp"])
def test_gradients(kind, config, chunks, rng):
    x, g = rng.uniform(-1.3, 1.3, (2, 3, 70)).astype("f")
    if kind == "prod":
        x[1, 40], x[2, [10, 60]] = 0, 0
    want = exact_gradient(kind, g.astype("d"), x.astype("d"))
    for dim in (1, 0):
        lay = np.ascontiguousarray if dim == 1 else lambda a: np.ascontiguousarray(a.T)
        y, out = run(kind, lay(x), dim, config, chunks), np.empty_like(lay(x))
        scan.scan_backward(kind, lay(g), lay(x), y, dim, out, config, chunks)
        assert np.allclose(out, lay(want), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("dtype", [np.float16, BF16, np.float64])
@pytest.mark.parametrize("kind", ["prod", "logsumexp"])
def test_gradients_of_other_types(kind, dtype, rng):
    x, g = rng.uniform(0.7, 1.3, (2, 3, 9)).astype(dtype)
    y, out = run(kind, x, 1), np.empty_like(x)
    scan.scan_backward(kind, g, x, y, 1, out)
    want = exact_gradient(kind, g.astype("d"), x.astype("d"))
    assert np.allclose(out.astype("d"), want, rtol=8 * TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize(("config", "chunks"), WAYS, ids=IDS)
def test_the_gradient_of_an_extreme_goes_to_its_place(config, chunks, rng):
    x, g = rng.integers(0, 9, (4, 70)).astype("f"), rng.standard_normal((4, 70)).astype("f")
    g[0, 3] = np.inf
    _, places = run("max", x, 1)
    out, want = np.empty_like(x), np.zeros(x.shape)
    scan.scan_backward("extreme", g, places, None, 1, out, config, chunks)
    np.add.at(want, (np.arange(4)[:, None], places), g)
    assert np.allclose(out, want, rtol=1e-5, atol=1e-5)


def test_what_does_not_fit_is_refused():
    x = np.ones((3, 4), "f")
    with pytest.raises(ValueError, match="kind is one of"):
        scan.scan_forward("median", x, 0, x)
    with pytest.raises(ValueError, match="contiguous arrays of one shape"):
        scan.scan_forward("sum", x.T, 0, x.T)
    with pytest.raises(TypeError, match="takes floating-point arrays"):
        scan.scan_forward("prod", x.astype(int), 0, x.astype(int))
    scan.scan_forward("sum", x[:0], 1, x[:0])
