"""`shrink`: what is measured of which variant, what is refused, and that the model stays as it is."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

import core
import lab
from core import nn
from lab.shrinking import shrink as module
from widgets.shrunk import Shrunk, Variant


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROUND_S", 1e-4)


def model() -> Any:
    core.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 4))


DATA = (core.rand(80, 16), core.arange(80) % 4)


def test_every_variant_has_its_figures_and_the_model_stays() -> None:
    net = model()
    before = {k: v.clone() for k, v in net.state_dict().items()}
    seen: list[int] = []
    net[0].register_forward_hook(lambda m, x, y: seen.append(1))
    core.manual_seed(7)
    wanted = core.rand(1)
    core.manual_seed(7)
    found = lab.shrink(net, DATA)
    assert core.equal(core.rand(1), wanted)
    assert net.training
    assert all(core.equal(v, before[k]) for k, v in net.state_dict().items())
    assert found.view.measure == "accuracy"
    made = [v for v in found.view.variants if not v.refusal]
    assert {"float32", "bf16", "pruned 50 %"} <= {v.name for v in made}
    for v in made:
        assert v.size_bytes
        assert v.one_s
        assert v.many_s
        assert 0 <= (-1 if v.score is None else v.score) <= 1
        assert 0 <= (-1 if v.apart is None else v.apart) < 2
        assert v.name == "float32" or (v.code and [layer.name for layer in v.layers] == ["0", "3"])
    for v in found.view.variants:
        assert bool(v.refusal) != bool(v.size_bytes)
    assert found["bf16"].size_bytes == found["float32"].size_bytes // 2


def test_the_code_of_each_makes_it() -> None:
    net, (x, y) = model(), DATA
    found = lab.shrink(net, (x, y), title="net", data_title="(x, y)")
    for v in found.view.variants[1:]:
        if v.refusal:
            continue
        space = {"net": net, "x": x, "y": y}
        exec(v.code, space)
        assert module.size_of(space["small"]) == v.size_bytes, v.name


def test_pruned_variants_say_that_they_are_not_retrained_or_are() -> None:
    core.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 3))
    x = core.randn(400, 8)
    y = x[:, :3].argmax(1)
    optimizer = core.optim.AdamW(net.parameters(), lr=1e-2)
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
    before = {k: v.clone() for k, v in net.state_dict().items()}
    plain = lab.shrink(net, (x, y), variants=["pruned-75"])
    assert plain["pruned 75 %"].note.endswith("of the parameters, not retrained")
    assert "not retrained" in plain._repr_mimebundle_()["text/html"]
    assert "were not trained afterwards" in str(plain)
    trained = lab.shrink(net, (x, y), variants=["pruned-75"], retrain=150)
    assert trained["pruned 75 %"].note.endswith("of the parameters, retrained")
    assert trained["pruned 75 %"].score > plain["pruned 75 %"].score + 0.05
    assert "trained for 150 steps" in trained.view.foot[-1]
    assert "on 100 items" in trained.view.foot[0]  # the last quarter
    assert all(core.equal(v, before[k]) for k, v in net.state_dict().items())
    assert all(p.grad is not None for p in net.parameters())  # the user's own, as they were


def test_without_targets_outputs_are_compared() -> None:
    found = lab.shrink(model(), DATA[0], variants=["bf16"])
    assert [v.name for v in found.view.variants] == ["float32", "bf16"]
    assert found.view.measure == ""
    assert 0 < found["bf16"].apart < 0.02
    assert "difference of outputs" in found.view.foot[0]


def test_a_measure_of_ones_own() -> None:
    def error(output: Any, target: Any) -> Any:
        return (output[:, 0] - target).abs().mean()

    found = lab.shrink(model(), DATA, metric=error, variants=["bf16"])
    assert (found.view.measure, found.view.higher) == ("error", False)
    assert found["bf16"].score == pytest.approx(found["float32"].score, rel=0.05)
    assert lab.shrink(model(), (DATA[0], core.rand(80, 4)), variants=["bf16"]).view.measure == "mse"


@pytest.mark.parametrize(
    ("net", "data", "how", "said"),
    [
        (len, DATA, {}, "the model is builtin_function_or_method; needed: a module"),
        (model(), DATA, {"variants": ["int7"]}, "there is no variant 'int7'"),
        (model(), DATA, {"metric": "f1"}, "--metric 'f1' is not known"),
        (model(), DATA[0], {"metric": "accuracy"}, "a metric needs targets"),
        (model(), DATA[0], {"retrain": 5}, "--retrain needs targets"),
        (model(), DATA, {"retrain": 5, "metric": lambda output, target: 0.0}, "no loss is known for the measure"),
        (model(), (DATA[0], core.rand(80)), {}, "no measure is known for outputs of (80, 4)"),
    ],
)
def test_what_is_refused(net: Any, data: Any, how: dict[str, Any], said: str) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^shrink: ") as caught:
        lab.shrink(net, data, **how)
    assert said in str(caught.value)


def test_a_variant_that_cannot_be_made_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(16, 4)

        def forward(self, x: Any) -> Any:
            return self.layer(x)

    found = lab.shrink(Fixed(), DATA, variants=["pruned-50"])
    assert "nothing can be removed from this model" in found["pruned 50 %"].refusal
    assert found["pruned 50 %"].remedy
    assert "✕ nothing can be removed" in str(found)


def test_a_model_that_cannot_be_copied() -> None:
    net = model()
    net.log = io.open(0, closefd=False)  # noqa: SIM115, UP020
    found = lab.shrink(net, DATA)
    assert found.view.state == "failed"
    assert "the model cannot be copied" in str(found)


def test_the_smallest_that_is_as_good_and_no_slower_is_recommended() -> None:
    def judged(*variants: Variant) -> str:
        view = Shrunk("m", measure="accuracy", variants=list(variants))
        module._judge(view)
        return view.chosen

    whole = Variant("float32", 100, 1.0, 1.0, 0.9)
    assert judged(whole, Variant("a", 50, 1.05, 1.0, 0.895), Variant("b", 25, 1.0, 1.0, 0.88)) == "a"
    assert judged(whole, Variant("slow", 25, 1.0, 2.0, 0.9)) == "float32"
    assert judged(whole, Variant("none", refusal="why")) == "float32"
    assert judged(whole, Variant("by chance", 25, 1.0, 1.0, 0.9, apart=0.7)) == "float32"


def test_a_model_of_pytorch_is_measured_as_far_as_it_goes() -> None:
    torch = pytest.importorskip("torch")
    net = torch.nn.Sequential(torch.nn.Linear(16, 4))
    found = lab.shrink(net, (np.zeros((40, 16), np.float32), np.zeros(40, int)), variants=["bf16", "pruned-50"])
    assert found["bf16"].size_bytes * 2 == found["float32"].size_bytes
    assert "made of models of core" in found["pruned 50 %"].refusal
    assert "import core as torch" in found["pruned 50 %"].remedy


def test_a_model_that_is_quantised_already_stays_as_it_is():
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))
    core.quantize_(model, core.ao.quantization.Int4WeightOnlyConfig(group_size=32))
    found = lab.shrink(model, core.rand(40, 64), variants=["int4", "int8 weight-only"])
    assert found.view.chosen == found.view.variants[0].name
    assert found.view.said.startswith("Stay with")
