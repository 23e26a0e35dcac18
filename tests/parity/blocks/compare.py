"""Running one class under both libraries: each check gives None where they agree, or the first difference in words."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

import core

from .rows import Row

STEPS = 200
TIGHT = {"rtol": 1e-8, "atol": 1e-8}  # PyTorch rounds some constants of CELU and Hardsigmoid to float32
SINGLE = {"rtol": 2e-4, "atol": 2e-5}
TRAJECTORY = {"rtol": 1e-5, "atol": 1e-6}  # PyTorch keeps some counters (NAdam's mu_product) in float32
ROUGH = {"rtol": 5e-3, "atol": 1e-6}
Check = Callable[[Row], "str | None"]


@contextmanager
def quiet() -> Iterator[None]:
    """No warnings, and one thread for PyTorch, whose spinning threads disturb small work on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.set_num_threads(threads)


def seed(t: Any) -> None:
    core.manual_seed(3, kind="torch") if t is core else torch.manual_seed(3)


def array(x: Any) -> np.ndarray:
    return np.asarray(x.detach().numpy())


class Inputs:
    """The makers of inputs that a row may name; the same numbers for both libraries."""

    def __init__(self, t: Any, dtype: str) -> None:
        self.t, self.dtype = t, dtype
        self.rng = np.random.default_rng(11)
        self.leaves: list[Any] = []

    def leaf(self, a: np.ndarray) -> Any:
        self.leaves.append(self.t.tensor(a.astype(self.dtype), requires_grad=True))
        return self.leaves[-1]

    def R(self, *shape: int) -> Any:
        return self.leaf(self.rng.normal(size=shape))

    def P(self, *shape: int) -> Any:
        return self.leaf(self.rng.uniform(0.2, 2, size=shape))

    def U(self, *shape: int) -> Any:
        return self.t.tensor(self.rng.uniform(0.05, 0.95, size=shape).astype(self.dtype))

    def S(self, *shape: int) -> Any:
        return self.t.tensor(np.where(self.rng.normal(size=shape) > 0, 1, -1).astype(self.dtype))

    def I(self, high: int, *shape: int) -> Any:  # noqa: E743
        return self.t.tensor(self.rng.integers(0, high, size=shape))

    def N(self, values: Any) -> Any:
        return self.t.tensor(values)

    def indices_of(self, *shape: int) -> Any:
        """What max pooling by two says of a random input of this shape."""
        pool = [torch.nn.functional.max_pool1d, torch.nn.functional.max_pool2d, torch.nn.functional.max_pool3d]
        found = pool[len(shape) - 3](torch.tensor(self.rng.normal(size=shape)), 2, return_indices=True)[1]
        return self.t.tensor(found.numpy())

    def packed(self, lengths: list[int], x: Any) -> Any:
        return self.t.nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)

    def make(self, text: str) -> tuple[Any, ...]:
        space = {n: getattr(self, n) for n in ("R", "P", "U", "S", "I", "N", "indices_of", "packed")} | {"t": self.t}
        return eval(f"({text},)", space)


def build(row: Row, t: Any, dtype: str = "float64") -> Any:
    """The row's module with the seed's weights; a lazy one has seen its input."""
    seed(t)
    space = {n: getattr(t.nn, n) for n in dir(t.nn)} | {"t": t, "nn": t.nn}
    module = eval(row.text, space)
    if row.name.startswith("Lazy"):
        with t.no_grad():
            module(*Inputs(t, "float32").make(row.inputs))
    return module.double() if dtype == "float64" else module


def pair(row: Row, dtype: str = "float64") -> tuple[Any, Any]:
    """The module in both libraries, PyTorch's weights copied."""
    mine, theirs = build(row, core, dtype), build(row, torch, dtype)
    mine.load_state_dict({k: core.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    if row.random:
        mine.eval(), theirs.eval()
    return mine, theirs


def tensors(out: Any) -> list[Any]:
    """The tensors of a result, in order."""
    if isinstance(out, core.Tensor | torch.Tensor):
        return [out]
    if isinstance(out, tuple | list):  # packed sequences and named results are tuples
        return [x for part in out for x in tensors(part)]
    return []


def distance(outputs: list[Any], t: Any) -> Any:
    """A loss of a module's outputs: the mean square of their difference from fixed numbers."""
    total = 0
    for n, out in enumerate(o for o in outputs if o.is_floating_point()):
        target = np.cos(np.arange(out.numel()) + n).reshape(tuple(out.shape))
        total = total + ((out - t.tensor(target, dtype=out.dtype)) ** 2).mean()
    return total


def same(mine: Any, theirs: Any, what: str, tolerance: dict[str, float] | None = None) -> str | None:
    """How one array differs."""
    if (mine is None) != (theirs is None):
        return f"{what}: {'nothing' if mine is None else 'something'} in place of the contrary"
    if mine is None:
        return None
    a, b = array(mine), array(theirs)
    if a.shape != b.shape or str(mine.dtype).split(".")[-1] != str(theirs.dtype).split(".")[-1]:
        return f"{what}: {mine.dtype} {a.shape} in place of {theirs.dtype} {b.shape}"
    if np.allclose(a, b, equal_nan=True, **(tolerance or TIGHT)):
        return None
    return f"{what}: off by {np.nanmax(np.abs(a - b)):.2g}"


def first(*found: str | None) -> str | None:
    return next((f for f in found if f), None)


def all_same(mine: list[Any], theirs: list[Any], what: str, tolerance: Any = None) -> str | None:
    if len(mine) != len(theirs):
        return f"{what}: {len(mine)} in place of {len(theirs)}"
    return first(*(same(a, b, f"{what} {n}", tolerance) for n, (a, b) in enumerate(zip(mine, theirs, strict=True))))


# -- layers and losses -------------------------------------------------------------------------------------------------


def keys(row: Row) -> str | None:
    """The names and shapes of the state, the text of repr and the seed's first weights."""
    mine, theirs = build(row, core), build(row, torch)
    if repr(mine) != repr(theirs):
        return f"repr {mine!r} in place of {theirs!r}"
    a, b = mine.state_dict(), theirs.state_dict()
    if list(a) != list(b):
        return f"keys {list(a)} in place of {list(b)}"
    return first(*(same(a[k], b[k], f"initial {k}", {"rtol": 1e-6, "atol": 1e-7}) for k in a))


def values(row: Row, dtype: str = "float64", tolerance: dict[str, float] = TIGHT) -> str | None:
    """Outputs, gradients of inputs and of parameters, and the buffers afterwards; then the outputs in evaluation."""
    mine, theirs = pair(row, dtype)
    outcome = []
    for t, module in ((core, mine), (torch, theirs)):
        inputs = Inputs(t, dtype)
        outputs = tensors(module(*inputs.make(row.inputs)))
        loss = distance(outputs, t)
        if loss.requires_grad:
            loss.backward()
        evaluated = tensors(module.eval()(*Inputs(t, dtype).make(row.inputs)))
        outcome.append((outputs, [leaf.grad for leaf in inputs.leaves], [p.grad for p in module.parameters()],
                        list(module.buffers()), evaluated))  # fmt: skip
    if row.wrong:
        outcome = [(o[0], [], [], o[3], o[4]) for o in outcome]
    names = ("output", "input gradient", "parameter gradient", "buffer", "output in evaluation")
    return first(*(all_same(a, b, n, tolerance) for a, b, n in zip(*outcome, names, strict=True)))


def single(row: Row) -> str | None:
    """The same in float32, as people use it."""
    return values(row, "float32", SINGLE) if "float64" not in row.text else None


def training(row: Row) -> str | None:
    """Two hundred steps of gradient descent towards fixed outputs: every loss, and the parameters at the end."""
    mine, theirs = pair(row)
    if not list(theirs.parameters()):
        return None
    losses: list[list[float]] = []
    for t, module in ((core, mine), (torch, theirs)):
        optimizer = t.optim.SGD(module.parameters(), lr=0.02, momentum=0.5)
        losses.append([])
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = distance(tensors(module(*Inputs(t, "float64").make(row.inputs))), t)
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
    return first(trajectory(*losses), weights(mine, theirs))


def weights(mine: Any, theirs: Any) -> str | None:
    """The parameters after the same steps."""
    return all_same(list(mine.parameters()), list(theirs.parameters()), "parameter", TRAJECTORY)


def trajectory(mine: list[float], theirs: list[float], tolerance: dict[str, float] = TRAJECTORY) -> str | None:
    off = ~np.isclose(mine, theirs, **tolerance, equal_nan=True)
    if not off.any():
        return None
    n = int(off.argmax())
    return f"step {n}: {mine[n]:.9g} in place of {theirs[n]:.9g}"


# -- optimizers --------------------------------------------------------------------------------------------------------


def network(t: Any) -> tuple[Any, Callable[[], Any]]:
    """A small convolutional network and its loss."""
    rng = np.random.default_rng(5)
    nn = t.nn
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.Tanh(), nn.Flatten(), nn.Linear(27, 6), nn.GELU(), nn.Linear(6, 4))
    model.double()
    with t.no_grad():
        for p in model.parameters():
            p.copy_(t.tensor(rng.normal(size=tuple(p.shape)) * 0.3))
    x, y = t.tensor(rng.normal(size=(400, 1, 5, 5))), t.tensor(rng.integers(0, 4, size=400))
    return model, lambda: t.nn.functional.cross_entropy(model(x), y)


def optimize(row: Row, t: Any, steps: int, resume: tuple[dict, dict] | None = None) -> tuple[list[float], Any, Any]:
    """The losses, the model and its optimizer after a number of steps, begun anew or from a state."""
    model, loss_of = network(t)
    p = list(model.parameters())
    space = {"p": p, "matrices": [q for q in p if q.ndim == 2], "t": t}
    optimizer = eval(f"optim.{row.text}", space | {"optim": t.optim})
    if resume:
        model.load_state_dict(resume[0])
        optimizer.load_state_dict(resume[1])
    losses = []

    def closure() -> Any:
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        return loss

    for _ in range(steps):
        losses.append(float(optimizer.step(closure)))
    return losses, model, optimizer


@functools.lru_cache(maxsize=4)
def optimized(row: Row) -> tuple[Any, Any]:
    return optimize(row, core, STEPS), optimize(row, torch, STEPS)


def descent(row: Row) -> str | None:
    """Two hundred steps: every loss, and the parameters at the end."""
    (losses, model, _), (others, other, _) = optimized(row)
    if row.rough:
        return trajectory(losses, others, ROUGH)
    return first(trajectory(losses, others), weights(model, other))


def state(row: Row) -> str | None:
    """The state dict: the same keys and values, group by group and parameter by parameter."""
    (_, _, optimizer), (_, _, other) = optimized(row)
    a, b = optimizer.state_dict(), other.state_dict()
    for mine, theirs in zip(a["param_groups"], b["param_groups"], strict=True):
        if mine.keys() != theirs.keys():
            return f"group keys {sorted(mine)} in place of {sorted(theirs)}"
    if a["state"].keys() != b["state"].keys():
        return f"state of {list(a['state'])} in place of {list(b['state'])}"
    for number, theirs in b["state"].items():
        mine = a["state"][number]
        if list(mine) != list(theirs):
            return f"state keys {list(mine)} in place of {list(theirs)}"
        for name, value in theirs.items():
            if isinstance(value, torch.Tensor) and not row.rough:
                said = same(mine[name], value, name, TRAJECTORY)
                if said:
                    return said
    return None


def translated(x: Any, t: Any) -> Any:
    """A state of the other library as this one's."""
    if isinstance(x, core.Tensor | torch.Tensor):
        return t.tensor(x.detach().numpy().copy())
    if isinstance(x, dict):
        return {k: translated(v, t) for k, v in x.items()}
    return type(x)(translated(v, t) for v in x) if isinstance(x, list | tuple) else x


def exchange(row: Row) -> str | None:
    """A state that PyTorch saved after forty steps goes on here as it does there, and the other way round."""
    found = []
    for source, other in ((torch, core), (core, torch)):
        _, model, optimizer = optimize(row, source, 40)
        saved = (dict(model.state_dict()), optimizer.state_dict())
        across = tuple(translated(s, other) for s in saved)
        copied = tuple(translated(s, source) for s in saved)
        after = [optimize(row, t, 10, s)[0] for t, s in ((other, across), (source, copied))]
        found.append(trajectory(*after, ROUGH if row.rough else TRAJECTORY))
    return first(*found)


# -- schedules ---------------------------------------------------------------------------------------------------------


def schedule(row: Row, t: Any) -> tuple[list[list[float]], Any]:
    """Learning rates and momenta of two hundred steps, and the scheduler."""
    p = [t.nn.Parameter(t.ones(1)) for _ in range(2)]
    o = t.optim.SGD([{"params": p[:1]}, {"params": p[1:], "lr": 0.02}], lr=0.1, momentum=0.9)
    l = t.optim.lr_scheduler  # noqa: E741
    space = {n: getattr(l, n) for n in dir(l)} | {"o": o, "l": l}
    if row.name == "SWALR":
        space["SWALR"] = t.optim.swa_utils.SWALR
    scheduler = eval(row.text, space)
    curve = []
    for n in range(STEPS):
        o.step()
        metric = [max(1 - 0.05 * n, 0.3 + 0.01 * (n % 7))] if row.name == "ReduceLROnPlateau" else []
        scheduler.step(*metric)
        curve.append([g[k] for g in o.param_groups for k in ("lr", "momentum")] + scheduler.get_last_lr())
    return curve, scheduler


def curve(row: Row) -> str | None:
    """Every learning rate and momentum of two hundred steps."""
    mine, theirs = (np.array(schedule(row, t)[0]) for t in (core, torch))
    off = ~np.isclose(mine, theirs, rtol=1e-9, atol=1e-12)
    if not off.any():
        return None
    n = int(off.any(1).argmax())
    return f"step {n}: {mine[n]} in place of {theirs[n]}"


def scheduler_state(row: Row) -> str | None:
    """The names in the state dict."""
    mine, theirs = (set(schedule(row, t)[1].state_dict()) for t in (core, torch))
    missing = {k for k in theirs - mine if not k.startswith("_")}
    return f"without {sorted(missing)}" if missing else None


CHECKS: dict[str, dict[str, Check]] = {
    "layers": {"keys, init": keys, "values, gradients": values, "float32": single, f"{STEPS} steps": training},
    "optimizers": {f"{STEPS} steps": descent, "state dict": state, "exchange": exchange},
    "schedulers": {f"{STEPS} steps": curve, "state dict": scheduler_state},
}


def differences(row: Row) -> dict[str, str | None]:
    """Each check's outcome: None is agreement; an error counts as a difference."""
    found: dict[str, str | None] = {}
    with quiet():
        for name, check in CHECKS[row.kind].items():
            try:
                found[name] = check(row)
            except Exception as e:
                found[name] = f"{type(e).__name__}: {' '.join(str(e).split())[:140]}"
    return found
