"""Models in folders and files: verified before they are used, with names mapped, and no network."""

from __future__ import annotations

import json
import re

import pytest

import core
from core import hub, nn
from core.base.errors import LoadError


class Net(nn.Module):
    def __init__(self, hidden=4):
        super().__init__()
        self.blocks = nn.Sequential(nn.Linear(3, hidden), nn.ReLU(), nn.Linear(hidden, 2))
        self.norm = nn.LayerNorm(2)

    def forward(self, x):
        return self.norm(self.blocks(x))


@pytest.fixture(params=["folder", "one.zip"])
def place(request, tmp_path):
    return tmp_path / request.param


def same(a, b):
    x = core.rand(5, 3)
    return core.equal(a(x), b(x))


def test_a_module_comes_back(place):
    net = Net(6)
    hub.save(place, net, version="1.2", description="For three numbers.")
    assert same(hub.load(place, Net, hidden=6), net)
    assert same(hub.load(place, Net, 6), net)
    assert same(hub.load(place, Net(6)), net)
    assert set(hub.load(place)) == set(net.state_dict())
    assert hub.list(place) == ["Net"]
    assert re.fullmatch(r"Net 1\.2: weights of .*test_hub:Net\nFor three numbers\.", hub.help(place))


def test_a_program_comes_back(place):
    net = Net()
    program = core.export(net, (core.rand(2, 3),), dynamic={"x": {0: "batch"}})
    hub.save(place, program, name="net")
    again = hub.load(place)
    assert isinstance(again, core.export.Program)
    assert same(again, net)
    assert hub.list(place) == ["net"]
    assert "a program" in hub.help(place)
    with pytest.raises(TypeError, match="is a program, which takes no model"):
        hub.load(place, Net)


def test_tied_weights_come_back(place):
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    net[1].weight = net[0].weight
    hub.save(place, net)
    assert same(hub.load(place, lambda: nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))), net)


def test_what_was_damaged_is_refused_before_it_is_used(tmp_path):
    hub.save(tmp_path, Net())
    whole = (tmp_path / "weights.safetensors").read_bytes()
    (tmp_path / "weights.safetensors").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(
        LoadError, match=r"is not the file that its manifest names: its SHA-256 is [0-9a-f]{64}, and not"
    ):
        hub.load(tmp_path, Net)
    (tmp_path / "weights.safetensors").write_bytes(whole[:-8])
    with pytest.raises(LoadError, match=r"has [\d,]+ bytes, and its manifest says"):
        hub.load(tmp_path, Net)
    (tmp_path / "weights.safetensors").write_bytes(whole + bytes(8))
    with pytest.raises(LoadError, match="has more than"):
        hub.load(tmp_path, Net)
    (tmp_path / "weights.safetensors").unlink()
    with pytest.raises(LoadError, match=r"lacks weights.safetensors"):
        hub.load(tmp_path, Net)


def test_one_file_that_was_damaged_is_refused(tmp_path):
    path = tmp_path / "net.zip"
    hub.save(path, Net())
    whole = path.read_bytes()
    for at in range(40, len(whole), 61):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        try:
            found = hub.load(path)
        except (LoadError, ValueError):
            continue
        assert set(found) == set(Net().state_dict())  # a byte between the records
    for cut in (0, 3, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(LoadError):
            hub.load(path)


@pytest.mark.parametrize(("change", "match"), [
    ({"format": "other"}, "not of the format 'gradlab model'"),
    ({"format_version": 9}, "of version 9, and this core reads 1"),
    ({"name": 3}, "has 3 for its name"),
    ({"files": {"../../secret": {}}}, "names the files"),
    ({"files": {"hubconf.py": {"size": 1, "sha256": ""}}}, "names the files"),
    ({"files": {"weights.safetensors": {"size": -1, "sha256": ""}}}, "does not tell the size"),
    ({"files": []}, "names the files"),
    ({"keys": [["a**b**", "x"]]}, "other wildcards"),
    ({"keys": [["*" * 9, "x"]]}, "other wildcards"),
    ({"keys": 7}, "folder"),
])  # fmt: skip
def test_a_manifest_that_is_wrong_is_refused(tmp_path, change, match):
    folder = tmp_path / "folder"
    hub.save(folder, Net())
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, **change}))
    with pytest.raises(LoadError, match=match):
        hub.load(folder, Net)


def test_a_manifest_that_is_no_json_is_refused(tmp_path):
    hub.save(tmp_path, Net())
    for said in (b"", b"[" * 100_000, b"\xff\xfe", b"[1]", b" " * 1_000_001):
        (tmp_path / "manifest.json").write_bytes(said)
        with pytest.raises(LoadError):
            hub.load(tmp_path, Net)


def test_the_class_of_a_manifest_is_never_imported(tmp_path):
    hub.save(tmp_path, Net())
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    (tmp_path / "evil.py").write_text("raise SystemExit('code of a manifest was run')")
    (tmp_path / "manifest.json").write_text(json.dumps({**manifest, "class": "evil:Net"}))
    assert "evil:Net" in hub.help(tmp_path)
    with pytest.raises(TypeError, match=r"weights of evil:Net, which needs its class"):
        hub.load(tmp_path, 3)


# -- names -------------------------------------------------------------------------------------------------------------


def test_names_are_mapped_by_the_manifest_and_by_the_caller(place):
    old = nn.ModuleDict({"module": Net()})
    hub.save(place, old, keys={"module.blocks": "blocks", "module.*": "*"})
    assert same(hub.load(place, Net), old["module"])
    hub.save(place, old)
    assert same(hub.load(place, Net, keys={"module": ""}), old["module"])


@pytest.mark.parametrize(("key", "rules", "wanted"), [
    ("a.b.c", {"a.b": "x"}, "x.c"),
    ("ab.c", {"a": "x"}, "ab.c"),
    ("a", {"a": "x"}, "x"),
    ("a.b", {"": "model"}, "model.a.b"),
    ("layer.3.gamma", {"layer.*.gamma": "blocks.*.weight"}, "blocks.3.weight"),
    ("x.y.gamma", {"**.gamma": "**.weight"}, "x.y.weight"),
    ("x.gamma.z", {"**.gamma": "**.weight"}, "x.weight.z"),
    ("a.b", {"a": "", "b": "no"}, "b"),
    ("w+1.b", {"w+1": "w"}, "w.b"),
])  # fmt: skip
def test_a_rule(key, rules, wanted):
    assert list(hub.mapped({key: 0}, rules)) == [wanted]


def test_two_parameters_of_one_name_are_refused():
    with pytest.raises(ValueError, match=r"two parameters would be named 'x.w'\n.*'a.w' and 'b.w'"):
        hub.mapped({"a.w": 0, "b.w": 1}, {"a": "x", "b": "x"})


def test_matching_ends_soon():
    assert list(hub.mapped({"a." * 5000 + "b": 0}, {"*.*.*.*.*.*.**.x": "y"})) == ["a." * 5000 + "b"]


def test_what_does_not_fit_is_told_by_name_with_the_rule(place):
    hub.save(place, nn.ModuleDict({"module": Net()}))
    with pytest.raises(RuntimeError, match=r"missing: blocks.0.weight, .*; unexpected: module.blocks.0.weight, "
                                           r"(.|\n)*keys=\{'module': ''\}"):  # fmt: skip
        hub.load(place, Net)
    hub.save(place, Net(5))
    with pytest.raises(
        RuntimeError, match=r"another shape: blocks.0.weight: \(5, 3\) in the file, \(4, 3\) in the model"
    ):
        hub.load(place, Net)
    with pytest.raises(RuntimeError, match="of another shape"):
        hub.load(place, Net, strict=False)
    hub.save(place, nn.ModuleDict({"norm": nn.LayerNorm(2)}))
    with pytest.warns(UserWarning, match="missing: blocks.0.weight"):
        hub.load(place, Net, strict=False)


# -- hubconf.py --------------------------------------------------------------------------------------------------------


@pytest.fixture
def repository(tmp_path):
    (tmp_path / "helper_of_hub.py").write_text("SIZE = 3\n")
    (tmp_path / "hubconf.py").write_text(
        'dependencies = ["numpy"]\nimport core\nfrom helper_of_hub import SIZE\n\n\ndef _hidden():\n    pass\n\n\n'
        'def linear(out=1):\n    """A layer."""\n    return core.nn.Linear(SIZE, out)\n'
    )
    return tmp_path


def test_a_local_hubconf_is_run_when_that_is_asked_for(repository):
    layer = hub.load(repository, "linear", source="local", out=2)
    assert (layer.in_features, layer.out_features) == (3, 2)
    assert hub.list(repository, source="local") == ["linear"]
    assert hub.help(repository, "linear", source="local") == "A layer."
    with pytest.raises(RuntimeError, match="Cannot find callable _hidden in hubconf\n  needed: one of linear"):
        hub.load(repository, "_hidden", source="local")
    (repository / "hubconf.py").write_text("dependencies = ['no_such_package_x']\n")
    with pytest.raises(RuntimeError, match="Missing dependencies: no_such_package_x"):
        hub.load(repository, "linear", source="local")


def test_a_hubconf_is_not_run_by_itself(repository):
    (repository / "hubconf.py").write_text("raise SystemExit('it was run')")
    for call in (
        lambda: hub.load(repository, "linear"),
        lambda: hub.list(repository),
        lambda: hub.help(repository, "l"),
    ):
        with pytest.raises(
            LoadError, match=r"has no manifest.json\n.*source='local' runs its hubconf.py; read it first"
        ):
            call()


def test_nothing_is_fetched():
    for call in (lambda: hub.load("pytorch/vision:v0.10", "resnet18"),
                 lambda: hub.list("pytorch/vision", source="github"),
                 lambda: hub.load("pytorch/vision", "resnet18", source="github", pretrained=True)):  # fmt: skip
        with pytest.raises(RuntimeError, match=r"does not fetch(.|\n)*git clone .*https://github.com/pytorch/vision"):
            call()
    with pytest.raises(ValueError, match="Unknown source"):
        hub.load("x", "y", source="gitlab")


def test_what_is_no_model_is_refused(tmp_path):
    with pytest.raises(TypeError, match="takes a module or a program"):
        hub.save(tmp_path / "x", {"w": core.ones(2)})
    with pytest.raises(ValueError, match="a program has no names"):
        hub.save(tmp_path / "x", core.export(lambda x: x, (core.ones(1),)), keys={"a": "b"})
    hub.save(tmp_path / "x", Net())
    with pytest.raises(TypeError, match="made none"):
        hub.load(tmp_path / "x", dict)
