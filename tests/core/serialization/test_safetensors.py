"""Files in safetensors against the library of that name: the same bytes, and each reads the other's."""

from __future__ import annotations

import json

import ml_dtypes
import numpy as np
import pytest

import core
from core.serialization import safetensors

library = pytest.importorskip("safetensors")
library_numpy = pytest.importorskip("safetensors.numpy")


def entries(tensors: dict[str, np.ndarray]) -> list[safetensors.Entry]:
    return [safetensors.Entry(k, safetensors.NAMES[a.dtype], a.shape, lambda a=a: a.reshape(-1).view(np.uint8))
            for k, a in tensors.items()]  # fmt: skip


def test_written_files_are_the_librarys_byte_by_byte(tmp_path, rng):
    tensors = {
        f"{d}.{shape}ü": rng.integers(0, 2, shape).astype(d)
        for d in ("bool", "u1", "i1", "u2", "i2", "f2", "u4", "i4", "f4", "c8", "u8", "i8", "f8")
        for shape in ((), (3,), (0, 2), (2, 3, 1))
    }
    for metadata in (None, {"format": "pt"}):
        library_numpy.save_file(tensors, tmp_path / "theirs", metadata)
        with open(tmp_path / "ours", "wb") as f:
            safetensors.write(f, entries(tensors), metadata)
        assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()


def header(path) -> dict:
    data = path.read_bytes()
    return json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])


def test_a_state_dict_has_its_own_names(tmp_path):
    model = core.nn.Sequential(core.nn.Linear(2, 3), core.nn.BatchNorm1d(3))
    path = tmp_path / "a.safetensors"
    core.save(model.state_dict(), path)
    theirs = library_numpy.load_file(path)
    assert set(theirs) == set(model.state_dict())
    for key, t in model.state_dict().items():
        assert (theirs[key] == t.numpy()).all()
    back = core.load(path)
    assert list(back) == list(model.state_dict()), "the order, too"
    assert back._metadata == model.state_dict()._metadata
    assert header(path)["__metadata__"]["format"] == "pt", "other libraries ask for it"


def test_nested_tensors_have_their_paths_for_names(tmp_path):
    x = core.ones(2)
    path = tmp_path / "a.safetensors"
    core.save({"model": {"0.weight": x}, "list": [core.zeros(1), {3: core.zeros(2)}], "tied": x, "epoch": 3}, path)
    theirs = library_numpy.load_file(path)
    assert sorted(theirs) == ["list.0", "list.1.3", "model.0.weight"]
    core.save({"a": {"b": core.ones(1)}, "a.b": core.zeros(1), "__metadata__": core.ones(3)}, path)
    assert sorted(library_numpy.load_file(path)) == ["__metadata__~2", "a.b", "a.b~2"]
    assert core.load(path)["__metadata__"].tolist() == [1, 1, 1]
    core.save(core.ones(2), path)
    assert list(library_numpy.load_file(path)) == ["value"]


def test_layouts_are_logical_for_others_and_kept_for_us(tmp_path):
    x = core.arange(6.0).reshape(2, 3)
    path = tmp_path / "a.safetensors"
    saved = {"t": x.t(), "every": x.clone()[:, ::2], "wide": core.ones(3, 1).expand(3, 2)}
    core.save(saved | {"pair": core.ones(1).to(core.complex128)}, path)
    theirs = library_numpy.load_file(path)
    assert theirs["t"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert theirs["every"].tolist() == [[0, 2], [3, 5]]
    assert theirs["wide"].tolist() == [[1, 1]] * 3
    assert theirs["pair"].tolist() == [[1, 0]]
    ours = core.load(path)
    assert ours["t"].stride() == (1, 3)
    assert ours["pair"].dtype is core.complex128
    assert [ours[k].tolist() for k in ("t", "every", "wide")] == [theirs[k].tolist() for k in ("t", "every", "wide")]


def test_what_the_library_wrote_is_loaded(tmp_path, rng):
    tensors = {d: rng.integers(0, 2, (2, 3)).astype(d) for d in ("bool", "u1", "i2", "f2", "f4", "c8", "i8", "f8")}
    path = tmp_path / "a.safetensors"
    library_numpy.save_file(tensors, path, {"by": "somebody"})
    for mmap in (False, True):
        ours = core.load(path, mmap=mmap)
        assert type(ours) is dict
        assert set(ours) == set(tensors)
        for key, a in tensors.items():
            assert ours[key].numpy().dtype == a.dtype
            assert (ours[key].numpy() == a).all()
        ours["f4"].add_(1)  # the file stays as it was
    assert (library_numpy.load_file(path)["f4"] == tensors["f4"]).all()


def test_float8_and_unsigned_numbers(tmp_path):
    names = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"]
    arrays = {n: np.array([1, 2, 0.5]).astype(getattr(ml_dtypes, n)) for n in names}
    arrays |= {n: np.array([1, 2**n - 1], f"uint{n}") for n in (16, 32, 64)}
    arrays = {str(k): v for k, v in arrays.items()} | {"bf": np.ones(2, ml_dtypes.bfloat16)}
    path = tmp_path / "a.safetensors"
    with open(path, "wb") as f:
        safetensors.write(f, entries(arrays))
    with library.safe_open(path, "np") as f:
        assert set(f.keys()) == set(arrays)
        assert f.get_slice("float8_e4m3fn").get_dtype() == "F8_E4M3"
    ours = core.load(path)
    assert ours.pop("bf").dtype is core.bfloat16
    scale = ours.pop("float8_e8m0fnu")  # the one that no tensor has
    assert type(scale) is np.ndarray
    assert (scale == arrays["float8_e8m0fnu"]).all()
    for key, x in ours.items():
        assert x.dtype is getattr(core, key if key.startswith("float") else f"uint{key}")
        assert (x._a == arrays[key]).all()
    core.save(ours, path)
    assert core.load(path)["float8_e5m2"].dtype is core.float8_e5m2


def test_a_file_whose_structure_somebody_took_out_still_loads(tmp_path):
    path = tmp_path / "a.safetensors"
    core.save({"model": {"w": core.ones(2)}, "epoch": 3}, path)
    library_numpy.save_file(library_numpy.load_file(path), path)
    assert core.load(path)["model.w"].tolist() == [1, 1]


def test_too_long_a_header_is_refused_with_the_remedy(tmp_path, monkeypatch):
    monkeypatch.setattr(safetensors, "_MAX_HEADER", 10_000)
    with pytest.raises(ValueError, match=r"(?s)limited to 100 MB.*as a tensor"):
        core.save(list(range(5000)), tmp_path / "a")
    assert list(tmp_path.iterdir()) == []
