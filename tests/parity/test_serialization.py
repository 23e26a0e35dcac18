"""Files go both ways between PyTorch and core: values, dtypes, sharing, strides, containers; and what is refused."""

from __future__ import annotations

import argparse
import collections
import io
import math
import random
import re
import types

import numpy as np
import pytest
import safetensors.torch
import torch

import core

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64",
          "complex64", "complex128"]  # fmt: skip


def from_torch(obj, **kwargs):
    f = io.BytesIO()
    torch.save(obj, f, **kwargs)
    f.seek(0)
    return core.load(f)


def to_torch(obj, **kwargs):
    f = io.BytesIO()
    core.save(obj, f, **kwargs)
    f.seek(0)
    return torch.load(f, weights_only=True)


def same(a, b, path="") -> None:
    """That one is to core what the other is to PyTorch."""
    if isinstance(a, torch.Tensor | core.Tensor):
        assert isinstance(b, torch.Tensor | core.Tensor), path
        assert str(a.dtype).split(".")[1] == str(b.dtype).split(".")[1], path
        assert tuple(a.shape) == tuple(b.shape), path
        assert tuple(a.stride()) == tuple(b.stride()), path
        assert a.requires_grad == b.requires_grad, path
        assert type(a).__name__ == type(b).__name__, path
        wide = [x.detach().double() if "bfloat" in str(x.dtype) else x.detach() for x in (a, b)]
        np.testing.assert_array_equal(*(np.array(x.tolist()) for x in wide), err_msg=path)
    elif isinstance(a, torch.dtype | torch.device | core.dtype | core.device | torch.Size | core.Size):
        assert type(a).__name__ == type(b).__name__, path
        assert str(a).replace("torch", "core") == str(b).replace("torch", "core"), path
    elif isinstance(a, dict):
        assert type(a) is type(b), path
        assert list(a) == list(b), path
        for key in a:
            same(a[key], b[key], f"{path}[{key!r}]")
        assert list(vars(a) if hasattr(a, "__dict__") else ()) == list(vars(b) if hasattr(b, "__dict__") else ()), path
    elif isinstance(a, list | tuple | collections.deque):
        assert type(a) is type(b), path
        assert len(a) == len(b), path
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            same(x, y, f"{path}[{i}]")
    elif isinstance(a, np.ndarray | np.generic):
        assert type(a) is type(b), path
        assert a.dtype == b.dtype, path
        np.testing.assert_array_equal(a, b)
    else:
        assert type(a) is type(b), path
        assert a == b or (a != a and b != b), path


def objects(t) -> dict:
    """The same things made by either library."""
    x = t.arange(24.0).reshape(2, 3, 4)
    w = t.nn.Parameter(t.ones(2, 2))
    model = t.nn.Sequential(t.nn.Conv2d(1, 2, 3), t.nn.BatchNorm2d(2), t.nn.Linear(2, 2))
    with t.no_grad():
        for p in model.parameters():
            p.fill_(0.5)
    return {
        "dtypes": {d: t.tensor([0, 1, 2, 3]).to(getattr(t, d)) for d in DTYPES},
        "views": [x, x[0], x[:, 1], x.transpose(0, 2), x[:, :, ::2], x.reshape(-1)[5:9], t.ones(3).expand(2, 3)],
        "empty": [t.empty(0), t.empty(2, 0, 3), t.tensor(3.5), t.ones(1, 1).t()],
        "leaf": t.ones(2, requires_grad=True),
        "computed": t.ones(2, requires_grad=True) * 2,
        "parameter": w, "again": w, "frozen": t.nn.Parameter(t.zeros(1), requires_grad=False),
        "state": model.state_dict(), "kept": model.state_dict(keep_vars=True),
        "containers": [(), (1,), (1, 2), (1, 2, 3), (1, (2, [3, {}])), {"a": {"b": None}}, {1: 2, None: 3, (1, "a"): 4},
                       collections.OrderedDict(b=1, a=2), {1, 2, 3}, collections.Counter("aab"), True, False],
        "numbers": [0, 1, 255, 256, 65535, 65536, 2**31 - 1, 2**31, -1, -(2**31), 2**63, -(2**100), 2**1000, 0.1, -0.0,
                    math.inf, -math.inf, math.nan, 1j, 1e308],
        "texts": ["", "a", "äöü€", "\U0001f600", "a" * 300, b"", b"ab\xff\x00", bytearray(b"xyz")],
        "types": [t.float32, t.int64, t.bool, t.bfloat16, t.device("cpu"), t.device("cuda:1"), t.Size([1, 2])],
        "long": list(range(3000)), "wide": {f"k{i}": i for i in range(3000)},
    }  # fmt: skip


def test_what_torch_saved_is_loaded():
    theirs = objects(torch)
    same(theirs | {"computed": theirs["computed"].detach().requires_grad_()}, from_torch(theirs))


@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_pickle_protocols(protocol):
    theirs = objects(torch)
    del theirs["computed"]
    same(theirs, from_torch(theirs, pickle_protocol=protocol))


def test_the_format_before_1_6():
    theirs = objects(torch)
    del theirs["computed"]
    ours = from_torch(theirs, _use_new_zipfile_serialization=False)
    same(theirs, ours)
    ours["views"][1][0, 0] = 99
    assert ours["views"][0][0, 0, 0] == 99


def test_what_core_saved_is_loaded_by_torch():
    ours = objects(core)
    same(to_torch(ours), ours | {"computed": ours["computed"].detach().requires_grad_()})


@pytest.mark.parametrize("there", [from_torch, to_torch])
def test_what_shares_memory_goes_on_sharing(there):
    t = torch if there is from_torch else core
    x = t.zeros(4, 4)
    w = t.nn.Parameter(t.ones(2))
    loaded = there({"x": x, "row": x[1], "column": x[:, 2], "w": w, "same": w, "values": w.detach()})
    loaded["x"][1, 2] = 7
    assert loaded["row"][2] == loaded["column"][1] == 7
    assert loaded["w"] is loaded["same"]
    loaded["values"][0] = 9
    assert loaded["w"][0] == 9


def test_objects_that_contain_themselves():
    for there in (from_torch, to_torch):
        x = [1, {}]
        x[1]["x"] = x
        y = (x,)
        x.append(y)
        loaded = there([x, y])
        assert loaded[0][1]["x"] is loaded[0]
        assert loaded[1][0] is loaded[0]
        assert loaded[0][2] is loaded[1]


def test_numpy_arrays_and_numbers():
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(2, 3)), np.arange(6).reshape(2, 3).T, np.array(["a", "bcd"]), np.float32(2.5),
              np.int64(3), np.zeros((0, 2), np.uint16), np.array(1 + 2j), np.array([True]), np.arange(3, dtype=">i4"),
              np.array(["2020-01-01"], "M8[D]"), np.dtype("f4"), np.bool_(True)]  # fmt: skip
    for protocol in (2, 5):
        for a, b in zip(arrays, from_torch(arrays, pickle_protocol=protocol), strict=True):
            assert np.result_type(a) == np.result_type(b), (a, b)
            np.testing.assert_array_equal(a, b)
    f = io.BytesIO()
    core.save(arrays, f)
    f.seek(0)
    for a, b in zip(arrays, torch.load(f, weights_only=False), strict=True):
        np.testing.assert_array_equal(a, b)
    f.seek(0)
    for a, b in zip(arrays, core.load(f), strict=True):
        np.testing.assert_array_equal(a, b)


def test_rarer_containers():
    rare = [collections.defaultdict(list, {1: [2]}), collections.deque([1, 2], 5), frozenset((1, 2)), range(1, 9, 2),
            slice(1, None, 2), argparse.Namespace(lr=0.1), types.SimpleNamespace(a=1), int, dict]  # fmt: skip
    assert from_torch(rare) == rare
    f = io.BytesIO()
    core.save(rare[:5], f)
    f.seek(0)
    assert torch.load(f, weights_only=False) == rare[:5]


def test_dtypes_that_are_stored_alone_come_as_they_are_and_one_that_core_lacks_as_an_array():
    names = ["uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2"]
    theirs = {n: torch.tensor([0, 1, 2]).to(getattr(torch, n)) for n in names}
    ours = from_torch(theirs)
    for n in names:
        assert ours[n].dtype is getattr(core, n)
        assert ours[n].tolist() == [0, 1, 2]
    scale = from_torch(torch.tensor([1, 2]).float().to(torch.float8_e8m0fnu))
    assert isinstance(scale, np.ndarray)
    assert scale.astype("f4").tolist() == [1, 2]


def test_lazy_conjugates_and_attributes():
    z = torch.tensor([1 + 2j, 3 - 1j])
    ours = from_torch([z.conj(), z.imag.clone(), torch._neg_view(torch.ones(2))])
    assert ours[0].tolist() == z.conj().tolist()
    assert ours[1].tolist() == [2.0, -1.0]
    assert ours[2].tolist() == [-1.0, -1.0]
    p = torch.nn.Parameter(torch.ones(1))
    p.note = "kept"
    x = torch.ones(1)
    x.note = "this too"
    ours = from_torch([p, x])
    assert (ours[0].note, ours[1].note) == ("kept", "this too")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: torch.nn.Linear(2, 2), "torch.nn.modules.linear.Linear.*state_dict"),
        (lambda: torch.optim.SGD([torch.ones(1)]), "torch.optim.sgd.SGD"),
        (lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8), "quantised.*dequantize"),
        (lambda: torch.eye(2).to_sparse_bsr((1, 1)), "sparse"),
        (lambda: torch.nested.nested_tensor([torch.ones(1), torch.ones(2)]), "nested.*unbind"),
        (lambda: torch.empty(2, device="meta"), "meta.*no values"),
        (lambda: print, "builtins.print"),
        (lambda: collections.namedtuple, "collections.namedtuple"),
        (lambda: np.array([None, 1]), "dtype O"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore")
def test_what_is_refused_is_named(make, says):
    for zipped in (True, False):
        with pytest.raises(core.serialization.LoadError) as error:
            from_torch({"x": make()}, _use_new_zipfile_serialization=zipped)
        assert re.search(says, str(error.value).replace("\n", " ")), error.value


@pytest.mark.filterwarnings("ignore")
def test_programs_are_refused(tmp_path):
    torch.jit.save(torch.jit.script(torch.nn.ReLU()), tmp_path / "a.pt")
    with pytest.raises(core.serialization.LoadError, match="TorchScript"):
        core.load(tmp_path / "a.pt")


def test_checksums_may_be_left_out():
    torch.serialization.set_crc32_options(False)
    try:
        assert from_torch({"x": torch.ones(2)})["x"].tolist() == [1, 1]
    finally:
        torch.serialization.set_crc32_options(True)


def test_mapped_files(tmp_path):
    torch.save(objects(torch)["views"], tmp_path / "a.pt")
    ours = core.load(tmp_path / "a.pt", mmap=True)
    same(objects(torch)["views"], ours)
    ours[0].zero_()
    assert torch.load(tmp_path / "a.pt")[0].sum() == 276
    core.save(objects(core)["views"], tmp_path / "b.pt")
    same(torch.load(tmp_path / "b.pt", mmap=True), core.load(tmp_path / "b.pt", mmap=True))


OPTIMIZERS = ["SGD", "Adam", "AdamW", "Adagrad", "Adadelta", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop"]


@pytest.mark.parametrize("name", [n for n in OPTIMIZERS if hasattr(core.optim, n)])
def test_training_goes_on_in_the_other_library(name):
    """Three steps here, the checkpoint, three steps there: the weights of six steps in one."""
    settings = {"lr": 0.1} | ({"momentum": 0.9, "nesterov": True} if name == "SGD" else {})
    data = np.random.default_rng(0).normal(size=(6, 5, 3)).astype("f4")

    def start(t):
        model = t.nn.Linear(3, 2)
        with t.no_grad():
            for i, p in enumerate(model.parameters()):
                p.copy_(t.linspace(-1, 1, p.numel()).reshape(p.shape) * (i + 1))
        optimizer = getattr(t.optim, name)(model.parameters(), **settings)
        return model, optimizer, t.optim.lr_scheduler.CosineAnnealingLR(optimizer, 6)

    def steps(t, model, optimizer, scheduler, which):
        for a in data[which]:
            optimizer.zero_grad()
            model(t.tensor(a.tolist())).pow(2).mean().backward()
            optimizer.step()
            scheduler.step()

    whole = start(torch)
    steps(torch, *whole, slice(0, 6))
    for first, second, there in ((torch, core, from_torch), (core, torch, to_torch)):
        parts = start(first)
        steps(first, *parts, slice(0, 3))
        loaded = there({str(i): part.state_dict() for i, part in enumerate(parts)})
        others = start(second)
        for i, other in enumerate(others):
            other.load_state_dict(loaded[str(i)])
        steps(second, *others, slice(3, 6))
        for p, q in zip(whole[0].parameters(), others[0].parameters(), strict=True):
            np.testing.assert_allclose(q.detach().numpy(), p.detach().numpy(), rtol=2e-5, atol=1e-6)


def residual(t):
    """A small network of the ResNet kind."""
    nn = t.nn

    class Block(nn.Module):
        def __init__(self, a, b):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b)
            self.conv2, self.bn2 = nn.Conv2d(b, b, 3, padding=1, bias=False), nn.BatchNorm2d(b)
            self.downsample = nn.Sequential(nn.Conv2d(a, b, 1, bias=False), nn.BatchNorm2d(b))

        def forward(self, x):
            y = self.bn2(self.conv2(t.relu(self.bn1(self.conv1(x)))))
            return t.relu(y + self.downsample(x))

    return nn.Sequential(nn.Conv2d(3, 4, 3), Block(4, 8), Block(8, 8), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(8, 5))  # fmt: skip


def transformer(t):
    """A small network of the GPT kind, whose head is its embedding."""
    nn = t.nn

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte, self.wpe = nn.Embedding(11, 8), nn.Embedding(6, 8)
            self.ln, self.fc, self.proj = nn.LayerNorm(8), nn.Linear(8, 32), nn.Linear(32, 8)
            self.head = nn.Linear(8, 11, bias=False)
            self.head.weight = self.wte.weight

        def forward(self, i):
            x = self.wte(i) + self.wpe(t.arange(i.shape[1]))
            return self.head(x + self.proj(nn.functional.gelu(self.fc(self.ln(x)))))

    return GPT()


@pytest.mark.parametrize("build", [residual, transformer])
@pytest.mark.parametrize("form", ["pt", "old", "safetensors"])
def test_whole_models_both_ways(build, form, tmp_path):
    torch.manual_seed(0)
    theirs, ours = build(torch), build(core)
    if build is residual:
        x = np.random.default_rng(0).normal(size=(2, 3, 8, 8)).astype("f4")
        theirs(torch.tensor(x))  # the statistics move
    else:
        x = np.arange(6).reshape(1, 6)
    path = str(tmp_path / f"m.{'safetensors' if form == 'safetensors' else 'pt'}")
    if form == "safetensors":
        safetensors.torch.save_model(theirs, path)
    else:
        torch.save(theirs.state_dict(), path, _use_new_zipfile_serialization=form == "pt")
    state = core.load(path)
    tied = form == "safetensors" and build is transformer  # the library leaves the second name out
    ours.load_state_dict(state, strict=not tied)
    wanted = theirs.eval()(torch.tensor(x)).detach().numpy()
    np.testing.assert_allclose(ours.eval()(core.tensor(x)).detach().numpy(), wanted, rtol=2e-5, atol=2e-6)
    if form == "old":
        return
    again = build(torch)
    core.save(ours.state_dict(), path)
    if form == "safetensors":
        safetensors.torch.load_model(again, path)
    else:
        again.load_state_dict(torch.load(path, weights_only=True))
    np.testing.assert_array_equal(again.eval()(torch.tensor(x)).detach().numpy(), wanted)


def test_a_state_dict_in_safetensors_is_the_librarys(tmp_path):
    """The same names, order and bytes as `safetensors.torch.save_file`; ours only adds what it knows besides."""
    theirs = residual(torch).state_dict() | {f"d.{d}": torch.tensor([1, 0]).to(getattr(torch, d)) for d in DTYPES[:-1]}
    safetensors.torch.save_file(theirs, tmp_path / "a.safetensors")
    ours = core.load(tmp_path / "a.safetensors")
    assert set(ours) == set(theirs)
    for key in theirs:
        same(theirs[key], ours[key])
    core.save(ours, tmp_path / "b.safetensors")
    again = safetensors.torch.load_file(tmp_path / "b.safetensors")
    for key in theirs:
        same(again[key], ours[key])
    a, b = ((tmp_path / n).read_bytes() for n in ("a.safetensors", "b.safetensors"))
    assert a[8 + int.from_bytes(a[:8], "little") :] == b[8 + int.from_bytes(b[:8], "little") :]


def test_files_that_torch_wrote_and_chance_changed():
    """Whatever is changed, there is an answer or our error."""
    dice = random.Random(0)
    small = {k: v for k, v in objects(torch).items() if k not in ("long", "wide", "computed")}
    for zipped in (True, False):
        f = io.BytesIO()
        torch.save(small, f, _use_new_zipfile_serialization=zipped)
        whole = f.getvalue()
        refused = 0
        for _ in range(200):
            data = bytearray(whole)
            for _ in range(dice.choice((1, 1, 2, 8))):
                data[dice.randrange(len(data))] = dice.randrange(256)
            if dice.random() < 0.2:
                del data[dice.randrange(len(data)) :]
            try:
                core.load(io.BytesIO(bytes(data)))
            except core.serialization.LoadError:
                refused += 1
        assert refused > 50


MODULES = """Linear(4,3) Conv1d(2,3,3) Conv2d(2,3,3,padding=1,padding_mode='reflect') Conv2d(2,3,3,padding='same')
ConvTranspose2d(2,3,3) BatchNorm2d(2) GroupNorm(1,2) LayerNorm(4) RMSNorm(4) InstanceNorm2d(2,affine=True)
LSTM(4,5,2,bidirectional=True) GRU(4,5) RNN(4,5) MultiheadAttention(4,2) TransformerEncoderLayer(4,2)
TransformerEncoder(nn.TransformerEncoderLayer(4,2),2) TransformerDecoderLayer(4,2) Transformer(4,2,1,1,8)
Embedding(5,4) EmbeddingBag(5,4) PReLU() GELU() MaxPool2d(2) Upsample(scale_factor=2) ZeroPad2d(1)
Bilinear(4,4,3) CrossEntropyLoss() Sequential(nn.Linear(4,3),nn.ReLU(),nn.Dropout(0.5))"""


def inputs(said, lib):
    """What such a module is called with."""
    rng, name = np.random.default_rng(0), said.partition("(")[0]

    def real(*shape):
        return lib.from_numpy(rng.standard_normal(shape, dtype=np.float32))

    if "2d" in name or name == "Upsample":
        return (real(2, 2, 6, 6),)
    if name in ("Conv1d", "GroupNorm"):
        return (real(2, 2, 6),)
    if name in ("LSTM", "GRU", "RNN", "TransformerEncoder", "TransformerEncoderLayer"):
        return (real(3, 2, 4),)
    if name in ("MultiheadAttention", "TransformerDecoderLayer", "Transformer"):
        return (real(3, 2, 4),) * (3 if name == "MultiheadAttention" else 2)
    if name.startswith("Embedding"):
        return (lib.tensor([[0, 1], [2, 3]]),)
    if name == "CrossEntropyLoss":
        return real(2, 4), lib.tensor([0, 1])
    return (real(2, 4),) * (2 if name == "Bilinear" else 1)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor:UserWarning")
@pytest.mark.parametrize("said", MODULES.split())
@pytest.mark.parametrize("zipped", [True, False])
def test_a_whole_module_of_pytorch_is_read(said, zipped):
    made = eval(said, {**vars(torch.nn), "nn": torch.nn}).eval()
    f = io.BytesIO()
    torch.save(made, f, _use_new_zipfile_serialization=zipped)
    f.seek(0)
    got = core.load(f, weights_only=False)
    with torch.no_grad():
        wanted, found = made(*inputs(said, torch)), got(*inputs(said, core))
    for a, b in zip(wanted, found, strict=True) if isinstance(wanted, tuple) else [(wanted, found)]:
        if isinstance(a, torch.Tensor):
            np.testing.assert_allclose(b.detach().numpy(), a.numpy(), atol=1e-5)
    assert list(got.state_dict()) == list(made.state_dict())
