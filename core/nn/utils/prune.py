"""Weights cut to zero by masks: ``core.nn.utils.prune``.

A pruned parameter ``weight`` becomes ``weight_orig``, which the optimizer goes on training, and the buffer
``weight_mask``; ``weight`` itself is their product, computed in a hook before each forward. Pruning again prunes of
what is left. `remove` makes it a plain parameter once more, with its zeros.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from ...base.errors import text
from ...declare.op import functions as _f
from ...ops.creation import ones_like
from ...random import rand, rand_like
from ...tensors.tensor import Tensor
from ..modules.module import Module


def _checked(amount: Any) -> None:
    if isinstance(amount, bool) or not isinstance(amount, int | float):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if amount < 0 or (isinstance(amount, float) and amount > 1):
        raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")


def _count(amount: Any, size: int) -> int:
    """Return how many of `size` things a share or a number means."""
    if isinstance(amount, float):
        return round(amount * size)
    if amount > size:
        raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={size}")
    return int(amount)


def _hooks(module: Module, name: str) -> Iterator[tuple[Any, BasePruningMethod]]:
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            yield key, hook


class BasePruningMethod(ABC):
    """A way to choose what is cut: a subclass says `PRUNING_TYPE` and writes `compute_mask`.

    `PRUNING_TYPE` says of what a second pruning of the same parameter chooses: "unstructured" of the entries that are
    left, "structured" of the slices along `dim` that are left, "global" of all.
    """

    PRUNING_TYPE: ClassVar[str] = ""
    _tensor_name: str = ""

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask: `default_mask` with further zeros, chosen by the importance of the entries `t`."""

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    def apply_mask(self, module: Module) -> Tensor:
        """Return the product of the original parameter and its mask."""
        name = self._tensor_name
        mask, orig = getattr(module, name + "_mask"), getattr(module, name + "_orig")
        masked: Tensor = mask.to(dtype=orig.dtype) * orig
        return masked

    @classmethod
    def apply(cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None,
              **kwargs: Any) -> BasePruningMethod:  # fmt: skip
        """Prune `name` of a module and add the hook; the method, or a `PruningContainer` where it was pruned before."""
        before = list(_hooks(module, name))
        weight = getattr(module, name)
        scores = weight if importance_scores is None else importance_scores
        if scores.shape != weight.shape:
            raise AssertionError(text(f"importance_scores should have the same shape as parameter {name} of {module}",
                                      op="prune", came=str(scores.shape), needed=str(weight.shape)))  # fmt: skip
        method: BasePruningMethod = cls(*args, **kwargs)
        method._tensor_name = name
        default = getattr(module, name + "_mask").detach().clone() if before else ones_like(weight).detach()
        if before:
            ((key, old),) = before
            method = PruningContainer(*(old if isinstance(old, PruningContainer) else [old]), method)
        mask = method.compute_mask(scores.detach(), default)  # it may refuse: nothing is changed before
        if before:
            del module._forward_pre_hooks[key]
        else:
            del module._parameters[name]
            module.register_parameter(name + "_orig", weight)
        module.register_buffer(name + "_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """Return a tensor with what this method chooses cut to zero; no module takes part."""
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise AssertionError("importance_scores should have the same shape as tensor t")
        pruned: Tensor = t * self.compute_mask(scores, ones_like(t) if default_mask is None else default_mask)
        return pruned

    def remove(self, module: Module) -> None:
        """Make the parameter a plain one, with its zeros."""
        name = self._tensor_name
        weight = self.apply_mask(module)
        orig = module._parameters.pop(name + "_orig")
        delattr(module, name)
        del module._buffers[name + "_mask"]
        orig.data = weight.detach()  # type: ignore[union-attr]
        setattr(module, name, orig)


class PruningContainer(BasePruningMethod):
    """Several prunings of one parameter, each of what those before it left."""

    def __init__(self, *methods: BasePruningMethod) -> None:
        self._methods: tuple[BasePruningMethod, ...] = ()
        for method in methods:
            self._tensor_name = self._tensor_name or method._tensor_name
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """Append a method for the same parameter."""
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if self._tensor_name != method._tensor_name:
            raise ValueError("Can only add pruning methods acting on the parameter named "
                             f"'{self._tensor_name}' to PruningContainer. Found '{method._tensor_name}'")  # fmt: skip
        self._methods += (method,)

    def __len__(self) -> int:
        return len(self._methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._methods)

    def __getitem__(self, i: Any) -> Any:
        return self._methods[i]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        method, mask = self._methods[-1], default_mask
        index: Any = slice(None)
        if method.PRUNING_TYPE == "unstructured":
            index = mask == 1
        elif method.PRUNING_TYPE == "structured":
            dim = method.dim % t.ndim  # type: ignore[attr-defined]
            others = tuple(d for d in range(t.ndim) if d != dim)
            index = (slice(None),) * dim + ((mask.sum(others) != 0).nonzero()[:, 0],)
        elif method.PRUNING_TYPE != "global":
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        new = mask.clone()
        new[index] = method.compute_mask(t[index], mask[index]).to(new.dtype)
        return new


class Identity(BasePruningMethod):
    """Cuts nothing; the parameter is merely split into the original and a mask of ones."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask


class RandomUnstructured(BasePruningMethod):
    """Cuts entries that are drawn at random. `amount` is their number, or as a float their share."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: float) -> None:
        _checked(amount)
        self.amount = amount

    def scores(self, t: Tensor) -> tuple[Tensor, bool]:
        """Return a number for each entry, and whether the greatest are cut."""
        return rand_like(t), True

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        n, mask = _count(self.amount, t.numel()), default_mask.clone()
        if n:
            scores, greatest = self.scores(t)
            mask.view(-1)[scores.reshape(-1).topk(n, largest=greatest).indices] = 0
        return mask


class L1Unstructured(RandomUnstructured):
    """Cuts the entries nearest to zero. `amount` is their number, or as a float their share."""

    def scores(self, t: Tensor) -> tuple[Tensor, bool]:
        return t.abs(), False


class RandomStructured(BasePruningMethod):
    """Cuts slices along `dim` that are drawn at random. `amount` is their number, or as a float their share."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        _checked(amount)
        self.amount, self.dim = amount, dim

    def scores(self, t: Tensor) -> Tensor:
        """Return a number for each slice; the least are cut."""
        return rand(t.shape[self.dim])

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if t.ndim < 2:
            raise ValueError("Structured pruning can only be applied to multidimensional tensors. "
                             f"Found tensor of shape {t.shape} with {t.ndim} dims")  # fmt: skip
        if not -t.ndim <= self.dim < t.ndim:
            raise IndexError(f"Invalid index {self.dim} for tensor of size {t.shape}")
        n, mask = _count(self.amount, t.shape[self.dim]), default_mask.clone()
        if n:
            least = self.scores(t).topk(n, largest=False).indices.to(t.device)
            mask.index_fill_(self.dim, least, 0)
        return mask


class LnStructured(RandomStructured):
    """Cuts the slices along `dim` of the least `n`-norm. `amount` is their number, or as a float their share."""

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def scores(self, t: Tensor) -> Tensor:
        others = [d for d in range(t.ndim) if d != self.dim % t.ndim]
        norms: Tensor = _f["norm"](t, p=self.n, dim=others)
        return norms


class CustomFromMask(BasePruningMethod):
    """Cuts where a given mask is 0."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape {self.mask.shape}"
            )
        return default_mask * self.mask.to(dtype=default_mask.dtype)


def identity(module: Any, name: str) -> Any:
    """Split a parameter into the original and a mask of ones, which the caller may then write."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Any, name: str, amount: float) -> Any:
    """Cut entries of a parameter that are drawn at random: `amount` of them, or as a float that share.

    >>> import core
    >>> m = core.nn.utils.prune.random_unstructured(core.nn.Linear(4, 5), "weight", amount=0.25)
    >>> m.weight_mask.sum()
    tensor(15.)
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Any, name: str, amount: float, importance_scores: Tensor | None = None) -> Any:
    """Cut the entries of a parameter that are nearest to zero: `amount` of them, or as a float that share.

    `importance_scores` takes the entries' place in the comparison. The module is changed, and returned.

    >>> import core
    >>> m = core.nn.Linear(2, 1)
    >>> m.weight.data = core.tensor([[0.1, -3.0]])
    >>> core.nn.utils.prune.l1_unstructured(m, "weight", amount=1).weight.tolist()
    [[0.0, -3.0]]
    >>> sorted(m.state_dict())
    ['bias', 'weight_mask', 'weight_orig']
    """
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: Any, name: str, amount: float, dim: int) -> Any:
    """Cut whole slices of a parameter along `dim` that are drawn at random."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module: Any, name: str, amount: float, n: Any, dim: int,
                  importance_scores: Tensor | None = None) -> Any:  # fmt: skip
    """Cut the slices of a parameter along `dim` whose `n`-norm is the least.

    >>> import core
    >>> m = core.nn.Linear(2, 2)
    >>> m.weight.data = core.tensor([[0.1, 0.2], [3.0, 4.0]])
    >>> core.nn.utils.prune.ln_structured(m, "weight", amount=1, n=2, dim=0).weight.tolist()
    [[0.0, 0.0], [3.0, 4.0]]
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def global_unstructured(parameters: Any, pruning_method: Any, importance_scores: Any = None, **kwargs: Any) -> None:
    """Prune several parameters as if they were one: ``amount=0.5`` cuts half of all entries, wherever they are.

    parameters : pairs of a module and the name of its parameter.
    pruning_method : an unstructured one, `L1Unstructured` or `RandomUnstructured`; `kwargs` are its arguments.
    importance_scores : by such a pair what takes the entries' place in the comparison.

    >>> import core
    >>> from core.nn.utils import prune
    >>> model = core.nn.Sequential(core.nn.Linear(4, 4), core.nn.Linear(4, 1))
    >>> weights = [(layer, "weight") for layer in model]
    >>> prune.global_unstructured(weights, prune.L1Unstructured, amount=0.5)
    >>> sum(int(layer.weight_mask.sum()) for layer in model)
    10
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    if importance_scores is not None and not isinstance(importance_scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    pairs = [(module, name) for module, name in parameters]
    if not pairs:
        raise ValueError("expected a non-empty list of Tensors\n  op: global_unstructured\n"
                         "  needed: pairs of a module and the name of its parameter")  # fmt: skip
    given = importance_scores or {}
    weights = [getattr(module, name) for module, name in pairs]
    scores = [given.get(pair, w).detach().reshape(-1) for pair, w in zip(pairs, weights, strict=True)]
    masks: list[Tensor] = [
        ones_like(w).detach() if (mask := getattr(module, name + "_mask", None)) is None else mask
        for (module, name), w in zip(pairs, weights, strict=True)
    ]
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError('Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
                        f"{pruning_method} of type {method.PRUNING_TYPE}")  # fmt: skip
    final = PruningContainer(method).compute_mask(_f["cat"](scores), _f["cat"]([m.reshape(-1) for m in masks]))
    at = 0
    for (module, name), w in zip(pairs, weights, strict=True):
        custom_from_mask(module, name, final[at : at + w.numel()].reshape(w.shape))
        at += w.numel()


def custom_from_mask(module: Any, name: str, mask: Tensor) -> Any:
    """Cut a parameter where `mask` is 0.

    >>> import core
    >>> m = core.nn.utils.prune.custom_from_mask(core.nn.Linear(3, 1), "weight", core.tensor([[1, 0, 1]]))
    >>> (m.weight != 0).tolist()
    [[True, False, True]]
    """
    CustomFromMask.apply(module, name, mask)
    return module


def remove(module: Any, name: str) -> Any:
    """Make a pruned parameter a plain one again. The zeros stay.

    >>> import core
    >>> from core.nn.utils import prune
    >>> m = prune.l1_unstructured(core.nn.Linear(3, 1), "weight", amount=1)
    >>> sorted(prune.remove(m, "weight").state_dict()), prune.is_pruned(m)
    (['bias', 'weight'], False)
    """
    for key, hook in _hooks(module, name):
        hook.remove(module)
        del module._forward_pre_hooks[key]
        return module
    raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")


def is_pruned(module: Any) -> bool:
    """Return whether anything in a module or its children is pruned."""
    return any(isinstance(h, BasePruningMethod) for m in module.modules() for h in m._forward_pre_hooks.values())
