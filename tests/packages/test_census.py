"""The census of names: what it counts in a package, and what it says is there."""

from __future__ import annotations

from collections import Counter

from tests.packages import census


def written(folder, text, name="mine/a.py"):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_names_are_counted_by_package_and_tests_left_out(tmp_path):
    written(tmp_path, "import torch as t\nfrom torch.nn import functional as F\nF.relu(t.ones(2)).erfinv_()\n")
    written(tmp_path, "import torch\ntorch.zeros(1); torch.zeros(2)\n", "other/b.py")
    written(tmp_path, "import torch\ntorch.eye(1)\n", "other/tests/test_b.py")
    written(tmp_path, "import torch\ntorch.eye(1)\n", "docs/c.py")
    written(tmp_path, "import torch\ntorch.{{ name }}\n", "other/template.py")
    uses, importing = census.gather([tmp_path])
    assert importing == {"mine": 1, "other": 1}
    assert uses["torch.zeros"] == Counter(other=2)
    assert uses["torch.nn.functional.relu"] == uses["torch.ones"] == uses[".erfinv_"] == Counter(mine=1)
    assert "torch.eye" not in uses


def test_what_only_raises_refuses(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(census, "of_pytorch", lambda wanted: {})
    written(tmp_path, "import torch\ntorch.ones(1)\ntorch.no_such_name\ntorch.distributed.rpc.rpc_sync()\n"
                      "torch.ops.load_library('x')\ntorch._C.no\ntorch.float32.itemsize\n")  # fmt: skip
    table = census.judged(census.gather([tmp_path])[0])
    states = {n: r["state"] for n, r in table.items()}
    assert states["torch.ones"] == states["torch.float32"] == "there"
    assert states["torch.no_such_name"] == ""
    assert states["torch.distributed.rpc.rpc_sync"] == states["torch.ops.load_library"] == "refuses"
    assert table["torch._C.no"]["group"] == "private"
    census.main(["--path", str(tmp_path), "--json", str(tmp_path / "table.json")])
    said = capsys.readouterr().out
    assert "torch.no_such_name" in said
    assert "(refuses)" in said
    assert (tmp_path / "table.json").exists()
