"""`core.distributions` against PyTorch: densities, moments, entropies, KL, draws of the same generator, gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import core  # noqa: E402

# How to make it, from tensors a (any), b and c (positive), p (0..1); and a value to ask for.
MADE = """
D.Normal(a, b) | x
D.LogNormal(a, b) | b
D.HalfNormal(b) | c
D.Uniform(a, a + b) | a + 0.5 * b
D.Exponential(b) | c
D.Laplace(a, b) | x
D.Cauchy(a, b) | x
D.Gumbel(a, b) | x
D.Bernoulli(p) | k
D.Bernoulli(logits=a) | k
D.Geometric(p) | k
D.Geometric(logits=a) | k
D.Categorical(b) | k[:, 0]
D.Categorical(logits=a) | k[:, 0]
D.OneHotCategorical(b) | t.eye(3, dtype=t.float64)[:2]
D.Independent(D.Normal(a, b), 1) | x
D.Independent(D.Bernoulli(p), 2) | k
D.MultivariateNormal(a, m) | x
D.MultivariateNormal(a, scale_tril=t.linalg.cholesky(m)) | x
D.MultivariateNormal(a, precision_matrix=m) | x
D.MultivariateNormal(a[0], m).expand((4,)) | x[0]
D.Normal(a, b).expand((4, 2, 3)) | x
D.Gamma(b, c) | b
D.Poisson(b) | k
D.Chi2(b) | c
D.StudentT(b * 2, a, c) | x
D.Beta(b, c) | p
D.Dirichlet(b) | p / p.sum(-1, keepdim=True)
D.Categorical(b).expand((5, 2)) | k[:, 0]
""".strip().splitlines()


def _names(lib: Any, rng: Any) -> dict[str, Any]:
    made = {n: rng.uniform(low, high, (2, 3)) for n, low, high in
            [("a", -1, 1), ("b", 0.3, 2), ("c", 0.3, 2), ("p", 0.1, 0.9), ("x", -2, 2)]}  # fmt: skip
    made["k"] = rng.integers(0, 2, (2, 3)).astype(float)
    q = rng.uniform(-1, 1, (3, 3))
    made["m"] = q @ q.T + np.eye(3)
    leaves = {n: lib.tensor(v) for n, v in made.items()}
    for n in "abcpm":
        leaves[n].requires_grad_()
    return {"D": lib.distributions, "t": lib, **leaves}


def _values(lib: Any, make: str, value: str) -> dict[str, Any]:
    names = _names(lib, np.random.default_rng(0))
    d = eval(make, names)
    found: dict[str, Any] = {"repr": repr(d).replace("torch.", "core."), "batch": tuple(d.batch_shape),
                             "event": tuple(d.event_shape)}  # fmt: skip
    for name in ("mean", "mode", "variance", "stddev"):
        try:
            found[name] = getattr(d, name)
        except NotImplementedError:
            found[name] = None
    found["log_prob"] = d.log_prob(eval(value, names))
    for name, f in (("entropy", d.entropy), ("cdf", lambda: d.cdf(eval(value, names)))):
        try:
            found[name] = f()
        except NotImplementedError:
            found[name] = None
    lib.manual_seed(5, **({"kind": "torch"} if lib is core else {}))
    followed = not any(n in make for n in ("Gamma", "Chi2", "Student", "Beta", "Dirichlet", "Poisson"))
    if followed:  # those are drawn in another way than PyTorch's
        found["sample"] = d.sample((4,))
    leaves = [names[n] for n in "abcpm"]
    scores = [found["log_prob"], *([found["entropy"]] if found["entropy"] is not None else [])]
    if d.has_rsample and followed:
        found["rsample"] = d.rsample((3,))
        scores.append(found["rsample"])
    total = sum((s * s).sum() for s in scores)
    for n, g in zip("abcpm", lib.autograd.grad(total, leaves, allow_unused=True), strict=True):
        found["grad " + n] = g
    return {k: v.detach().numpy() if hasattr(v, "detach") else v for k, v in found.items()}


@pytest.mark.parametrize("case", MADE)
def test_same(case: str) -> None:
    make, _, value = case.partition(" | ")
    theirs, mine = (_values(lib, make, value) for lib in (torch, core))
    for k, want in theirs.items():
        got = mine[k]
        if isinstance(want, np.ndarray):
            if k == "cdf" and got is None and ("Gamma" in make or "Chi2" in make):
                continue  # no derivative by the shape, and said at once
            assert got is not None, k
            assert got.dtype == want.dtype, k
            np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-7, err_msg=k)
        elif k == "repr" and want.endswith("()"):
            continue  # PyTorch forgets the parameters of transformed ones
        elif k not in ("mean", "mode", "variance", "stddev", "entropy", "cdf"):
            assert got == want, k


KL = (
    """
Normal(a, b) | LogNormal(a, b) | HalfNormal(b) | Bernoulli(p) | Categorical(b) | OneHotCategorical(b) | Geometric(p)
Exponential(b) | Laplace(a, b) | Uniform(a, a + b) | MultivariateNormal(a, m)
Gamma(b, c) | Beta(b, c) | Dirichlet(b) | Poisson(b)
""".strip()
    .replace("\n", " | ")
    .split(" | ")
)
SECOND = {"a": "x", "b": "c", "p": "(1 - p)", "m": "(m * 1.5)"}
PAIRS = [
    (f"D.{p}", "D." + p.split("(")[0] + "(" + "".join(SECOND.get(ch, ch) for ch in p.split("(", 1)[1])) for p in KL
]
PAIRS += [("D.Uniform(a, a + b)", "D.Uniform(a - 0.5, a + b + 0.1)"), ("D.Uniform(a, a + b)", "D.Normal(x, c)"),
          ("D.Exponential(b)", "D.Normal(x, c)"), ("D.Laplace(a, b)", "D.Normal(x, c)"),
          ("D.Normal(a, b)", "D.Laplace(x, c)"),
          ("D.Bernoulli(t.tensor([0., 1., 0.5]))", "D.Bernoulli(t.tensor([0.5, 0., 1.]))"),
          ("D.Independent(D.Normal(a, b), 1)", "D.Independent(D.Normal(x, c), 1)")]  # fmt: skip


@pytest.mark.parametrize(("p", "q"), PAIRS)
def test_kl(p: str, q: str) -> None:
    found = []
    for lib in (torch, core):
        names = _names(lib, np.random.default_rng(1))
        y = lib.distributions.kl_divergence(eval(p, names), eval(q, names))
        row = [y]
        if y.requires_grad:
            leaves = [names[n] for n in "abcpm"]
            row += [g for g in lib.autograd.grad(y.sum(), leaves, allow_unused=True) if g is not None]
        found.append([v.detach().numpy() for v in row])
    assert len(found[0]) == len(found[1])
    for want, got in zip(*found, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("text", [
    "D.Normal(0., -1.)", "D.Normal(0., 1.).log_prob(t.tensor(float('nan')))", "D.Bernoulli(1.5)", "D.Bernoulli()",
    "D.Categorical(t.tensor(1.0))", "D.Categorical(t.ones(3)).log_prob(t.tensor(5))", "D.Uniform(1., 0.)",
    "D.Uniform(0., 1.).log_prob(t.tensor(2.))", "D.Normal(t.zeros(2), 1.).log_prob(t.zeros(3))",
    "D.Bernoulli(0.5).rsample()", "D.Normal('a', 1)", "D.Normal(0., 1.).log_prob(1.0)",
    "D.MultivariateNormal(t.zeros(2), -t.eye(2))", "D.MultivariateNormal(t.zeros(2))",
    "D.MultivariateNormal(t.tensor(0.), t.eye(1))", "D.Independent(D.Normal(0., 1.), 1)",
    "D.Normal(t.zeros(2), t.ones(3))", "D.Normal(0., 1.).enumerate_support()", "D.Categorical(t.tensor([-1., 2.]))",
    "D.kl_divergence(D.Normal(0., 1.), D.Bernoulli(0.5))",
])  # fmt: skip
def test_errors(text: str) -> None:
    torch.distributions.Distribution.set_default_validate_args(True)  # PyTorch's compiler, once used, sets it off
    found = []
    for lib in (torch, core):
        with pytest.raises(Exception) as e:  # noqa: PT011 - which one is what is compared
            eval(text, {"D": lib.distributions, "t": lib})
        found.append(
            (e.type.__name__, str(e.value).splitlines()[0].replace("torch.", "core.")[:36] if str(e.value) else "")
        )
    assert found[0][0] == found[1][0]
    if "KL" not in found[1][1] and found[0][1]:
        assert found[0][1] == found[1][1]


def test_enumerate_support() -> None:
    for make in ("D.Bernoulli(t.ones(2, 3) / 2)", "D.Categorical(t.ones(2, 3))"):
        for expand in (True, False):
            theirs, mine = (
                eval(make, {"D": lib.distributions, "t": lib}).enumerate_support(expand) for lib in (torch, core)
            )
            assert theirs.tolist() == mine.tolist()
