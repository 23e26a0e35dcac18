"""`core.nn` against PyTorch: state dict keys, reprs, values and gradients of modules, initial weights."""

from __future__ import annotations

import copy
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import core  # noqa: E402


def both(make: Any) -> tuple[Any, Any]:
    """A module of each library, the same weights in both."""
    theirs, mine = make(torch).double(), make(core).double()
    mine.load_state_dict({k: core.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    return mine, theirs


def check(mine: Any, theirs: Any, *inputs: np.ndarray, rtol: float = 1e-9) -> None:
    """Equal outputs, equal gradients of inputs and parameters."""
    xs = [core.tensor(a, requires_grad=a.dtype.kind == "f") for a in inputs]
    ts = [torch.tensor(a, requires_grad=a.dtype.kind == "f") for a in inputs]
    y, t = mine(*xs), theirs(*ts)
    np.testing.assert_allclose(y.detach().numpy(), t.detach().numpy(), rtol=rtol, atol=1e-12)
    weights = np.cos(np.arange(t.numel())).reshape(tuple(t.shape))
    (y * core.tensor(weights)).sum().backward()
    (t * torch.tensor(weights)).sum().backward()
    for a, b in zip(xs, ts, strict=True):
        if b.grad is not None:
            np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=rtol, atol=1e-12)
    for (name, p), (other, q) in zip(mine.named_parameters(), theirs.named_parameters(), strict=True):
        assert name == other
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=rtol, atol=1e-12, err_msg=name)


MODULES = {
    "linear": (lambda t: t.nn.Linear(4, 3), (5, 4)),
    "linear without bias": (lambda t: t.nn.Linear(4, 3, bias=False), (2, 5, 4)),
    "identity": (lambda t: t.nn.Identity(54, unused=1), (3, 4)),
    "flatten": (lambda t: t.nn.Flatten(), (2, 3, 4)),
    "unflatten": (lambda t: t.nn.Unflatten(1, (3, 2)), (2, 6)),
    "relu": (lambda t: t.nn.ReLU(), (3, 4)),
    "relu6": (lambda t: t.nn.ReLU6(), (3, 4)),
    "leaky_relu": (lambda t: t.nn.LeakyReLU(0.2), (3, 4)),
    "elu": (lambda t: t.nn.ELU(0.7), (3, 4)),
    "gelu": (lambda t: t.nn.GELU(), (3, 4)),
    "gelu tanh": (lambda t: t.nn.GELU("tanh"), (3, 4)),
    "silu": (lambda t: t.nn.SiLU(), (3, 4)),
    "sigmoid": (lambda t: t.nn.Sigmoid(), (3, 4)),
    "tanh": (lambda t: t.nn.Tanh(), (3, 4)),
    "softplus": (lambda t: t.nn.Softplus(2.0, 10.0), (3, 4)),
    "softmax": (lambda t: t.nn.Softmax(dim=1), (3, 4)),
    "log_softmax": (lambda t: t.nn.LogSoftmax(dim=0), (3, 4)),
    "logsigmoid": (lambda t: t.nn.LogSigmoid(), (3, 4)),
    "hardtanh": (lambda t: t.nn.Hardtanh(-0.5, 0.8), (3, 4)),
    "layer_norm": (lambda t: t.nn.LayerNorm(4), (5, 4)),
    "layer_norm of two dimensions": (lambda t: t.nn.LayerNorm((3, 4), eps=1e-3), (2, 3, 4)),
    "layer_norm without bias": (lambda t: t.nn.LayerNorm(4, bias=False), (5, 4)),
    "layer_norm without weights": (lambda t: t.nn.LayerNorm(4, elementwise_affine=False), (5, 4)),
    "rms_norm": (lambda t: t.nn.RMSNorm(4, eps=1e-6), (5, 4)),
    "dropout in evaluation": (lambda t: t.nn.Dropout(0.3).eval(), (5, 4)),
    "sequential": (lambda t: t.nn.Sequential(OrderedDict(a=t.nn.Linear(4, 8), b=t.nn.Tanh())), (5, 4)),
    "nested": (lambda t: t.nn.Sequential(t.nn.Sequential(t.nn.Linear(4, 4), t.nn.GELU()), t.nn.LayerNorm(4)), (5, 4)),
}  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_a_module_computes_the_same(name: str, rng: np.random.Generator) -> None:
    make, shape = MODULES[name]
    mine, theirs = both(make)
    assert repr(mine) == repr(theirs)
    assert list(mine.state_dict()) == list(theirs.state_dict())
    check(mine, theirs, rng.normal(size=shape))


def test_a_bilinear_map_computes_the_same(rng: np.random.Generator) -> None:
    mine, theirs = both(lambda t: t.nn.Bilinear(3, 4, 2))
    assert repr(mine) == repr(theirs)
    check(mine, theirs, rng.normal(size=(5, 3)), rng.normal(size=(5, 4)))


@pytest.mark.parametrize("options", [{}, {"padding_idx": -3}])
def test_an_embedding_computes_the_same(options: dict[str, Any]) -> None:
    mine, theirs = both(lambda t: t.nn.Embedding(7, 3, **options))
    assert repr(mine) == repr(theirs)
    check(mine, theirs, np.array([[1, 4], [4, 6]]))


C, T = (6, 5), np.array([1, 0, 4, 2, -100, 3])
LOSSES = {
    "CrossEntropyLoss": [({}, C, T), ({"label_smoothing": 0.1}, C, T), ({"reduction": "sum"}, C, T),
                         ({"reduction": "none"}, C, T), ({"ignore_index": 2}, C, T.clip(0))],
    "NLLLoss": [({}, C, T), ({"reduction": "sum"}, C, T)],
    "MSELoss": [({}, C, None), ({"reduction": "none"}, C, None)],
    "L1Loss": [({}, C, None), ({"reduction": "sum"}, C, None)],
    "SmoothL1Loss": [({}, C, None), ({"beta": 0.3}, C, None)],
    "HuberLoss": [({}, C, None), ({"delta": 0.3, "reduction": "sum"}, C, None)],
    "BCELoss": [({}, C, "probability")],
    "BCEWithLogitsLoss": [({}, C, "probability"), ({"reduction": "sum"}, C, "probability")],
    "KLDivLoss": [({"reduction": "batchmean"}, C, "probability"), ({"reduction": "sum", "log_target": True}, C, None)],
}  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_computes_the_same(name: str, rng: np.random.Generator) -> None:
    for options, shape, target in LOSSES[name]:
        mine, theirs = getattr(core.nn, name)(**options), getattr(torch.nn, name)(**options)
        assert repr(mine) == repr(theirs)
        x = rng.uniform(0.05, 0.95, shape) if name == "BCELoss" else rng.normal(size=shape)
        if target is None:
            y = rng.normal(size=shape)
        elif isinstance(target, str):
            y = rng.uniform(0.05, 0.95, shape)
        else:
            y = target
        check(mine, theirs, x, y)


def test_weighted_losses_compute_the_same(rng: np.random.Generator) -> None:
    w = rng.uniform(0.5, 2.0, 5)
    x, t, p = rng.normal(size=C), T, rng.uniform(0.05, 0.95, C)
    for name in ("CrossEntropyLoss", "NLLLoss"):
        check(getattr(core.nn, name)(core.tensor(w)), getattr(torch.nn, name)(torch.tensor(w)), x, t)
    mine = core.nn.BCEWithLogitsLoss(weight=core.tensor(w), pos_weight=core.tensor(w))
    check(mine, torch.nn.BCEWithLogitsLoss(weight=torch.tensor(w), pos_weight=torch.tensor(w)), x, p)
    assert list(mine.state_dict()) == ["weight", "pos_weight"]


CONTAINERS = {
    "list": lambda t: t.nn.ModuleList([t.nn.Linear(2, 2), t.nn.Linear(2, 2), t.nn.ReLU(), t.nn.Linear(2, 2)]),
    "empty list": lambda t: t.nn.ModuleList(),
    "dict": lambda t: t.nn.ModuleDict({"b": t.nn.Linear(2, 3), "a": t.nn.Sequential(t.nn.ReLU())}),
    "doubled": lambda t: t.nn.Sequential(t.nn.Linear(2, 2), t.nn.Tanh()) * 2 + t.nn.Sequential(t.nn.ReLU()),
    "inserted": lambda t: t.nn.Sequential(t.nn.Linear(2, 2)).insert(0, t.nn.Tanh()).append(t.nn.ReLU()),
    "slice": lambda t: t.nn.Sequential(t.nn.Linear(2, 2), t.nn.Tanh(), t.nn.ReLU())[1:],
    "sequential of nothing": lambda t: t.nn.Sequential(),
    "in place": lambda t: t.nn.Sequential(t.nn.ReLU(inplace=True), t.nn.LeakyReLU(inplace=True), t.nn.ELU(inplace=True),
                                          t.nn.SiLU(True), t.nn.Hardtanh(inplace=True), t.nn.ReLU6(True),
                                          t.nn.Dropout(inplace=True)),
    "embeddings": lambda t: t.nn.ModuleList([t.nn.Embedding(3, 2, max_norm=1.0),
                                             t.nn.Embedding(3, 2, norm_type=1.0, sparse=True)]),
    "no dim": lambda t: t.nn.Sequential(t.nn.Softmax(), t.nn.LogSoftmax(), t.nn.RMSNorm((2, 3))),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_container_prints_and_is_named_the_same(name: str) -> None:
    mine, theirs = CONTAINERS[name](core), CONTAINERS[name](torch)
    assert repr(mine) == repr(theirs)
    assert list(mine.state_dict()) == list(theirs.state_dict())
    assert [n for n, _ in mine.named_modules()] == [n for n, _ in theirs.named_modules()]
    assert [n for n, _ in mine.named_parameters()] == [n for n, _ in theirs.named_parameters()]


def test_a_parameter_prints_the_same() -> None:
    values = [[1.0, 2.5], [-3.0, 0.0]]
    assert repr(core.nn.Parameter(core.tensor(values))) == repr(torch.nn.Parameter(torch.tensor(values)))


def _message(call: Any) -> tuple[str, str]:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - which one is compared
        call()
    return type(caught.value).__name__, str(caught.value).replace("torch.", "core.")


class _Odd:
    """Wrong uses of modules, written once for both libraries."""

    @staticmethod
    def before_init(t: Any) -> None:
        class M(t.nn.Module):
            def __init__(self) -> None:
                self.w = t.nn.Parameter(t.ones(1))

        M()

    @staticmethod
    def module_before_init(t: Any) -> None:
        class M(t.nn.Module):
            def __init__(self) -> None:
                self.m = t.nn.ReLU()

        M()

    @staticmethod
    def no_forward(t: Any) -> None:
        t.nn.Module()(1)

    @staticmethod
    def number_as_parameter(t: Any) -> None:
        t.nn.Linear(2, 2).weight = 3

    @staticmethod
    def number_as_module(t: Any) -> None:
        t.nn.Sequential(t.nn.ReLU()).__setattr__("0", 3)

    @staticmethod
    def name_with_dot(t: Any) -> None:
        t.nn.Module().add_module("a.b", t.nn.ReLU())

    @staticmethod
    def name_taken(t: Any) -> None:
        t.nn.Linear(2, 2).register_buffer("weight", t.ones(1))

    @staticmethod
    def no_module(t: Any) -> None:
        t.nn.Module().add_module("a", 3)

    @staticmethod
    def non_leaf(t: Any) -> None:
        p = t.nn.Parameter(t.ones(1))
        m = t.nn.Module()
        m.register_parameter("p", p * 2)

    @staticmethod
    def missing_attribute(t: Any) -> None:
        t.nn.Linear(2, 2).nothing  # noqa: B018

    @staticmethod
    def no_submodule(t: Any) -> None:
        t.nn.Sequential(t.nn.Linear(2, 2)).get_submodule("0.weight")

    @staticmethod
    def index_out_of_range(t: Any) -> None:
        t.nn.Sequential(t.nn.ReLU())[3]

    @staticmethod
    def state_of_another(t: Any) -> None:
        t.nn.Sequential(t.nn.Linear(2, 2)).load_state_dict(t.nn.Linear(2, 3).state_dict())

    @staticmethod
    def state_of_another_shape(t: Any) -> None:
        t.nn.Linear(2, 2).load_state_dict({"weight": t.ones(3, 2), "bias": 3})

    @staticmethod
    def state_that_is_no_dict(t: Any) -> None:
        t.nn.Linear(2, 2).load_state_dict([])

    @staticmethod
    def to_an_integer_type(t: Any) -> None:
        t.nn.Linear(2, 2).to(t.int64)

    @staticmethod
    def odd_training_mode(t: Any) -> None:
        t.nn.Linear(2, 2).train(3)

    @staticmethod
    def odd_dropout(t: Any) -> None:
        t.nn.Dropout(1.5)

    @staticmethod
    def odd_gain(t: Any) -> None:
        t.nn.init.calculate_gain("nothing")

    @staticmethod
    def fan_of_a_vector(t: Any) -> None:
        t.nn.init.xavier_uniform_(t.ones(3))


@pytest.mark.parametrize("name", [n for n in vars(_Odd) if not n.startswith("__")])
def test_a_wrong_use_raises_the_same(name: str) -> None:
    use = getattr(_Odd, name)
    kind, text = _message(lambda: use(core))
    assert (kind, text) == _message(lambda: use(torch))


def test_a_partial_state_loads_the_same() -> None:
    results = []
    for t in (core, torch):
        m = t.nn.Sequential(t.nn.Linear(2, 2), t.nn.Linear(2, 1))
        found = m.load_state_dict({"0.weight": t.ones(2, 2), "9.weight": t.ones(1), "x": t.ones(1)}, strict=False)
        results.append((found.missing_keys, found.unexpected_keys, repr(found), m[0].weight.tolist()))
    assert results[0] == results[1]


def test_hooks_are_called_with_the_same(rng: np.random.Generator) -> None:
    x = rng.normal(size=(3, 4)).astype(np.float32)
    logs = []
    weights = None
    for t in (core, torch):
        log: list[Any] = []
        m = t.nn.Sequential(t.nn.Linear(4, 2), t.nn.Tanh())
        if weights is None:
            weights = {k: v.numpy().copy() for k, v in m.state_dict().items()}
        m.load_state_dict({k: t.tensor(v) for k, v in weights.items()})

        def note(what: str, values: Any, log: list[Any] = log) -> None:
            log.append((what, [None if v is None else np.round(v.detach().numpy(), 5).tolist() for v in values]))

        m.register_forward_pre_hook(lambda mod, args: (args[0] * 2,))
        m[0].register_forward_hook(lambda mod, args, out, note=note: note("forward", [*args, out]))
        m[0].register_full_backward_pre_hook(lambda mod, g, note=note: note("backward pre", g))
        m[1].register_full_backward_hook(lambda mod, gi, go, note=note: (note("backward", [*gi, *go]), (gi[0] * 3,))[1])
        m.register_full_backward_hook(lambda mod, gi, go, note=note: note("whole", [*gi, *go]))
        inp = t.tensor(x, requires_grad=True)
        m(inp).sum().backward()
        note("leaves", [inp.grad, m[0].weight.grad])
        logs.append(log)
    assert [what for what, _ in logs[0]] == [what for what, _ in logs[1]]
    for (_, mine), (_, theirs) in zip(*logs, strict=True):
        for a, b in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(a, b, atol=2e-5)


def test_initial_weights_are_the_same_bits() -> None:
    for seed, make in enumerate([
        lambda t: t.nn.Linear(7, 5),
        lambda t: t.nn.Linear(64, 33, bias=False),
        lambda t: t.nn.Sequential(t.nn.Linear(10, 20), t.nn.ReLU(), t.nn.Linear(20, 3)),
        lambda t: t.nn.Bilinear(3, 4, 5),
        lambda t: t.nn.Linear(9, 4, dtype=t.float64),
    ]):  # fmt: skip
        torch.manual_seed(seed)
        core.manual_seed(seed, kind="torch")
        mine, theirs = make(core), make(torch)
        for (name, p), (_, q) in zip(mine.named_parameters(), theirs.named_parameters(), strict=True):
            np.testing.assert_array_equal(p.detach().numpy(), q.detach().numpy(), err_msg=name)


@pytest.mark.parametrize("fill", [
    lambda t, w: t.nn.init.uniform_(w, -0.3, 1.7),
    lambda t, w: t.nn.init.xavier_uniform_(w, gain=1.3),
    lambda t, w: t.nn.init.kaiming_uniform_(w, mode="fan_out", nonlinearity="relu"),
    lambda t, w: t.nn.init.constant_(w, 0.3),
    lambda t, w: t.nn.init.eye_(w),
])  # fmt: skip
def test_initialisation_fills_the_same_bits(fill: Any) -> None:
    torch.manual_seed(3)
    core.manual_seed(3, kind="torch")
    np.testing.assert_array_equal(fill(core, core.zeros(17, 9)).numpy(), fill(torch, torch.zeros(17, 9)).numpy())


def test_clipping_gives_the_same(rng: np.random.Generator) -> None:
    grads = [rng.normal(size=s) * 10 for s in ((3, 4), (5,), ())]
    for norm_type in (2.0, 1.0, float("inf"), 3.0):
        found = []
        for t in (core, torch):
            params = [t.nn.Parameter(t.tensor(np.zeros(g.shape))) for g in grads]
            for p, g in zip(params, grads, strict=True):
                p.grad = t.tensor(g)
            total = t.nn.utils.clip_grad_norm_(params, 1.5, norm_type)
            found.append([float(total), *(p.grad.numpy() for p in params)])
        for a, b in zip(*found, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)


def test_copies_behave_the_same() -> None:
    for t in (core, torch):
        m = t.nn.Linear(2, 2)
        m(t.ones(1, 2)).sum().backward()
        n = copy.deepcopy(m)
        assert n.weight is not m.weight
        assert n.weight.requires_grad
        assert n.weight.grad is None
        assert type(n.weight) is t.nn.Parameter
