"""Joining layers that follow one another: convolutions and linear maps with batch norms and ReLUs behind them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from ...base.errors import text
from ...nn.modules import activation, batchnorm, conv, linear
from ...nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval
from ..nn import intrinsic

__all__ = ["fuse_known_modules", "fuse_modules", "fuse_modules_qat"]

_CONVS: dict[type[Any], int] = {conv.Conv1d: 1, conv.Conv2d: 2, conv.Conv3d: 3}
_TRANSPOSED: tuple[type[Any], ...] = (conv.ConvTranspose1d, conv.ConvTranspose2d, conv.ConvTranspose3d)
_NORMS: tuple[type[Any], ...] = (batchnorm.BatchNorm1d, batchnorm.BatchNorm2d, batchnorm.BatchNorm3d)


def _joined(layers: list[Any], is_qat: bool) -> Any:
    """Return one module for several; AssertionError for an order of layers that is not known."""
    kinds = [type(m) for m in layers]
    first, norm, relu = layers[0], next((m for m in layers[1:] if type(m) in _NORMS), None), layers[-1]
    ends = type(relu) is activation.ReLU
    if kinds[1:] not in ([activation.ReLU], *([n] for n in _NORMS), *([n, activation.ReLU] for n in _NORMS)):
        _unknown(kinds)
    if norm is not None and first.training is not norm.training:
        raise AssertionError(text("Conv and BN both must be in the same mode (train or eval)", op="fuse_modules",
                                  came="one in each"))  # fmt: skip
    dims = _CONVS.get(kinds[0])
    if norm is None:
        if dims:
            return getattr(intrinsic, f"ConvReLU{dims}d")(first, relu)
        name = {linear.Linear: "LinearReLU", batchnorm.BatchNorm2d: "BNReLU2d", batchnorm.BatchNorm3d: "BNReLU3d"}
        return getattr(intrinsic, name[kinds[0]])(first, relu) if kinds[0] in name else _unknown(kinds)
    if is_qat:
        if dims:
            return getattr(intrinsic, f"ConvBn{'ReLU' if ends else ''}{dims}d")(*layers)
        return intrinsic.LinearBn1d(*layers) if kinds[0] is linear.Linear and not ends else _unknown(kinds)
    if dims or kinds[0] in _TRANSPOSED:
        fused = fuse_conv_bn_eval(first, norm, transpose=not dims)
        if not ends:
            return fused
        return getattr(intrinsic, f"ConvReLU{dims}d")(fused, relu) if dims else _unknown(kinds)
    if kinds[0] is linear.Linear:
        fused = fuse_linear_bn_eval(first, norm)
        return intrinsic.LinearReLU(fused, relu) if ends else fused
    return _unknown(kinds)


def _unknown(kinds: list[Any]) -> Any:
    raise NotImplementedError(
        text(f"Cannot fuse modules: {', '.join(k.__name__ for k in kinds)}", op="fuse_modules",
             needed="a convolution or Linear, then BatchNorm, ReLU or both, or BatchNorm and ReLU"))  # fmt: skip


def fuse_known_modules(mod_list: list[Any], is_qat: bool, additional_fuser_method_mapping: Any = None) -> list[Any]:
    """Return for each module of a list what stands in its place: the joined one, and identities.

    Hooks before the first module stay before the joined one, hooks behind the last one behind it.
    """
    own = (additional_fuser_method_mapping or {}).get(tuple(type(m) for m in mod_list))
    if own is not None:
        fused = own(is_qat, *mod_list)
    else:
        fused = _joined(mod_list, is_qat)
    for hook in list(mod_list[0]._forward_pre_hooks.values()):
        fused.register_forward_pre_hook(hook)
    mod_list[0]._forward_pre_hooks.clear()
    for hook in list(mod_list[-1]._forward_hooks.values()):
        fused.register_forward_hook(hook)
    mod_list[-1]._forward_hooks.clear()
    identities = [linear.Identity() for _ in mod_list[1:]]
    for module in identities:
        module.training = mod_list[0].training
    return [fused, *identities]


def _fuse(model: Any, modules_to_fuse: Any, is_qat: bool, inplace: bool,
          fuser_func: Callable[..., list[Any]], custom: Any) -> Any:  # fmt: skip
    model = model if inplace else copy.deepcopy(model)
    lists = modules_to_fuse if all(isinstance(e, list | tuple) for e in modules_to_fuse) else [modules_to_fuse]
    mapping = (custom or {}).get("additional_fuser_method_mapping")
    for names in lists:
        found = [model.get_submodule(name) for name in names]
        for name, module in zip(names, fuser_func(found, is_qat, mapping), strict=True):
            model.set_submodule(name, module)
    return model


def fuse_modules(model: Any, modules_to_fuse: Any, inplace: bool = False, fuser_func: Any = fuse_known_modules,
                 fuse_custom_config_dict: Any = None) -> Any:  # fmt: skip
    """Join layers by their paths, for evaluation: a batch norm is folded into the layer before it.

    modules_to_fuse : a list of paths, or a list of such lists. The joined layer stands in the first one's place, and
    identities in the others'.

    *Raises*: NotImplementedError for layers that cannot be joined, AssertionError where a norm still trains
    (`fuse_modules_qat`).

    >>> import core
    >>> model = core.nn.Sequential(core.nn.Linear(2, 2), core.nn.ReLU()).eval()
    >>> core.ao.quantization.fuse_modules(model, [["0", "1"]])[1]
    Identity()
    """
    return _fuse(model, modules_to_fuse, False, inplace, fuser_func, fuse_custom_config_dict)


def fuse_modules_qat(model: Any, modules_to_fuse: Any, inplace: bool = False, fuser_func: Any = fuse_known_modules,
                     fuse_custom_config_dict: Any = None) -> Any:  # fmt: skip
    """Join layers by their paths, for training: norms stay, behind their layers."""
    return _fuse(model, modules_to_fuse, True, inplace, fuser_func, fuse_custom_config_dict)
