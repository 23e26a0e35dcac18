"""``torch`` as another name for core: for a block, from now on, and for a whole program."""

from __future__ import annotations

import importlib
import importlib.metadata
import subprocess
import sys
import types
from pathlib import Path

import pytest

import core
from core.alias import PLACES
from core.base.pytorch import libraries, pytorch
from core.version import MEANING, TorchVersion

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def without_pytorch(monkeypatch):
    """A PyTorch that another test has imported is set aside."""
    for name in [n for n in sys.modules if n.partition(".")[0] == "torch"]:
        monkeypatch.delitem(sys.modules, name)


def test_modules_are_cores_own_and_come_through_unchanged():
    spec = core.nn.functional.__spec__
    with core.as_torch():
        import torch
        import torch.nn.functional as F
        from torch.utils.data import DataLoader

        assert F is core.nn.functional
        assert torch.nn is core.nn
        assert DataLoader is core.utils.data.DataLoader
        assert torch.Tensor is core.Tensor
        assert torch.torch is torch
    assert spec is core.nn.functional.__spec__
    assert core.nn.functional.__name__ == "core.nn.functional"


def test_the_version_is_that_whose_meaning_the_names_have():
    with core.as_torch():
        import torch

        assert torch.__version__ == MEANING != core.__version__
        assert importlib.metadata.version("torch") == MEANING
        assert importlib.util.find_spec("torch") is not None


@pytest.mark.parametrize("path", PLACES)
def test_files_that_core_divides_otherwise_have_the_names_of_their_package(path):
    with core.as_torch():
        module = importlib.import_module(f"torch.{path}")
        package = importlib.import_module(f"core.{PLACES[path]}".rstrip("."))
        name = next(n for n in getattr(package, "__all__", vars(package)) if not n.startswith("_"))
        assert getattr(module, name) is getattr(package, name)
        with pytest.raises((AttributeError, NotImplementedError)):  # parts for many processes refuse when they are used
            module.nobody_has_this()


@pytest.mark.parametrize("name", ["torch.nobody", "torch.nn.nobody", "torch.nn.functional.nobody"])
def test_what_core_lacks_is_an_import_error(name):
    with core.as_torch():
        with pytest.raises(ModuleNotFoundError, match=r"as_torch.*needed: a module of PyTorch's that core has") as told:
            importlib.import_module(name)
        assert told.value.name == name
        import torch

        with pytest.raises(AttributeError, match="module 'torch' has no attribute 'nobody'"):
            torch.nobody  # noqa: B018
        assert not hasattr(torch, "nobody")


def test_a_pytorch_that_is_there_is_left_alone(monkeypatch):
    other, part = types.ModuleType("torch"), types.ModuleType("torch.nn")
    monkeypatch.setitem(sys.modules, "torch", other)
    monkeypatch.setitem(sys.modules, "torch.nn", part)
    assert pytorch() is other
    assert libraries() == [other, core]
    with core.as_torch():
        import torch

        assert torch is not other
        assert pytorch() is None
        assert libraries() == [core]
    assert sys.modules["torch"] is other
    assert sys.modules["torch.nn"] is part
    assert not any(type(f).__module__ == "core.alias" for f in sys.meta_path)


def test_what_a_package_sets_is_seen_by_both_names(monkeypatch):
    with core.as_torch():
        import torch

        torch.put_here = 3
        assert core.put_here == 3
        del torch.put_here
        assert not hasattr(core, "put_here")
        assert "ones" in dir(torch)
        space: dict[str, object] = {}
        exec("from torch import *", space)
        assert space["ones"] is core.ones


def test_seeds_are_pytorchs_unless_others_are_asked_for():
    before = core.default_generator.kind
    with core.as_torch():
        core.manual_seed(0)
        assert core.rand(3).tolist() == pytest.approx([0.4963, 0.7682, 0.0885], abs=1e-4)
        assert core.Generator().kind == "torch"
    assert core.default_generator.kind == before == core.Generator().kind
    with core.as_torch(seeds="philox"):
        core.manual_seed(0)
        assert core.default_generator.kind == "philox"
    with pytest.raises(ValueError, match="unknown kind of generator 'dice'"):
        core.as_torch(seeds="dice")
    assert not any(type(f).__module__ == "core.alias" for f in sys.meta_path)


def test_versions_compare_as_numbers():
    version = TorchVersion("2.13.0+cpu")
    assert version > "2.9"
    assert version >= (2, 13)
    assert version < "3"
    assert version <= "2.13.1"
    assert version == "2.13.0"
    assert version != "2.12"
    assert version != 2.13
    assert hash(version) == hash("2.13.0+cpu")


@pytest.mark.parametrize("as_module", [False, True])
def test_a_program_runs_as_it_would_with_python(tmp_path, as_module):
    (tmp_path / "helper.py").write_text("import torch\ntwo = torch.ones(2)\n")
    (tmp_path / "train.py").write_text(
        "import sys, torch, helper\nif __name__ == '__main__':\n    "
        "print(sys.argv[1:], helper.two, torch.__version__)\n"
    )
    what = ["-m", "train"] if as_module else [str(tmp_path / "train.py")]
    done = subprocess.run([sys.executable, "-m", "core", "run", *what, "--lr", "1"], cwd=tmp_path, text=True,
                          capture_output=True, env={"PYTHONPATH": str(ROOT), "PATH": ""})  # fmt: skip
    assert done.stdout == f"['--lr', '1'] tensor([1., 1.]) {MEANING}\n", done.stderr


def test_processes_that_a_program_starts_have_core_too(tmp_path):
    (tmp_path / "train.py").write_text(
        "import dataclasses, torch, torch.multiprocessing as mp\n"
        "@dataclasses.dataclass\nclass Told:\n    x: int = 1\n"
        "def work(rank, told):\n    kind = dataclasses.fields(Told)[0].type\n"
        "    print(rank, torch.__stands_for__, told, kind, flush=True)\n"
        "if __name__ == '__main__':\n    mp.spawn(work, (Told(2),), nprocs=2)\n"
    )
    done = subprocess.run([sys.executable, "-m", "core", "run", "train.py"], cwd=tmp_path, text=True,
                          capture_output=True, env={"PYTHONPATH": str(ROOT), "PATH": ""})  # fmt: skip
    assert sorted(done.stdout.splitlines()) == [f"{k} core Told(x=2) <class 'int'>" for k in range(2)], done.stderr


def test_a_run_without_a_program_says_what_is_needed():
    for given in ([], ["-m"]):
        with pytest.raises(SystemExit, match="needs a program"):
            core.alias.run(given)


def test_a_file_does_not_take_the_place_of_the_function_it_is_called_by():
    before = core.nn.utils.weight_norm
    with core.as_torch():
        from torch.nn.utils.weight_norm import weight_norm

        assert weight_norm is before is core.nn.utils.weight_norm
    assert core.nn.utils.weight_norm is before
    core.nn.utils.put_here = 1
    del core.nn.utils.put_here
