"""Transforms, constraints, what leads to them, and the helpers of `core.distributions`, against PyTorch's."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import core  # noqa: E402

LIBRARIES = (torch, core)


def _names(lib: Any) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    made = {
        "x": rng.uniform(-2, 2, (2, 3)), "b": rng.uniform(0.3, 2, (2, 3)), "p": rng.uniform(0.1, 0.9, (2, 3)),
        "e": np.array([1.5, -0.7, 2.0]), "m": rng.uniform(-1, 1, (2, 3, 3)),
    }  # fmt: skip
    leaves = {n: lib.tensor(v) for n, v in made.items()}
    for n in leaves:
        leaves[n].requires_grad_()
    d = lib.distributions
    return {"D": d, "T": d.transforms, "C": d.constraints, "t": lib, **leaves}


def _said(thing: Any) -> str:
    """Its text, without the library's name and the layout of its tensors."""
    shown = re.sub(r"tensor\(.*?\)(?=[,)])", "tensor", str(thing), flags=re.DOTALL)
    return re.sub(r"\s+", " ", shown.replace("torch.", "core."))


def _tried(f: Any) -> Any:
    """What it gives, or the class of its error."""
    try:
        return f()
    except Exception as error:
        return type(error).__name__


# how to make it, and what it takes
TRANSFORMS = """
T.ExpTransform() | x
T.AbsTransform() | x
T.SigmoidTransform() | x
T.SigmoidTransform() | 1000 * x
T.TanhTransform() | x
T.SoftplusTransform() | x
T.SoftplusTransform() | 30 * x
T.PowerTransform(2.0) | b
T.PowerTransform(e) | b
T.AffineTransform(1.0, -2.0) | x
T.AffineTransform(x, b) | x
T.AffineTransform(1, 2, event_dim=1) | x
T.AffineTransform(x, b, event_dim=1) | x
T.SoftmaxTransform() | x
T.StickBreakingTransform() | x
T.CorrCholeskyTransform() | x
T.CorrCholeskyTransform() | x[:, :1]
T.LowerCholeskyTransform() | m
T.PositiveDefiniteTransform() | m
T.ReshapeTransform((3,), (3, 1)) | x
T.ReshapeTransform((2, 3), (6,)) | x
T.IndependentTransform(T.ExpTransform(), 1) | x
T.IndependentTransform(T.ExpTransform(), 2) | x
T.IndependentTransform(T.StickBreakingTransform(), 1) | x
T.CumulativeDistributionTransform(D.Normal(x, b)) | x
T.CumulativeDistributionTransform(D.Exponential(b)) | b
T.ComposeTransform([]) | x
T.identity_transform | x
T.ComposeTransform([T.ExpTransform(), T.AffineTransform(x, b)]) | x
T.ComposeTransform([T.AffineTransform(0, 2), T.StickBreakingTransform()]) | x
T.ComposeTransform([T.ExpTransform(), T.ReshapeTransform((3,), (1, 3)), T.AffineTransform(0, 2)]) | x
T.ComposeTransform([T.TanhTransform(), T.IndependentTransform(T.AffineTransform(0, b), 1)]) | x
T.CatTransform([T.ExpTransform(), T.AffineTransform(1, 2)], dim=-1, lengths=[1, 2]) | x
T.CatTransform([T.ExpTransform(), T.TanhTransform()]) | x
T.CatTransform([T.StickBreakingTransform(), T.StickBreakingTransform()], dim=0) | x
T.StackTransform([T.ExpTransform(), T.TanhTransform(), T.identity_transform], dim=-1) | x
T.StackTransform([T.ExpTransform(), T.TanhTransform()], dim=0) | x
T.ExpTransform().inv | b
T.AffineTransform(x, b).inv | x
T.ComposeTransform([T.ExpTransform(), T.AffineTransform(x, b)]).inv | x + 2 * b
T.StickBreakingTransform().inv | p / p.sum(-1, keepdim=True)
""".strip().splitlines()


def _transformed(lib: Any, case: str, cache_size: int) -> dict[str, Any]:
    make, _, value = case.partition(" | ")
    names = _names(lib)
    t, x = eval(make, names), eval(value, names)
    if cache_size:
        try:
            t = t.with_cache(cache_size)
        except Exception as error:
            return {"with_cache": type(error).__name__}
    y = t(x)
    found = {"y": y, "x": t.inv(y), "volume": _tried(lambda: t.log_abs_det_jacobian(x, y)),
             "back": _tried(lambda: t.inv.log_abs_det_jacobian(y, x))}  # fmt: skip
    row: dict[str, Any] = {
        "repr": _said(t), "inverse": _said(t.inv), "bijective": t.bijective, "cached": t.inv(y) is x,
        "turned": t.inv.inv is t, "domain": _said(t.domain), "codomain": _said(t.codomain),
        "event_dim": _tried(lambda: t.event_dim), "sign": _tried(lambda: np.asarray(t.sign).tolist()
                                                                 if isinstance(t.sign, int) else t.sign.tolist()),
        "forward": tuple(t.forward_shape(tuple(x.shape))), "back_shape": tuple(t.inverse_shape(tuple(y.shape))),
        "equal": (t == eval(make, names), t == names["T"].ExpTransform(), t != t),
        "in domain": t.codomain.check(y).tolist(),
    }  # fmt: skip
    for k, v in found.items():
        row[k] = v.detach().numpy() if hasattr(v, "detach") else v
        if hasattr(v, "requires_grad") and v.requires_grad:
            leaves = [names[n] for n in "xbpem"]
            weights = lib.arange(1.0, 1 + v.numel(), dtype=v.dtype).reshape(v.shape).cos()
            given = lib.autograd.grad((v * weights).sum(), leaves, allow_unused=True, retain_graph=True)
            row |= {f"grad {k} {n}": None if g is None else g.numpy() for n, g in zip("xbpem", given, strict=True)}
    return row


@pytest.mark.parametrize("cache_size", [0, 1])
@pytest.mark.parametrize("case", TRANSFORMS)
def test_transforms(case: str, cache_size: int) -> None:
    theirs, mine = (_transformed(lib, case, cache_size) for lib in LIBRARIES)
    for k, want in theirs.items():
        got = mine[k]
        if isinstance(want, np.ndarray):
            got = np.zeros_like(want) if got is None else got
            assert got.dtype == want.dtype, k
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12, err_msg=k)
        elif want is None and got is not None:
            np.testing.assert_allclose(got, np.zeros_like(got), atol=1e-12, err_msg=k)
        else:
            assert got == want, k


CONSTRAINTS = (
    """
boolean | one_hot | real | real_vector | nonnegative | nonnegative_integer | positive | positive_integer | unit_interval
simplex | lower_triangular | lower_cholesky | corr_cholesky | square | symmetric | positive_semidefinite
positive_definite | greater_than(0.5) | greater_than(x) | greater_than_eq(0) | less_than(0.5) | less_than(x)
interval(-1, 1) | interval(x - 1, x + 1) | half_open_interval(0, 1) | integer_interval(0, 2) | multinomial(2)
independent(real, 1) | independent(positive, 2) | independent(simplex, 1) | MixtureSameFamilyConstraint(positive)
MixtureSameFamilyConstraint(simplex) | cat([positive, real], -1, [1, 2]) | cat([boolean, positive, real], -1)
stack([positive, real, unit_interval], -1) | stack([simplex, real_vector], 0) | dependent | _IntegerLessThan(1)
""".strip()
    .replace("\n", " | ")
    .split(" | ")
)
VALUES = (
    """
x | b | p | p / p.sum(-1, keepdim=True) | t.eye(3, dtype=t.float64) | t.ones(2, 3, dtype=t.float64)
t.tensor([[0., 1, 0], [2, 0, 0.5]]) | m | m @ m.mT | m @ m.mT + t.eye(3, dtype=t.float64) | m.tril()
t.linalg.cholesky(m @ m.mT + t.eye(3, dtype=t.float64)) | t.full((2, 3), float('nan'))
T.CorrCholeskyTransform()(x) | t.ones(3, 3) | t.arange(3.) | t.arange(3)
""".strip()
    .replace("\n", " | ")
    .split(" | ")
)


@pytest.mark.parametrize("make", CONSTRAINTS)
def test_constraints(make: str) -> None:
    rows = []
    for lib in LIBRARIES:
        names = _names(lib)
        c = eval(make, {**vars(names["C"]), **names})
        row = {"repr": _said(c), "event_dim": _tried(lambda: c.event_dim), "discrete": _tried(lambda: c.is_discrete)}  # noqa: B023
        for value in VALUES:
            if (make, value) == ("positive_semidefinite", "t.ones(3, 3)"):
                continue  # its least eigenvalue is 0, and rounding gives it either sign
            v = eval(value, names)
            found = _tried(lambda: c.check(v))  # noqa: B023
            if "Error" in str(found) and not ("Value" in str(found) or "Assertion" in str(found)):
                continue  # what has too few dimensions, of which nothing is promised
            row[value] = found if isinstance(found, str) else found.tolist()
        rows.append(row)
    shared = rows[0].keys() & rows[1].keys()
    assert {k: rows[1][k] for k in shared} == {k: rows[0][k] for k in shared}
    assert len(shared) > 8


@pytest.mark.parametrize("registry", ["biject_to", "transform_to"])
@pytest.mark.parametrize("make", CONSTRAINTS)
def test_what_leads_to_a_constraint(make: str, registry: str) -> None:
    rows = []
    for lib in LIBRARIES:
        names = _names(lib)
        c = eval(make, {**vars(names["C"]), **names})
        t = _tried(lambda: getattr(lib.distributions, registry)(c))  # noqa: B023
        if isinstance(t, str):
            rows.append((t,))
            continue
        x = names["m"] if getattr(t.domain, "event_dim", 0) == 2 or "Stack([" in str(c) else names["x"]
        y = _tried(lambda: t(x))  # noqa: B023
        inside = isinstance(y, str) or bool(c.check(y).all())
        rows.append((_said(t), y if isinstance(y, str) else y.tolist(), inside))
    (want, *values), (got, *mine) = rows
    assert got == want
    if values and not isinstance(values[0], str):
        np.testing.assert_allclose(mine[0], values[0], rtol=1e-9)
        assert mine[1] == values[1]


@pytest.mark.parametrize("text", [
    "T.ExpTransform(cache_size=2)", "T.ReshapeTransform((2, 3), (5,))", "T.StickBreakingTransform().event_dim + 'a'",
    "T.ReshapeTransform((2, 3), (6,)).event_dim", "T.CorrCholeskyTransform().event_dim", "T.ExpTransform().foo",
    "T.CorrCholeskyTransform().forward_shape((4,))", "T.CorrCholeskyTransform().inverse_shape((3, 2))",
    "T.CorrCholeskyTransform().inverse_shape((3,))", "T.StickBreakingTransform().forward_shape(())",
    "T.SoftmaxTransform().forward_shape(())", "T.ReshapeTransform((2, 3), (6,)).forward_shape((3,))",
    "T.ReshapeTransform((2, 3), (6,)).forward_shape((3, 3))", "T.IndependentTransform(T.ExpTransform(), 3)(x)",
    "T.AbsTransform().log_abs_det_jacobian(x, x)", "T.AbsTransform().sign", "T.Transform()(x)", "T.Transform().inv(x)",
    "T.StickBreakingTransform().sign", "T.CatTransform([1])", "T.StackTransform([1])", "T.CatTransform([T.ExpTransform("
    ")])(x)", "T.StackTransform([T.ExpTransform()])(x)", "T.CatTransform([T.ExpTransform()], lengths=[1, 2])",
    "T.CatTransform([T.ExpTransform()], dim=5)(x)", "hash(T.ExpTransform())", "D.biject_to(C.dependent)",
    "D.transform_to(C.boolean)", "D.biject_to.register(1, 2)", "D.biject_to.register(int)(3)",
    "C.independent(C.positive, 3).check(x)", "C.dependent.check(x)", "C.dependent.is_discrete",
    "C.Constraint().check(x)",
    "C.cat([1])", "C.cat([C.real], 0, [1, 2])",
    "D.utils.vec_to_tril_matrix(t.ones(5))", "D.utils.tril_matrix_to_vec(t.eye(3), 3)", "D.utils.broadcast_all('a', 1)",
])  # fmt: skip
def test_errors(text: str) -> None:
    found = []
    for lib in LIBRARIES:
        with pytest.raises(Exception) as e:  # noqa: PT011 - which one is what is compared
            eval(text, _names(lib))
        found.append(
            (e.type.__name__, str(e.value).splitlines()[0][:24].replace("torch.", "core.") if e.value.args else "")
        )
    assert found[0][0] == found[1][0]
    if found[0][1] and found[0][0] != "AssertionError":
        assert found[0][1] == found[1][1]


def test_a_registry_takes_constraints_of_others() -> None:
    for lib in LIBRARIES:
        d = lib.distributions

        class Even(d.constraints.Constraint):
            pass

        registry = d.constraint_registry.ConstraintRegistry()
        made = registry.register(Even(), lambda constraint: d.ExpTransform())  # noqa: B023
        assert repr(registry(Even())) == "ExpTransform()"
        assert callable(made)
        registry.register(Even)(lambda constraint: d.TanhTransform())  # noqa: B023
        assert repr(registry(Even())) == "TanhTransform()"
        assert repr(d.biject_to(d.Uniform(0.0, 2.0).support)) == repr(d.transform_to(d.Uniform(0.0, 2.0).support))


@pytest.mark.parametrize("text", [
    "vec_to_tril_matrix(x)", "vec_to_tril_matrix(x, -1)", "vec_to_tril_matrix(x[..., :1], -2)",
    "vec_to_tril_matrix(m.flatten(-2)[..., :8], 1)", "tril_matrix_to_vec(m)", "tril_matrix_to_vec(m, 1)",
    "tril_matrix_to_vec(m, -2)", "tril_matrix_to_vec(m, 2)", "logits_to_probs(x)", "logits_to_probs(x, True)",
    "probs_to_logits(p)", "probs_to_logits(p, is_binary=True)", "clamp_probs(x)", "broadcast_all(1, x[0], x)",
    "broadcast_all(1, 2.5, True)", "lazy_property(len).wrapped",
])  # fmt: skip
def test_helpers(text: str) -> None:
    theirs, mine = (eval(text, {**vars(lib.distributions.utils), **_names(lib)}) for lib in LIBRARIES)
    if not isinstance(theirs, tuple):
        theirs, mine = (theirs,), (mine,)
    for want, got in zip(theirs, mine, strict=True):
        if hasattr(want, "detach"):
            np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=1e-12)
            assert str(got.dtype) == str(want.dtype).replace("torch", "core")


def test_nothing_of_pytorchs_is_missing() -> None:
    theirs, mine = torch.distributions, core.distributions
    assert set(theirs.__all__) <= set(mine.__all__)
    for module in pkgutil.iter_modules(theirs.__path__):
        ours = importlib.import_module(f"core.distributions.{module.name}")
        other = importlib.import_module(f"torch.distributions.{module.name}")
        missing = [n for n in getattr(other, "__all__", ()) if not hasattr(ours, n)]
        assert not missing, module.name


@pytest.mark.parametrize(
    "name", [n for n in torch.distributions.__all__ if inspect.isclass(getattr(torch.distributions, n))]
)
def test_classes_take_and_say_the_same(name: str) -> None:
    theirs, mine = (getattr(lib.distributions, name) for lib in LIBRARIES)
    want, got = (list(inspect.signature(c.__init__).parameters) for c in (theirs, mine))
    assert got == want
    public = {n for c in theirs.__mro__ for n in vars(c) if not n.startswith("_")}
    assert {n for n in public if not hasattr(mine, n)} <= {"concentration_reciprocal"}
    if issubclass(theirs, torch.distributions.Distribution):
        for k in ("has_rsample", "has_enumerate_support", "support", "arg_constraints"):
            values = [getattr(c, k) for c in (theirs, mine)]
            if not any(isinstance(v, property) and not hasattr(v, "check") for v in values):
                shown = [{n: _said(c) for n, c in v.items()} if isinstance(v, dict) else _said(v) for v in values]
                assert shown[0] == shown[1], k
            if hasattr(values[0], "check"):
                for asked in ("is_discrete", "event_dim"):
                    assert len({str(_tried(lambda: getattr(v, asked))) for v in values}) == 1, (k, asked)  # noqa: B023
