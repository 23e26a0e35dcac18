"""The weights of a model, from a file on this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any, TypeVar

from ... import nn
from ...base.errors import text
from ...serialization import load
from ...tensors.tensor import Tensor

M = TypeVar("M", bound=nn.Module)
SUFFIXES = (".pth", ".pt", ".bin", ".safetensors")


def built(op: str, make: Callable[..., M], head: str, weights: Any, settings: dict[str, Any]) -> M:
    """Return the model that `make` gives for these settings, with the weights of a file where one is named.

    head : the layer that ends in the classes. Where `num_classes` is not among the settings the file says it.

    *Raises*: ValueError for the name of published weights, which are not fetched, for a file that is no state dict, and
    for a number of classes that the file does not have.

    >>> import core, tempfile, os
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = os.path.join(folder, "linear.pth")
    ...     core.save(core.nn.Sequential(core.nn.Linear(2, 3)).state_dict(), file)
    ...     built("linear", lambda num_classes=9: core.nn.Sequential(core.nn.Linear(2, num_classes)), "0", file, {})
    Sequential(
      (0): Linear(in_features=2, out_features=3, bias=True)
    )
    """
    if settings.pop("pretrained", False):
        raise _name("pretrained=True", op)
    if weights is None:
        return make(**settings)
    state = _state(op, weights)
    last = state.get(f"{head}.weight")
    if last is not None:
        classes = last.shape[0]
        if settings.setdefault("num_classes", classes) != classes:
            wanted = settings["num_classes"]
            raise ValueError(
                text(f"The parameter 'num_classes' expected value {classes} but got {wanted} instead.", op=op,
                     came=f"{os.fspath(weights)}, whose {head}.weight is for {classes} classes",
                     remedy=f"leave num_classes out; then model.{head} = a layer for {wanted} classes")
            )  # fmt: skip
    model = make(**settings)
    model.load_state_dict(state)
    return model


def _state(op: str, weights: Any) -> dict[str, Tensor]:
    name = weights if isinstance(weights, str | os.PathLike) else None
    if name is None or not (os.path.exists(name) or PurePath(name).suffix in SUFFIXES or os.sep in os.fspath(name)):
        raise _name(f"weights={weights!r}", op, getattr(weights, "url", ""))
    found = load(name)
    if not isinstance(found, Mapping) or not all(isinstance(t, Tensor) for t in found.values()):
        inner = [k for k, v in found.items() if isinstance(v, Mapping)] if isinstance(found, Mapping) else []
        raise ValueError(
            text(f"{os.fspath(name)} is not a state dict", op=op,
                 came=f"a {type(found).__name__}" + (f" with {', '.join(map(repr, inner))} in it" if inner else ""),
                 needed="tensors by the names of parameters",
                 remedy=f"model.load_state_dict(core.load(file)[{inner[0]!r}])" if inner else "")
        )  # fmt: skip
    return dict(found)


def _name(came: str, op: str, url: str = "") -> ValueError:
    return ValueError(
        text("published weights are not fetched from the network", op=op, came=came,
             needed=f"the path of a file ({', '.join(SUFFIXES)}) with torchvision's keys",
             remedy=f"download {url or 'it'} once (torchvision's pages name the address) and give "
                    f"weights='folder/{PurePath(url).name or op + '.pth'}'")
    )  # fmt: skip
