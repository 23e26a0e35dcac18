"""What the transforms share, and those made of others: `Compose`, `RandomApply`, `RandomChoice`, `RandomOrder`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from ...base.errors import text
from ...nn.modules.module import Module
from . import drawing

Work = Callable[[Any], Any]


class Transform(Module):
    """Base of the transforms: modules, so that `nn.Sequential` takes them, that say their settings.

    `said` names the attributes that `repr` shows.
    """

    said: tuple[str, ...] = ()

    def __repr__(self) -> str:
        shown = ((name, getattr(self, name)) for name in self.said)
        inner = ", ".join(f"{name}={v.value if isinstance(v, Enum) else v}" for name, v in shown)
        return f"{type(self).__name__}({inner})"


class _Several(Transform):
    def __init__(self, transforms: Sequence[Work]) -> None:
        super().__init__()
        if not isinstance(transforms, Sequence) and not hasattr(transforms, "__iter__"):
            raise TypeError(text("Argument transforms should be a sequence", op=type(self).__name__,
                                 came=type(transforms).__name__))  # fmt: skip
        self.transforms: Any = transforms  # torchvision's name; a list, which no module registers

    def __repr__(self) -> str:
        inner = "".join(f"\n    {str(t).replace(chr(10), chr(10) + '    ')}" for t in self.transforms)
        before = "".join(f"{name}={getattr(self, name)}" for name in self.said)
        return f"{type(self).__name__}({before}{inner}\n)"


class Compose(_Several):
    """One transform after the other.

    >>> import core
    >>> from core.vision import transforms
    >>> both = transforms.Compose([transforms.CenterCrop(2), transforms.Normalize([0.5], [0.5])])
    >>> both(core.ones(1, 4, 4))
    tensor([[[1., 1.],
             [1., 1.]]])
    """

    def forward(self, img: Any) -> Any:
        """Return the image after all of them."""
        for t in self.transforms:
            img = t(img)
        return img


class RandomApply(_Several):
    """All of the transforms with probability `p`, or none.

    >>> RandomApply([lambda x: x + 1], p=1.0)(2)
    3
    """

    said = ("p",)

    def __init__(self, transforms: Sequence[Work], p: float = 0.5) -> None:
        super().__init__(transforms)
        self.p = p

    def forward(self, img: Any) -> Any:
        """Return the image, or what the transforms make of it."""
        if self.p < drawing.uniform():
            return img
        for t in self.transforms:
            img = t(img)
        return img


class RandomChoice(_Several):
    """One of the transforms; `p` are their weights, by default equal.

    >>> RandomChoice([lambda x: x + 1, lambda x: x + 2], p=[0, 1])(2)
    4
    """

    said = ("p",)

    def __init__(self, transforms: Sequence[Work], p: Sequence[float] | None = None) -> None:
        super().__init__(transforms)
        if p is not None and (len(p) != len(transforms) or min(p) < 0 or sum(p) <= 0):
            raise ValueError(text("p needs a weight of at least 0 for every transform", op="RandomChoice", came=f"{p}"))
        self.p = p

    def forward(self, img: Any) -> Any:
        """Return what one of them makes of the image."""
        weights = [float(w) for w in self.p] if self.p is not None else [1.0] * len(self.transforms)
        at = drawing.uniform() * sum(weights)
        chosen = [k for k, w in enumerate(weights) if w > 0]
        for k in chosen:
            at -= weights[k]
            if at < 0:
                return self.transforms[k](img)
        return self.transforms[chosen[-1]](img)  # where rounding has left something over


class RandomOrder(_Several):
    """All of the transforms, in an order drawn anew each time.

    >>> RandomOrder([lambda x: x + 1, lambda x: x + 2])(0)
    3
    """

    def forward(self, img: Any) -> Any:
        """Return the image after all of them."""
        for k in drawing.order(len(self.transforms)):
            img = self.transforms[k](img)
        return img


class Lambda(Transform):
    """A function as a transform.

    >>> Lambda(lambda x: 2 * x)(3)
    6
    """

    def __init__(self, lambd: Work) -> None:
        super().__init__()
        if not callable(lambd):
            raise TypeError(f"Argument lambd should be callable, got {type(lambd).__name__!r}")
        self.lambd = lambd

    def forward(self, img: Any) -> Any:
        """Return what the function gives."""
        return self.lambd(img)
