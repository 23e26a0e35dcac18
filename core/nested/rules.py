"""What functions make of nested tensors: a table from their names to rules.

Most are a function of the values: elementwise ones as they are, others with their dimensions counted from behind the
batch. What goes across the ragged dimension is computed of the padded batch, with a padding that changes nothing. The
rest raises NotImplementedError, which names the function, the shape and the remedy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import GetSetDescriptorType
from typing import Any

from ..base.errors import text
from ..declare import op as declarations
from ..declare.op import Elementwise
from ..tensors.tensor import Tensor
from . import views
from .attention import attention
from .of_sequences import NestedTensor
from .padding import padded, unpadded
from .pointwise import contiguous, of_values, pointwise
from .reducing import ALONG, REDUCTIONS, along, reduction
from .results import any_nested, back, unsupported

Rule = Callable[..., Any]


def run(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Return what a function makes of arguments of which one is nested."""
    name = getattr(func, "__name__", "")
    if name == "__get__":
        return _property(func, args[0])
    rule = RULES.get(name)
    if rule is not None:
        return rule(func, *args, **kwargs)
    plain = name.removesuffix("_")
    if plain in POINTWISE or isinstance(declarations.table.get(plain), Elementwise):
        return pointwise(func, *args, **kwargs)
    return any_nested((*args, *kwargs.values())).refused(name or repr(func))


def _property(func: Any, x: NestedTensor) -> Any:
    name = PROPERTIES[func.__self__]
    if name.startswith("__"):  # NumPy then asks on, and is told
        raise AttributeError(name)
    if name in ("T", "H"):
        raise unsupported(name, "Permute is not supported on the batch dimension for jagged NT", x, ValueError)
    if name in ("mT", "mH"):
        y: Any = views.transpose(None, x, -2, -1)
        return y.conj() if name == "mH" else y
    return back(func(x._held), x._structure, x._ragged)


def trailing(count: Callable[..., int]) -> Rule:
    """Return the rule of what takes rows whole: the last dimensions, as many as `count` says of the arguments."""

    def rule(func: Any, input: NestedTensor, *given: Any, **options: Any) -> Any:
        name = func.__name__
        if not isinstance(input, NestedTensor) or any(isinstance(v, NestedTensor) for v in (*given, *options.values())):
            raise unsupported(name, "expected the input alone to be nested",
                               any_nested((input, *given, *options.values())))  # fmt: skip
        if input._ragged > input.ndim - 1 - count(*given, **options):
            raise unsupported(name, "not supported over the ragged or the batch dimension", input)
        return back(func(input._held, *given, **options), input._structure, input._ragged)

    return rule


def _normalized(normalized_shape: Any, *given: Any, **options: Any) -> int:
    return 1 if isinstance(normalized_shape, int) else len(normalized_shape)


def embedding(func: Any, input: Any, weight: Any, *given: Any, **options: Any) -> Any:
    if isinstance(weight, NestedTensor):
        weight.refused("embedding")
    return back(func(input._held, weight, *given, **options), input._structure, input._ragged)


def prelu(func: Any, input: Any, weight: Any) -> Any:
    if isinstance(weight, NestedTensor) or weight.numel() != 1:
        raise unsupported("prelu", "needs one slope for all", any_nested((input, weight)))
    return of_values(func, input, weight)


def matmul(func: Any, input: Any, other: Any, **options: Any) -> Any:
    name = func.__name__
    x = input if isinstance(input, NestedTensor) else other
    if isinstance(input, NestedTensor) and not isinstance(other, NestedTensor):
        last = input._ragged == input.ndim - 1
        if not last and other.ndim <= 2:
            ragged = input._ragged
            return back(func(input._held, other, **options), input._structure, ragged)
        if not last and other.ndim == input.ndim:
            return unpadded(func(padded(input, 0), other, **options), input._structure, input._ragged)
    elif isinstance(other, NestedTensor) and isinstance(input, NestedTensor):
        n = input.ndim
        if input._ragged == n - 1 and other.ndim == n and other._ragged == n - 2 \
                and input._structure.size == other._structure.size:  # fmt: skip
            return func(padded(input, 0), padded(other, 0), **options)
    raise RuntimeError(text(f"{name}(): not supported between inputs of shapes {tuple(input.shape)} and "
                            f"{tuple(other.shape)}", op=name, came=f"a ragged size {x._structure.size!r} that the "
                            "result would have twice, or in another place",
                            remedy="scaled_dot_product_attention(q, k, v), or to_padded_tensor(0.0)"))  # fmt: skip


PROPERTIES = {
    found: name
    for cls in Tensor.__mro__[1::-1]
    for name, found in cls.__dict__.items()
    if isinstance(found, property | GetSetDescriptorType)
}
# functions that go element by element and are not declared as such: they choose among several ops, or draw
POINTWISE = {
    *(
        "addcdiv",
        "addcmul",
        "alpha_dropout",
        "clamp",
        "clamp_max",
        "clamp_min",
        "clip",
        "copy",
        "div",
        "dropout",
        "fill",
    ),
    *("fill", "float_power", "gelu", "isclose", "masked_fill", "nan_to_num", "pow", "relu6", "rrelu", "rsub", "zero"),
}
_VALUES = (
    *("bfloat16", "bool", "byte", "char", "clone", "conj", "cpu", "cuda", "double", "float", "half", "int", "long"),
    *("short", "to", "type_as", "empty_like", "full_like", "ones_like", "rand_like", "randn_like", "randint_like"),
    *("zeros_like", "pin_memory", "element_size", "is_floating_point", "is_complex", "is_pinned"),
    *("is_signed", "_is_pinned", "one_hot", "storage_offset", "get_device", "is_inference", "result_type"),
)
RULES: dict[str, Rule] = {
    **dict.fromkeys(_VALUES, of_values),
    **dict.fromkeys(ALONG, along),
    **dict.fromkeys(REDUCTIONS, reduction),
    **dict.fromkeys(["chunk", "split"], views.inside),
    **dict.fromkeys(["matmul", "mm", "bmm"], matmul),
    **dict.fromkeys(["view", "reshape"], views.view),
    **dict.fromkeys(["expand", "broadcast_to"], views.expand),
    **dict.fromkeys(["transpose", "swapaxes", "swapdims"], views.transpose),
    "cat": views.cat,
    "concat": views.cat,
    "contiguous": contiguous,
    "embedding": embedding,
    "expand_as": views.expand_as,
    "flatten": views.flatten,
    "getitem": views.getitem,
    "glu": views.glu,
    "is_same_size": lambda func, input, other: tuple(input.shape) == tuple(other.shape),
    "layer_norm": trailing(_normalized),
    "linear": trailing(lambda *given, **options: 1),
    "narrow": views.narrow,
    "numel": lambda func, input: input.numel(),
    "permute": views.permute,
    "prelu": prelu,
    "rms_norm": trailing(_normalized),
    "scaled_dot_product_attention": attention,
    "select": views.select,
    "squeeze": views.squeeze,
    "stack": views.stack,
    "unbind": views.unbind,
    "unflatten": views.unflatten,
    "unsqueeze": views.unsqueeze,
}
