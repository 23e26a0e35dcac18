"""Parametrizations, the older weight and spectral norm, fused layers and functional_call against PyTorch."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import core  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")
LAYERS = {
    "linear": (lambda t: t.nn.Linear(4, 6), (5, 4)),
    "wide": (lambda t: t.nn.Linear(6, 4), (5, 6)),
    "square": (lambda t: t.nn.Linear(4, 4), (5, 4)),
    "conv": (lambda t: t.nn.Conv2d(3, 4, 2), (2, 3, 4, 4)),
    "transposed": (lambda t: t.nn.ConvTranspose2d(3, 4, 2), (2, 3, 4, 4)),
}


def orthogonal(how: str | None, trivial: bool) -> Any:
    return lambda t, m: t.nn.utils.parametrizations.orthogonal(m, orthogonal_map=how, use_trivialization=trivial)


KINDS = {
    "weight_norm": lambda t, m: t.nn.utils.parametrizations.weight_norm(m),
    "weight_norm dim 1": lambda t, m: t.nn.utils.parametrizations.weight_norm(m, dim=1),
    "weight_norm of bias": lambda t, m: t.nn.utils.parametrizations.weight_norm(m, "bias"),
    "weight_norm of all": lambda t, m: t.nn.utils.parametrizations.weight_norm(m, dim=None),
    "spectral_norm": lambda t, m: t.nn.utils.parametrizations.spectral_norm(m),
    "spectral_norm 3": lambda t, m: t.nn.utils.parametrizations.spectral_norm(m, n_power_iterations=3, dim=1),
    "spectral_norm of bias": lambda t, m: t.nn.utils.parametrizations.spectral_norm(m, "bias", dim=0),
    "older weight_norm": lambda t, m: t.nn.utils.weight_norm(m),
    "older weight_norm dim": lambda t, m: t.nn.utils.weight_norm(m, dim=None),
    "older spectral_norm": lambda t, m: t.nn.utils.spectral_norm(m, n_power_iterations=2),
    **{f"orthogonal {h} {t}": orthogonal(h, t) for h in (None, "matrix_exp", "cayley", "householder")
       for t in (True, False)},
}  # fmt: skip


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("kind", KINDS)
def test_values_and_gradients(kind: str, layer: str) -> None:
    """The same draws, the same state, the same steps of descent, in training and in evaluation."""
    make, shape = LAYERS[layer]
    found = []
    for lib in (core, torch):
        torch.manual_seed(0)
        core.manual_seed(0, kind="torch")
        m = KINDS[kind](lib, make(lib).double())
        x = lib.tensor(np.random.default_rng(0).standard_normal(shape)).requires_grad_()
        values: dict[str, Any] = {}
        for step in range(3):
            m.train(step < 2)
            m.zero_grad()
            y = m(x)
            (y * y * y).sum().backward()
            values[f"y{step}"] = y.detach()
            values |= {f"grad of {n} {step}": p.grad.clone() for n, p in m.named_parameters()}
            with lib.no_grad():
                for p in m.parameters():
                    p -= 0.01 * p.grad
        values["x"] = x.grad
        values |= {f"state {k}": v for k, v in m.state_dict().items()}
        found.append({k: v.detach().numpy() for k, v in values.items()})
    core.manual_seed(0)
    assert list(found[0]) == list(found[1])
    for key, got in found[0].items():
        # torch.randn's float64 draws are those of float32 here and there; what is drawn is compared no closer
        np.testing.assert_allclose(got, found[1][key], rtol=1e-6, atol=1e-6, err_msg=key)


def test_assigning_and_taking_away() -> None:
    q = np.linalg.qr(np.random.default_rng(0).standard_normal((6, 4)))[0]
    for how, trivial in ((None, True), ("householder", False)):
        found = []
        for lib in (core, torch):
            m = lib.nn.utils.parametrizations.orthogonal(lib.nn.Linear(4, 6).double(), orthogonal_map=how,
                                                         use_trivialization=trivial)  # fmt: skip
            m.weight = lib.tensor(q)
            np.testing.assert_allclose(m.weight.detach().numpy(), q, atol=1e-9)
            lib.nn.utils.parametrize.remove_parametrizations(m, "weight")
            assert type(m) is lib.nn.Linear
            assert isinstance(m.weight, lib.nn.Parameter)
            found.append(list(m.state_dict()))
        assert found[0] == found[1]


def test_state_dicts_of_the_older_weight_norm_load() -> None:
    for lib in (core, torch):
        old = lib.nn.utils.weight_norm(lib.nn.Linear(3, 2))
        new = lib.nn.utils.parametrizations.weight_norm(lib.nn.Linear(3, 2))
        new.load_state_dict(old.state_dict())
        np.testing.assert_allclose(new.weight.detach().numpy(), old.weight.detach().numpy(), rtol=1e-6)


def test_fused_layers() -> None:
    rng = np.random.default_rng(0)
    for transpose, make, norm, shape in [
        (False, lambda t: t.nn.Conv2d(3, 4, 2, bias=False), lambda t: t.nn.BatchNorm2d(4), (2, 3, 5, 5)),
        (True, lambda t: t.nn.ConvTranspose2d(3, 4, 2), lambda t: t.nn.BatchNorm2d(4, affine=False), (2, 3, 5, 5)),
        (None, lambda t: t.nn.Linear(3, 4), lambda t: t.nn.BatchNorm1d(4), (2, 3)),
    ]:
        theirs, mine, a, b = make(torch).double(), make(core).double(), norm(torch).double(), norm(core).double()
        with torch.no_grad():
            for t in [*a.parameters(), a.running_mean, a.running_var]:
                t.uniform_(0.5, 2)
        for m, t in ((mine, theirs), (b, a)):
            m.load_state_dict({k: core.tensor(v.numpy()) for k, v in t.state_dict().items()})
            m.eval(), t.eval()
        x = rng.standard_normal(shape)
        fused = []
        for lib, layer, n in ((core, mine, b), (torch, theirs, a)):
            f = (lib.nn.utils.fuse_linear_bn_eval(layer, n) if transpose is None
                 else lib.nn.utils.fuse_conv_bn_eval(layer, n, transpose))  # fmt: skip
            np.testing.assert_allclose(f(lib.tensor(x)).detach().numpy(), n(layer(lib.tensor(x))).detach().numpy())
            fused.append(f.state_dict())
        for key, got in fused[0].items():
            np.testing.assert_allclose(got.numpy(), fused[1][key].numpy(), rtol=1e-9)


def test_initialisation() -> None:
    for shape, groups in [((4, 2, 3), 1), ((4, 2, 3), 2), ((6, 3, 2, 3), 3), ((2, 4, 3, 3, 3), 1)]:
        np.testing.assert_array_equal(core.nn.init.dirac_(core.empty(*shape), groups).numpy(),
                                      torch.nn.init.dirac_(torch.empty(*shape), groups).numpy())  # fmt: skip
    torch.manual_seed(0)
    core.manual_seed(0, kind="torch")
    np.testing.assert_allclose(core.nn.init.sparse_(core.empty(9, 5), 0.4).numpy(),
                               torch.nn.init.sparse_(torch.empty(9, 5), 0.4).numpy(), rtol=1e-5)  # fmt: skip
    core.manual_seed(0)


def _cases(lib: Any) -> list[Any]:
    """What users do wrong, and how it ends."""
    nn, p = lib.nn, lib.nn.utils.parametrize

    def module(forward: Any, inverse: Any = None) -> Any:
        methods = {"forward": lambda self, *x: forward(*x)}
        if inverse is not None:
            methods["right_inverse"] = lambda self, x: inverse(x)
        return type("Given", (nn.Module,), methods)()

    def register(what: Any, first: bool = False, **kwargs: Any) -> Any:
        layer = nn.Linear(3, 3)
        if first:
            p.register_parametrization(layer, "weight", module(lambda x: x))
        return p.register_parametrization(layer, "weight", what, **kwargs)

    whole = lambda x: x
    parts = [module(lambda x: x[:2]), module(lambda x: x.double()), module(lambda x: 3), module(whole, lambda x: x[:2]),
             module(whole, lambda x: 3), module(lambda x: x.float(), lambda x: x.double()),
             module(lambda a, b: a @ b, lambda w: (w[:, :2].clone(), w[:2].clone()))]  # fmt: skip
    f, layer, x = lib.func.functional_call, nn.Linear(2, 1), lib.ones(2)
    tied = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    tied[1].weight = tied[0].weight
    one = lib.ones(1, 2)
    o = nn.utils.parametrizations
    return [
        *[lambda q=q, k=k: register(q, **k) for q in parts for k in ({}, {"unsafe": True}, {"first": True})],
        lambda: p.register_parametrization(nn.Linear(3, 3), "nope", nn.Identity()),
        lambda: p.remove_parametrizations(nn.Linear(3, 3), "weight"),
        lambda: p.remove_parametrizations(register(parts[-1]), "weight", leave_parametrized=False),
        lambda: setattr(register(module(whole)), "weight", lib.ones(3, 3)),
        lambda: o.orthogonal(nn.Linear(3, 5), orthogonal_map="x"),
        lambda: o.orthogonal(nn.Linear(3, 5), "bias"),
        lambda: o.orthogonal(nn.Linear(3, 5, bias=False), "bias"),
        lambda: setattr(o.orthogonal(nn.Linear(3, 3), use_trivialization=False), "weight", lib.eye(3)),
        lambda: o.spectral_norm(nn.Linear(3, 5), n_power_iterations=0),
        lambda: o.spectral_norm(nn.Linear(3, 5), "nope"),
        lambda: o.spectral_norm(nn.Linear(3, 5), dim=3),
        lambda: o.weight_norm(nn.Linear(3, 5), "nope"),
        lambda: nn.utils.weight_norm(nn.utils.weight_norm(nn.Linear(3, 5))),
        lambda: nn.utils.remove_weight_norm(nn.Linear(3, 5)),
        lambda: nn.utils.spectral_norm(nn.utils.spectral_norm(nn.Linear(3, 5))),
        lambda: nn.utils.remove_spectral_norm(nn.Linear(3, 5)),
        lambda: nn.utils.fuse_conv_bn_eval(nn.Conv2d(2, 3, 1), nn.BatchNorm2d(3)),
        lambda: nn.utils.skip_init(nn.ReLU),
        lambda: nn.init.dirac_(lib.ones(4, 2)),
        lambda: nn.init.dirac_(lib.ones(5, 2, 3), 2),
        lambda: nn.init.sparse_(lib.ones(4, 2, 3), 0.5),
        lambda: f(layer, {"nope": x}, x, strict=True),
        lambda: f(layer, [{"weight": one}, {"weight": one}], x),
        lambda: f(layer, 3, x),
        lambda: f(layer, [3], x),
        lambda: f(layer, {"weight": 3}, x),
        lambda: f(layer, {"a.b": x}, x),
        lambda: f(tied, {"0.weight": lib.eye(2), "1.weight": lib.ones(2, 2)}, x),
        lambda: f(tied, {}, x, strict=True),
        lambda: lib.func.stack_module_state([]),
        lambda: lib.func.stack_module_state([layer, nn.ReLU()]),
        lambda: lib.func.stack_module_state([nn.Linear(2, 1).eval(), layer]),
    ]


def outcome(f: Any) -> tuple[str, str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            f()
    except Exception as e:
        return type(e).__name__, str(e).replace("torch.", "core.").replace("core.nn.", "nn.")
    return "fine", ""


def test_mistakes_end_alike() -> None:
    for i, (mine, theirs) in enumerate(zip(_cases(core), _cases(torch), strict=True)):
        got, want = outcome(mine), outcome(theirs)
        assert got[0] == want[0], (i, got, want)
        assert got[1].split("\n")[0] == want[1].split("\n")[0], i


def test_functional_call_with_tied_weights() -> None:
    for tie in (True, False):
        found = []
        for lib in (core, torch):
            m = lib.nn.Sequential(lib.nn.Linear(2, 2, bias=False), lib.nn.BatchNorm1d(2, affine=False),
                                  lib.nn.Linear(2, 2, bias=False)).double()  # fmt: skip
            m[0].weight.data.copy_(lib.eye(2))
            m[2].weight = m[0].weight
            given = {"2.weight": 3 * lib.eye(2).double(), "1.running_mean": lib.ones(2).double()}
            y = lib.func.functional_call(m, given, lib.tensor([[1.0, 2.0], [3.0, 5.0]]).double(), tie_weights=tie)
            found.append([y.detach().numpy(), given["1.running_mean"].numpy(), m[1].running_mean.numpy()])
        for got, want in zip(*found, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-9)
