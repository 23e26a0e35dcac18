"""L-BFGS, with a line search that finds a step of the strong Wolfe conditions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..base.modes import enable_grad, no_grad
from ..ops.complex import view_as_real
from ..ops.joining import cat
from ..tensors.tensor import Tensor
from .optimizer import Optimizer, Params, check_lr, number


class LBFGS(Optimizer):
    """Quasi-Newton steps: the last `history_size` changes of gradient and parameters stand for the Hessian's inverse.

    One `step` makes up to `max_iter` iterations and calls the closure, which it needs, up to `max_eval` times (5/4 of
    `max_iter` if None). It ends early when no element of the gradient exceeds `tolerance_grad`, or step and loss change
    by less than `tolerance_change`. ``line_search_fn="strong_wolfe"`` looks for the length of each step, which is `lr`
    without it. There is one group. *Raises*: ValueError for a negative rate or several groups.

    *Source*: Nocedal and Wright, Numerical optimization (2006), algorithms 7.4, 3.5 and 3.6; the details are those of
    Schmidt's minFunc, as in PyTorch.

    >>> import core
    >>> w = core.tensor([3.0, -1.0], requires_grad=True)
    >>> opt = core.optim.LBFGS([w], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     opt.zero_grad()
    ...     loss = ((w - core.tensor([1.0, 2.0])) ** 4).sum()
    ...     loss.backward()
    ...     return loss
    >>> loss = opt.step(closure)
    >>> bool(closure() < 1e-6)
    True
    """

    def __init__(self, params: Params, lr: float | Tensor = 1, max_iter: int = 20, max_eval: int | None = None,
                 tolerance_grad: float = 1e-7, tolerance_change: float = 1e-9, history_size: int = 100,
                 line_search_fn: str | None = None) -> None:  # fmt: skip
        check_lr(lr)
        if max_eval is None:
            max_eval = max_iter * 5 // 4
        super().__init__(params, {"lr": lr, "max_iter": max_iter, "max_eval": max_eval,
                                  "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change,
                                  "history_size": history_size, "line_search_fn": line_search_fn})  # fmt: skip
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params: list[Tensor] = self.param_groups[0]["params"]

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._params = self.param_groups[0]["params"]

    # -- all parameters as one real vector -----------------------------------------------------------------------------

    def _gradient(self) -> Any:
        parts = []
        for p in self._params:
            g: Any = p._grad if p._grad is not None else p.detach().new_zeros(p.shape)  # type: ignore[attr-defined]
            g = g.to_dense()
            parts.append((_as_real(g) if p.is_complex() else g).reshape(-1))
        return cat(parts)

    def _move(self, length: Any, direction: Any) -> None:
        """Go along the direction."""
        at = 0
        for p in self._params:
            target: Any = _as_real(p.detach()) if p.is_complex() else p.detach()
            n = target.numel()
            target.add_(direction[at : at + n].view_as(target), alpha=length)
            at += n

    def _evaluate(self, closure: Callable[[], Any], start: list[Any], length: Any, direction: Any) -> tuple[float, Any]:
        """Return the loss and its gradient at a distance; the parameters stay at the start."""
        self._move(length, direction)
        loss = float(closure())
        gradient = self._gradient()
        for p, before in zip(self._params, start, strict=True):
            p.detach().copy_(before)  # type: ignore[attr-defined]
        return loss, gradient

    # -- the step ------------------------------------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Make up to `max_iter` iterations; gives the first loss that `closure` gave."""
        with no_grad():
            return self._iterate(closure)

    def _iterate(self, compute: Callable[[], Any]) -> Any:
        def closure() -> Any:
            with enable_grad():
                return compute()

        group = self.param_groups[0]
        lr, search = number(group["lr"]), group["line_search_fn"]
        state = self.state[self._params[0]]  # all there is, with the first parameter so that it is saved
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first = closure()
        loss, evaluations, iterations = float(first), 1, 0
        state["func_evals"] += 1
        gradient = self._gradient()
        if gradient.abs().max() <= group["tolerance_grad"]:
            return first
        d, t, h = state.get("d"), state.get("t"), state.get("H_diag")
        ys, ss, ro = state.get("old_dirs"), state.get("old_stps"), state.get("ro")
        last, last_loss = state.get("prev_flat_grad"), state.get("prev_loss")
        while iterations < group["max_iter"]:
            iterations += 1
            state["n_iter"] += 1
            if state["n_iter"] == 1:
                d, h, ys, ss, ro = -gradient, 1, [], [], []
            else:
                y, s = gradient - last, d * t
                curvature = y.dot(s)
                if curvature > 1e-10:
                    if len(ys) == group["history_size"]:
                        for held in (ys, ss, ro):
                            held.pop(0)
                    ys.append(y)
                    ss.append(s)
                    ro.append(1.0 / curvature)
                    h = curvature / y.dot(y)
                d = self._direction(state, gradient, ys, ss, ro, h, group["history_size"])
            last, last_loss = gradient.clone(), loss
            t = min(1.0, 1.0 / gradient.abs().sum()) * lr if state["n_iter"] == 1 else lr
            slope = gradient.dot(d)
            if slope > -group["tolerance_change"]:
                break
            calls = 0
            if search is not None:
                if search != "strong_wolfe":
                    raise RuntimeError("only 'strong_wolfe' is supported")
                start = [p.detach().clone() for p in self._params]  # type: ignore[attr-defined]

                def objective(length: Any, start: Any = start, d: Any = d) -> tuple[float, Any]:
                    return self._evaluate(closure, start, length, d)

                left = group["max_eval"] - evaluations
                loss, gradient, t, calls = strong_wolfe(objective, t, d, loss, gradient, slope, max_ls=left)
                self._move(t, d)
            else:
                self._move(t, d)
                if iterations != group["max_iter"]:  # the gradient is wanted for one more iteration
                    loss = float(closure())
                    gradient = self._gradient()
                    calls = 1
            evaluations += calls
            state["func_evals"] += calls
            flat = (search is not None or calls) and bool(gradient.abs().max() <= group["tolerance_grad"])
            if (iterations == group["max_iter"] or evaluations >= group["max_eval"] or flat
                    or (d * t).abs().max() <= group["tolerance_change"]
                    or abs(loss - last_loss) < group["tolerance_change"]):  # fmt: skip
                break
        state |= {"d": d, "t": t, "old_dirs": ys, "old_stps": ss, "ro": ro, "H_diag": h, "prev_flat_grad": last,
                  "prev_loss": last_loss}  # fmt: skip
        return first

    @staticmethod
    def _direction(state: Any, gradient: Any, ys: Any, ss: Any, ro: Any, h: Any, size: int) -> Any:
        """Return the two loops over the history: minus the gradient, multiplied by the inverse that the changes
        stand for."""
        al = state.setdefault("al", [None] * size)
        q = -gradient
        for i in reversed(range(len(ys))):
            al[i] = ss[i].dot(q) * ro[i]
            q.add_(ys[i], alpha=-al[i].item())
        d = q * h
        for i in range(len(ys)):
            d.add_(ss[i], alpha=(al[i] - ys[i].dot(d) * ro[i]).item())
        return d


def _as_real(z: Any) -> Any:
    return view_as_real(z)


# -- the line search ---------------------------------------------------------------------------------------------------


class Point(NamedTuple):
    """A length of step with the loss, the gradient and the slope along the direction found there."""

    t: Any
    f: float
    g: Any
    slope: Any


def strong_wolfe(objective: Callable[[Any], tuple[float, Any]], t: Any, d: Any, f: float, g: Any, slope: Any,
                 c1: float = 1e-4, c2: float = 0.9, tolerance_change: float = 1e-9,
                 max_ls: int = 25) -> tuple[float, Any, Any, int]:  # fmt: skip
    """Return a length where the loss has fallen enough (`c1`) and the slope is flat enough (`c2`), and what was found
    there.

    objective : gives loss and gradient at a length along `d`; f, g and slope are those at 0, and t is tried first.
    """

    def at(length: Any) -> Point:
        loss, gradient = objective(length)
        return Point(length, loss, gradient, gradient.dot(d))

    def too_high(p: Point) -> bool:
        return bool(p.f > f + c1 * p.t * slope)

    def flat(p: Point) -> bool:
        return bool(abs(p.slope) <= -c2 * slope)

    start = before = Point(0, f, g.clone(), slope)
    new, calls, tries = at(t), 1, 0
    ends: list[Point] = []
    while tries < max_ls:  # further and further out, until two ends hold such a point between them
        if too_high(new) or (tries > 1 and new.f >= before.f):
            ends = [before, new]
            break
        if flat(new):
            return new.f, new.g, new.t, calls
        if new.slope >= 0:
            ends = [before, new]
            break
        step = _cubic(before, new, (new.t + 0.01 * (new.t - before.t), new.t * 10))
        before, new = new, at(step)
        calls, tries = calls + 1, tries + 1
    if tries == max_ls:
        ends = [start, new]
    low, high = (0, 1) if ends[0].f <= ends[1].f else (1, 0)
    stuck, done, width = False, False, d.abs().max()
    while not done and tries < max_ls:  # closer and closer
        if abs(ends[1].t - ends[0].t) * width < tolerance_change:
            break
        t = _cubic(ends[0], ends[1])
        left, right = min(e.t for e in ends), max(e.t for e in ends)
        margin = 0.1 * (right - left)
        if min(right - t, t - left) < margin:  # too close to an end to learn much, and that twice or beyond it
            if stuck or t >= right or t <= left:
                t = right - margin if abs(t - right) < abs(t - left) else left + margin
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        new = at(t)
        calls, tries = calls + 1, tries + 1
        if too_high(new) or new.f >= ends[low].f:
            ends[high] = new
            low, high = (0, 1) if ends[0].f <= ends[1].f else (1, 0)
        else:
            if flat(new):
                done = True
            elif new.slope * (ends[high].t - ends[low].t) >= 0:
                ends[high] = ends[low]
            ends[low] = new
    best = ends[low]
    return best.f, best.g, best.t, calls


def _cubic(a: Point, b: Point, bounds: tuple[Any, Any] | None = None) -> Any:
    """Return where the cubic through two points with their slopes is least, kept within the bounds; the middle if
    nowhere."""
    low, high = bounds if bounds is not None else (min(a.t, b.t), max(a.t, b.t))
    d1 = a.slope + b.slope - 3 * (a.f - b.f) / (a.t - b.t)
    square = d1**2 - a.slope * b.slope
    if square < 0:
        return (low + high) / 2.0
    d2 = square**0.5
    if a.t <= b.t:
        least = b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2))
    else:
        least = a.t - (a.t - b.t) * ((a.slope + d2 - d1) / (a.slope - b.slope + 2 * d2))
    return min(max(least, low), high)
