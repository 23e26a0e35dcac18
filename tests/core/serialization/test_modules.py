"""Whole modules in files: what comes back, that nothing of a class runs, and what is refused."""

from __future__ import annotations

import dataclasses
import io
import sys
import types

import numpy as np
import pytest

import core
from core import nn
from core.nn import functional as F
from core.serialization import LoadError

from .test_hostile import archive


@dataclasses.dataclass
class Config:
    width: int = 4
    act: str = "gelu"


class Net(nn.Module):
    made = 0

    def __init__(self, config: Config) -> None:
        super().__init__()
        type(self).made += 1
        self.config = config
        self.embedding = nn.Embedding(7, config.width)
        self.block = nn.ModuleList([nn.TransformerEncoderLayer(config.width, 2, 8, batch_first=True)])
        self.head = nn.Linear(config.width, 7, bias=False)
        self.head.weight = self.embedding.weight
        self.act = F.relu
        self.squash = core.tanh
        self.register_buffer("mask", core.ones(3), persistent=False)

    def forward(self, x):
        for block in self.block:
            y = block(self.embedding(x))
        return self.squash(self.head(self.act(y)))


def there_and_back(x, **how):
    f = io.BytesIO()
    core.save(x, f)
    f.seek(0)
    return core.load(f, weights_only=False, **how)


def test_a_module_comes_back_whole(tmp_path):
    core.manual_seed(0)
    model = Net(Config(4)).eval()
    before = Net.made
    x = core.tensor([[1, 2, 3]])
    core.save(model, tmp_path / "model.pt")
    core.save(model, tmp_path / "best.model")
    for path in (tmp_path / "model.pt", tmp_path / "best.model", io.BytesIO((tmp_path / "model.pt").read_bytes())):
        got = core.load(path, weights_only=False)
        assert type(got) is Net
        assert Net.made == before, "its __init__ does not run"
        assert got.config == Config(4)
        assert got.head.weight is got.embedding.weight, "shared parameters are one again"
        assert not got.training
        np.testing.assert_array_equal(got(x).detach().numpy(), model(x).detach().numpy())
        assert set(got.state_dict()) == set(model.state_dict())
    got.train()
    optimizer = core.optim.SGD(got.parameters(), 0.1)
    got(x).sum().backward()
    optimizer.step()
    moved = got.embedding.weight.detach() - model.embedding.weight.detach()
    np.testing.assert_allclose(moved.numpy(), -0.1 * got.embedding.weight.grad.numpy(), atol=1e-6)
    assert moved.abs().max() > 0


def test_a_checkpoint_with_a_module_in_it():
    got = there_and_back({"epoch": 3, "model": nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2))})
    assert got["epoch"] == 3
    assert got["model"](core.ones(1, 1, 4, 4)).shape == (1, 2, 2, 2)


def test_modules_need_to_be_asked_for(tmp_path):
    core.save(nn.Linear(2, 2), tmp_path / "model.pt")
    with pytest.raises(LoadError, match=r"torch.nn.Linear was not an allowed(?s:.*)or weights_only=False"):
        core.load(tmp_path / "model.pt")
    with pytest.raises(TypeError, match=r"state_dict\(\).*\.pt"):
        core.save(nn.Linear(2, 2), tmp_path / "model.safetensors")


def test_what_is_refused_within_a_module():
    model = nn.Linear(2, 2)
    model.after = lambda x: x
    with pytest.raises(TypeError, match="function at after"):
        there_and_back(model)
    model.after = print
    with pytest.raises(TypeError, match=r"builtin_function.*at after"):
        there_and_back(model)


def test_a_class_that_is_gone_is_named():
    f = io.BytesIO()
    module = types.ModuleType("a_module_of_users")
    sys.modules[module.__name__] = module
    try:
        exec("from core import nn\nclass Mine(nn.Module): pass", vars(module))
        core.save(module.Mine(), f)
    finally:
        del sys.modules[module.__name__]
    f.seek(0)
    with pytest.raises(LoadError, match=r"a_module_of_users.Mine was not(?s:.*)has defined"):
        core.load(f, weights_only=False)


def test_nothing_is_imported_or_called():
    made = b"\x80\x02c%s\n%s\n)\x81}b."
    for module, name in ((b"subprocess", b"Popen"), (b"antigravity", b"Module"), (b"collections", b"UserDict"),
                         (b"tests.core.serialization.test_modules", b"io.BytesIO")):  # fmt: skip
        with pytest.raises(LoadError, match="not an allowed global"):
            core.load(archive(made % (module, name)), weights_only=False)
    assert "antigravity" not in sys.modules
    for function in (b"ctorch\ntanh\n", b"ctorch.nn.functional\nrelu\n", b"ctorch.nn\nLinear\n"):
        with pytest.raises(LoadError, match="a call of"):
            core.load(archive(b"\x80\x02" + function + b"(K\x01tR."), weights_only=False)
    for state in (b"K\x01", b"]", b"(K\x01K\x02d"):
        with pytest.raises(LoadError, match="no dict"):
            core.load(archive(b"\x80\x02ctorch.nn\nLinear\n)\x81" + state + b"b."), weights_only=False)
    with pytest.raises(LoadError):
        core.load(archive(b"\x80\x02ctorch.nn\nLinear\n(K\x01t\x81}b."), weights_only=False)
