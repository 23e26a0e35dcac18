"""Every op's own text runs on CuPy's stand-in as on NumPy: no array of the one library meets the other."""

from __future__ import annotations

from pathlib import Path

from tests.fake_gpu import run


def test_every_op_on_an_array_library_as_strict_as_cupy() -> None:
    seen = run(Path(__file__).with_name("on_double.py"), GRADLAB_NATIVE=0)
    assert seen["wrong"] == {}
    assert seen["cases"] > 400
    assert set(seen["fell"]) <= {"scatter_reduce"}  # ufunc.at, which the stand-in lacks
