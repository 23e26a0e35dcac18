"""The norm of many tensors and their scaling: orders, types, sizes, infinities, equal bits."""

import ml_dtypes
import numpy as np
import pytest

from triton_kernels import clip

BF16 = ml_dtypes.bfloat16
SIZES = ((3, 7), (1,), (0, 4), (33, 130), ())


def tensors(rng, *dtypes):
    return [rng.standard_normal(s).astype(d) for d in dtypes for s in SIZES]


@pytest.mark.parametrize("config", [None, {"BLOCK": 1024}])
@pytest.mark.parametrize("dtypes", [(np.float32,), (np.float16, np.float32), (BF16,), (np.float64,)])
@pytest.mark.parametrize("p", [1.0, 2.0, np.inf])
def test_the_norm_of_all(p, dtypes, config, rng):
    many = tensors(rng, *dtypes)
    out = np.empty((), np.float64 if dtypes == (np.float64,) else np.float32)
    clip.total_norm(many, p, out, config)
    flat = np.concatenate([t.astype("d").ravel() for t in many])
    assert np.isclose(out, np.linalg.norm(flat, p), rtol=1e-5)
    before = [t.astype("d") for t in many]
    clip.scale_by_norm(many, out, 0.5, config)
    factor = 0.5 / (np.linalg.norm(flat, p) + 1e-6)
    for t, b in zip(many, before, strict=True):
        assert np.allclose(t.astype("d"), b * factor, rtol=1e-2 if t.dtype.itemsize == 2 else 1e-5, atol=1e-6)
    again = [t.copy() for t in many]
    clip.scale_by_norm(many, out, 1e9, config)
    assert all((t == a).all() for t, a in zip(many, again, strict=True))


def test_what_is_not_finite_shows(rng):
    many, out = tensors(rng, np.float32), np.empty((), "f")
    many[3][2, 5] = np.inf
    clip.total_norm(many, 2.0, out)
    assert np.isinf(out)
    many[3][2, 6] = np.nan
    for p in (1.0, 2.0, np.inf):
        clip.total_norm(many, p, out)
        assert np.isnan(out)
    clip.scale_by_norm(many, out, 1.0)
    assert np.isnan(many[0]).all()


def test_none_at_all_and_what_does_not_fit(rng):
    out = np.empty((), "f")
    clip.total_norm([], 2.0, out)
    assert out == 0
    with pytest.raises(ValueError, match="takes the norms"):
        clip.total_norm([], 3.0, out)
    with pytest.raises(ValueError, match="contiguous floating-point arrays"):
        clip.total_norm([np.ones((4, 4), "f")[:, ::2]], 2.0, out)
