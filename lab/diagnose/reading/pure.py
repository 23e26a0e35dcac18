"""What may be run again of the user's text: functions without effects, plain values, and what a statement changes."""

from __future__ import annotations

import ast
import builtins
import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .sources import Function, own_nodes

TURNS = 400  # of a loop, or of a container
LIBRARIES = ("numpy", "torch", "core", "math")
PURE = frozenset((
    "abs", "absolute", "acos", "acosh", "all", "amax", "amin", "angle", "any", "arange", "arccos", "arcsin", "arctan",
    "arctan2", "arctanh", "argmax", "argmin", "argsort", "array", "as_tensor", "asarray", "ascontiguousarray", "asin",
    "astype", "atan", "atan2", "atanh", "average", "bfloat16", "bincount", "blackman", "broadcast_to", "cat", "cdist",
    "ceil", "chunk", "clamp", "clamp_max", "clamp_min", "clip", "clone", "column_stack", "concat", "concatenate",
    "contiguous", "convolve", "copy", "corrcoef", "cos", "cosh", "cosine_similarity", "count_nonzero", "cov", "cpu",
    "cross", "cummax", "cumprod", "cumsum", "deg2rad", "detach", "diag", "diagonal", "diff", "digitize", "dim", "div",
    "divide", "dot", "double", "DoubleTensor", "dstack", "einsum", "empty_like", "erf", "exp", "exp2", "expand",
    "expand_as", "expand_dims", "expm1", "eye", "fft", "finfo", "flatten", "flip", "float", "float16", "float32",
    "float64", "FloatTensor", "floor", "floor_divide", "fmod", "from_numpy", "full", "full_like", "gather", "ge",
    "gt", "half", "hamming", "hamming_window", "hann_window", "hanning", "histc", "histogram", "hstack", "hypot",
    "int", "int32", "int64", "interp", "irfft", "is_tensor", "isclose", "isfinite", "isinf", "isnan", "item",
    "kthvalue", "le", "linalg_norm", "linspace", "log", "log10", "log1p", "log2", "log_softmax", "logaddexp",
    "logical_and", "logical_not", "logical_or", "logspace", "logsumexp", "long", "LongTensor", "lt", "masked_fill",
    "masked_select", "matmul", "max", "maximum", "mean", "median", "meshgrid", "min", "minimum", "mm", "mod",
    "moveaxis", "mul", "multiply", "nan_to_num", "nanmax", "nanmean", "nanmedian", "nanmin", "nanstd", "nansum", "ne",
    "neg", "negative", "new_zeros", "nonzero", "norm", "normalize", "numel", "numpy", "one_hot", "ones", "ones_like",
    "outer", "pad", "percentile", "permute", "pow", "power", "prod", "ptp", "quantile", "ravel", "real", "reciprocal",
    "relu", "remainder", "repeat", "repeat_interleave", "reshape", "rfft", "roll", "round", "rsqrt", "searchsorted",
    "select", "shape", "sigmoid", "sign", "sin", "sinh", "size", "softmax", "softplus", "sort", "split", "sqrt",
    "square", "squeeze", "stack", "std", "std_mean", "stft", "sub", "subtract", "sum", "svd", "swapaxes", "T", "take",
    "tan", "tanh", "Tensor", "tensor", "tile", "to", "tolist", "topk", "transpose", "trapz", "tril", "triu",
    "true_divide", "trunc", "type", "type_as", "uint8", "unbind", "unfold", "unique", "unsqueeze", "var", "var_mean",
    "vector_norm", "view", "view_as", "vstack", "where", "xlogy", "zeros", "zeros_like",
))  # fmt: skip
"""Functions and methods whose results depend on their arguments alone."""
BUILTINS = {name: getattr(builtins, name) for name in (
    "abs", "bool", "dict", "enumerate", "float", "int", "len", "list", "max", "min", "pow", "range", "reversed",
    "round", "sorted", "str", "sum", "tuple", "zip",
)}  # fmt: skip
OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.MatMult: operator.matmul,
    ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.USub: operator.neg, ast.UAdd: operator.pos,
    ast.Not: operator.not_, ast.Invert: operator.invert, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Is: operator.is_, ast.IsNot: operator.is_not,
}  # fmt: skip
VIEWS = {"values", "keys", "items"}
PLAIN = (bool, int, float, complex, str, bytes, type(None), slice, range, type(Ellipsis))
ATTRIBUTES = {"shape", "T", "mT", "dtype", "device", "ndim", "real", "imag", "size", "eps", "max", "min", "tiny",
              "values", "indices"}  # fmt: skip


def data(value: Any) -> bool:
    """Return whether a value is numbers, an array, a tensor, or a container of such."""
    if isinstance(value, list | tuple):
        return all(data(item) for item in value[:TURNS])
    if isinstance(value, dict):
        return all(data(item) for item in list(value.values())[:TURNS])
    return isinstance(value, (*PLAIN, np.ndarray, np.generic)) or is_tensor(value)


def is_tensor(value: Any) -> bool:
    """Return whether a value is a tensor, of whichever library."""
    return hasattr(type(value), "requires_grad") and hasattr(type(value), "detach")


def stored(statement: ast.AST) -> set[str]:
    """Return the variables that a statement gives or changes.

    >>> texts = "a, b = f(x)", "a[0] = 1", "a.div_(2)", "for i in a: b = i"
    >>> [sorted(stored(ast.parse(text).body[0])) for text in texts]
    [['a', 'b'], ['a'], ['a'], ['b', 'i']]
    """
    known: set[str] | None = vars(statement).get("stored")
    if known is None:
        known = vars(statement)["stored"] = set(_stored(statement))
    return known


def _stored(statement: ast.AST) -> Iterator[str]:
    if isinstance(statement, Function | ast.ClassDef):
        yield statement.name
        return
    for node in (statement, *own_nodes(statement)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name):
            yield node.value.id
        elif isinstance(node, ast.Expr) and (changed := in_place(node.value)) is not None:
            yield changed[0]
        elif isinstance(node, ast.Expr) and (longer := appended(node.value)) is not None:
            yield longer[0].id


def in_place(node: ast.expr) -> tuple[str, ast.Call] | None:
    """Return the variable that ``x.div_(2)`` changes, and the call that gives what it holds then: ``x.div(2)``."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    name, of = node.func.attr, node.func.value
    if not isinstance(of, ast.Name) or not name.endswith("_") or name[:-1] not in PURE:
        return None
    method = ast.copy_location(ast.Attribute(of, name[:-1], ast.Load()), node)
    return of.id, ast.copy_location(ast.Call(method, node.args, node.keywords), node)


def appended(node: ast.expr) -> tuple[ast.Name, ast.expr] | None:
    """Return the list that ``x.append(y)`` makes longer, and what it gets."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or len(node.args) != 1:
        return None
    of = node.func.value
    return (of, node.args[0]) if isinstance(of, ast.Name) and node.func.attr == "append" else None
