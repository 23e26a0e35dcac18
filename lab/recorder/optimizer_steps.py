"""What a training loop does around its steps: which gradients a step finds, and in which mode its modules ran."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any

from core.backends.sparse_array import values_of
from core.base import modes
from core.nn import Parameter

from .cell_trace import Chain, OptimizerFacts, Trace
from .op_to_row import Folder, Site
from .tensor_types import original

FEW = 4  # parameters of an optimizer that are looked at closely: what a loop forgets, it forgets for all of them


class Steps:
    """Hears gradients, updates and modules, and notes in the trace what a loop forgot."""

    def __init__(self, fold: Folder, trace: Trace) -> None:
        self.fold, self.trace = fold, trace
        self._got: set[int] = set()  # parameters to which gradients came
        self._known: dict[int, Any] = {}  # the identity of a parameter -> a weak reference to it
        # parameter -> a weak reference to its gradient that a step has used, and the gradient's version then
        self._spent: dict[int, tuple[Any, int]] = {}
        self._stale: dict[int, bool] = {}  # parameter -> whether its gradient was added to a used one
        self._fresh: set[int] = set()  # parameters whose gradients came since their last step
        self.entered: Callable[[], None] | None = None
        """Who is told when a whole model is called."""
        self.doubts = False  # whether the next gradients are to be looked at, each of them
        self._stepping = False
        self._site: Site = ()
        self._owner: dict[int, Any] = {}  # parameter -> a weak reference to the optimizer that stepped it last
        self._since: set[int] = set()  # parameters that got a gradient since the last step of any optimizer
        # parameter -> for each gradient that was cleared unused since its last step, the backward() that made it
        self._dropped: dict[int, list[Any]] = {}
        self._passes, self._in_a_row = 0, 0  # calls of backward() so far, and the last ones from one place
        self._from: Chain = ()
        # parameter -> the last backward() that reached it, and the passes whose gradients have added up in it
        self._summed: dict[int, tuple[int, int]] = {}
        self._runs: dict[int, tuple[OptimizerFacts, Any]] = {}  # optimizer -> its facts and itself
        self._versions: dict[int, int] = {}  # parameter -> its version when its last gradient came
        self._moved: set[int] = set()  # parameters that were changed by their .data since then
        self._left: dict[int, int] = {}  # parameter -> how often such a change left its gradient there
        self._training: dict[int, bool] = {}  # root -> whether it ran in training mode the last time
        self._watched: dict[int, bool] = {}  # module path -> whether its mode matters
        self._evaluates: dict[int, bool] = {}  # root -> whether all of it ran in evaluation mode the last time
        self._held: dict[int, frozenset[int]] = {}  # root -> its parameters
        self._suspect: dict[int, int] = {}  # root -> the first path in it for which that matters

    @property
    def watched(self) -> dict[int, bool]:
        """Of each module path that ran, whether its mode matters."""
        return self._watched

    # -- gradients and steps -------------------------------------------------------------------------------------------

    def gradient(self, p: Any, accumulated: bool = True) -> None:
        """A gradient came for `p` and is about to be added to what is there, or is an answer of `autograd.grad`."""
        self.trace.steps.beat()
        key = self._key(p)
        self._got.add(key)
        if key in self._dropped or len(self._dropped) < 2 * FEW:
            dropped = self._dropped.setdefault(key, [])
            empty = _empty(p._grad)
            if key in self._fresh and not self._stepping and empty:
                dropped.append(self.trace.steps.last_backward)
                wasted = self.trace.wasted.setdefault(self.trace.steps.last_backward, {})
                leaf = self.fold.parameter(p)
                wasted[leaf] = wasted.get(leaf, 0) + self._summed.get(key, (-1, 1))[1]
            before, passes = self._summed.get(key, (-1, 0))
            if before != self._passes:
                self._summed[key] = self._passes, passes + 1 if key in self._fresh and not empty else 1
        self._fresh.add(key)
        if isinstance(p, Parameter) or getattr(p, "is_parameter", False):
            self._since.add(key)
        if not accumulated:
            return
        if not self.trace.steps.count:
            self._by_hand(p)
        if key in self._spent:
            held, version = self._spent.pop(key)
            g = p._grad
            self._stale[key] = g is not None and g is held() and g._version == version and bool(values_of(g._a).any())
        elif self._stale.get(key) and _empty(p._grad):
            self._stale[key] = False

    def passed(self, chain: Chain) -> None:
        """A backward() has come to its end."""
        self._passes += 1
        self._in_a_row = self._in_a_row + 1 if chain == self._from else 1
        self._from = chain

    def _key(self, p: Any) -> int:
        """Return the identity of a parameter; what was noted of one that is gone and had the same is forgotten."""
        key = id(p)
        known = self._known.get(key)
        if known is None or known() is not p:
            if known is not None:
                for notes in (
                    self._spent,
                    self._stale,
                    self._versions,
                    self._left,
                    self._owner,
                    self._dropped,
                    self._summed,
                ):
                    notes.pop(key, None)  # type: ignore[attr-defined]
                for marks in (self._fresh, self._moved, self._since, self._got):
                    marks.discard(key)
            self._known[key] = weakref.ref(p)
        return key

    def before(self, optimizer: Any, parameters: list[Any], site: Site) -> None:
        """An optimizer begins its step."""
        facts, self._site = self.trace.steps, site
        facts.count += 1
        facts.beat()
        facts.last_step = self.fold.chain(site)
        facts.lr = max((_number(group.get("lr")) for group in optimizer.param_groups), default=0.0)
        facts.adaptive = any(
            word in type(optimizer).__name__ for word in ("Ada", "Prop", "prop", "LBFGS", "Muon", "Adam")
        )
        facts.curved = "LBFGS" in type(optimizer).__name__
        self._stepping = True
        self._rates(optimizer)
        self._owners(optimizer, parameters)
        with_gradient = [p for p in parameters if p._grad is not None]
        self.trace.given.update(self.fold.parameter(p) for p in with_gradient if id(p) not in self._got)
        self._drop(with_gradient)
        known = self._runs.get(id(optimizer))
        if known is not None and known[1]() is optimizer:
            runs = known[0]
        else:
            runs = OptimizerFacts(type(optimizer).__name__)
            runs.eps = min((_number(group.get("eps")) for group in optimizer.param_groups), default=0.0)
            self._runs[id(optimizer)] = runs, weakref.ref(optimizer)
            facts.optimizers.append(runs)
        runs.steps += 1
        runs.idle += not with_gradient
        # the most that one of them got: behind an activation that is saturated gradients are 0
        if passes := max((self._summed[id(p)][1] for p in with_gradient if id(p) in self._summed), default=0):
            passes = passes if passes <= self._in_a_row else 1  # losses of several lines add up by intent
            runs.summed = min(runs.summed or passes, passes)
        if len(runs.rates) < runs.RATES:
            runs.rates.append(facts.lr)
        if with_gradient and facts.idle_always is not None and facts.idle_always[0] == id(optimizer):
            facts.idle_always = None
        if any(self._stale.get(id(p)) for p in with_gradient):
            runs.stale += 1
            runs.stale_at = runs.stale_at or facts.last_backward
            runs.again += runs.fed == facts.last_backward
        runs.fed, runs.step_at = facts.last_backward, facts.last_step
        facts.followed.setdefault(facts.last_backward, facts.last_step)
        if facts.count > 64 and facts.count % 16:
            return
        # From the last one on: behind a head that begins at zero, the first step's gradients are all zero.
        used = not all(_empty(p._grad) for p in reversed(with_gradient))
        if used:
            return
        leaves = [self.fold.parameter(p) for p in parameters]
        if runs.steps == runs.idle > 1 and facts.idle_always is None:
            facts.idle_always = id(optimizer), self.fold.chain(site), leaves
        came = [g for leaf in leaves if (g := self.trace.gradients.get(leaf)) is not None]
        fresh = any(id(p) in self._fresh for p in parameters)
        if fresh and any(g.max_abs for g in came):
            # not every gradient is looked at: those that came last may have been zero when they came
            self.doubts = not any(g.max_abs and g.fresh for g in came)
            if facts.cleared is None and not self.doubts:
                facts.cleared = self.fold.chain(site)
        elif not with_gradient and not (fresh and came) and facts.idle is None:
            facts.idle, facts.idle_leaves = self.fold.chain(site), leaves

    def unheard(self, optimizer: Any, steps: int) -> None:
        """An optimizer has made steps that were not heard, the last of them with the rate that it has now."""
        known = self._runs.get(id(optimizer))
        if known is not None and known[1]() is optimizer and len(known[0].rates) < known[0].RATES:
            rate = max((_number(group.get("lr")) for group in optimizer.param_groups), default=0.0)
            known[0].rates += [rate] * steps

    def _rates(self, optimizer: Any) -> None:
        """What the learning rate has come to, and what weight decay does with it."""
        facts, groups = self.trace.steps, optimizer.param_groups
        facts.highest_lr = max(facts.highest_lr, facts.lr)
        facts.asleep += facts.lr < 1e-4 * facts.highest_lr
        for group in groups:
            decay = _number(group.get("weight_decay"))
            rate = _number(group.get("lr"))
            coupled = facts.adaptive and "W" not in type(optimizer).__name__  # the gradient's size is divided away
            share = min(rate * decay, 1.0) if not coupled else (0.0 if decay < 1 else min(rate, 1.0))
            if share > facts.shrinks[1] or (coupled and decay >= 1):
                facts.shrinks = decay, share

    def _owners(self, optimizer: Any, parameters: list[Any]) -> None:
        """Whose parameters these are: an optimizer may be new, and a model too."""
        facts, first = self.trace.steps, next((p for p in parameters if id(p) in self._known), None)
        if first is None:
            first = next(iter(parameters), None)
            if first is None:
                return
        held = self._owner.get(self._key(first))
        if held is None or held() is not optimizer:
            if held is not None and (facts.adaptive or _number(optimizer.param_groups[0].get("momentum"))):
                facts.anew.append(type(optimizer).__name__)
            for p in parameters:
                self._owner[id(p)] = weakref.ref(optimizer)
        came, self._since = self._since, set()
        if not any(p._grad is not None for p in parameters) and came - self._owner.keys():
            facts.strangers = self.fold.chain(self._site), facts.strangers[1] + 1

    def _drop(self, parameters: list[Any]) -> None:
        """Before a step: were gradients of the backward() whose gradients it uses cleared since the last step?"""
        facts, first = self.trace.steps, next((id(p) for p in parameters if id(p) in self._dropped), None)
        if first is None:
            return
        dropped, self._dropped[first] = self._dropped[first], []
        if first in self._fresh and dropped and all(chain == facts.last_backward for chain in dropped):
            facts.dropped.append(facts.last_backward)
            facts.dropped_runs += len(dropped)

    def moved(self, p: Any) -> None:
        """The values of a parameter are changed beside it, by its .data."""
        self._moved.add(id(p))

    def _by_hand(self, p: Any) -> None:
        """Without an optimizer: was `p` changed since its last gradient, which is still there?"""
        key, version = id(p), p._version
        moved = key in self._moved or self._versions.get(key, version) != version
        self._versions[key] = version
        self._moved.discard(key)
        if not moved:
            return
        facts = self.trace.steps
        facts.by_hand += 1
        self._left[key] = 0 if _empty(p._grad) else self._left.get(key, 0) + 1
        if self._left[key] > 1 and facts.stale is None:
            facts.stale = facts.last_backward

    def after(self, parameters: list[Any]) -> None:
        """The step is done: the gradients it used are spent."""
        self._stepping = False
        self._fresh.difference_update(map(id, parameters))
        used = ((p, g) for p in parameters if (g := p._grad) is not None)
        for p, g in itertools.islice(used, FEW):
            self._spent[id(p)] = (weakref.ref(g), g._version)
        self._check_modes({id(original(p)) for p in parameters})

    # -- modes ---------------------------------------------------------------------------------------------------------

    def enter(self, module: Any) -> None:
        """A module begins: remember the mode of those whose result depends on it."""
        path = self.fold.path
        self.trace.steps.beat()
        watched = self._watched.get(path)
        if watched is None:
            watched = self._watched[path] = matters(module)
        grad = modes.state.enabled
        if self.fold.paths[path][0] == 0:
            self._training[path] = bool(module.training)
            if self.entered is not None:
                self.entered()
        if grad and self.fold.paths[path][0] == 0:
            self._suspect.pop(path, None)
            self._evaluates[path] = not module.training
            if module.training and self._suspect:
                self._acquit(module)
            (self.trace.evaluated.discard if module.training else self.trace.evaluated.add)(path)
        if not watched or (not grad and module.training and self.judging(path)):
            return  # in a model in evaluation mode a part may be put to training mode by hand: Monte Carlo dropout
        seen = self.trace.modes.setdefault(path, {})
        seen[module.training, grad] = seen.get((module.training, grad), 0) + 1
        if grad:
            root = self._root(path)
            if module.training:
                self._evaluates[root] = False  # a part in evaluation mode may be frozen on purpose, all of it not
            self._suspect.setdefault(root, path)

    def _acquit(self, module: Any) -> None:
        """A model runs in training mode: of its parts that ran alone before, to show samples, none is trained so."""
        parts = set(map(id, module.modules()))
        for root in [r for r in self._suspect if id(self.fold.paths[r][1]()) in parts]:
            del self._suspect[root]

    def judging(self, path: int) -> bool:
        """Return whether the whole model that a path belongs to is in evaluation mode."""
        return bool(path) and not self._training.get(self._root(path), True)

    def _root(self, path: int) -> int:
        while self.fold.paths[path][0]:
            path = self.fold.paths[path][0]
        return path

    def _check_modes(self, trained: set[int]) -> None:
        """At a step: what ran in evaluation mode with gradients has been trained so, unless it holds none of these."""
        seen = self.trace.steps.in_evaluation
        for root, path in self._suspect.items():
            if not self._evaluates.get(root):
                continue
            held = self._held.get(root)
            if held is None:
                module = self.fold.paths[root][1]()
                held = self._held[root] = frozenset(map(id, module.parameters() if module is not None else ()))
            if not held.isdisjoint(trained):
                seen[path] = seen.get(path, 0) + 1


def _empty(gradient: Any) -> bool:
    """Return whether there is no gradient, or one of zeros alone. It is read once: another thread may take it away."""
    return gradient is None or not values_of(gradient._a).any()


def _number(value: Any) -> float:
    """Return a setting of an optimizer, which may be a tensor; 0 for none."""
    return float(value) if isinstance(value, int | float) or hasattr(value, "item") else 0.0


def matters(module: Any) -> bool:
    """Return whether a module computes something else in training than in evaluation.

    >>> import core
    >>> matters(core.nn.Dropout(0.1)), matters(core.nn.BatchNorm1d(3)), matters(core.nn.Dropout(0.0))
    (True, True, False)
    """
    if getattr(module, "running_mean", None) is not None:
        return True
    return "Dropout" in type(module).__name__ and bool(getattr(module, "p", 0))
