"""The printed parsers of public functions: each serves its plain calls, and comes to what its Python function does.

The calls are made from the headers: each parameter of a plain call by its place and by its name, left out, of a wrong
kind, out of range. A parser that takes fewer calls than before gives the same results, only slower; so the tests ask
which path a call went.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import core
from core import native
from core.declare import op as declarations
from core.declare.signature import Public, registered
from core.dispatch.publish import namespaces
from core.dispatch.type_errors import guarded
from core.events import observe
from core.ops import bits
from core.ops.quantised import int8_linear
from core.tensors.tensor import Tensor

pytestmark = pytest.mark.skipif(native.module is None, reason="the parsers are in the extension")

RNG = np.random.default_rng(0)


def real(*shape: int) -> Tensor:
    return core.from_numpy(RNG.standard_normal(shape, dtype=np.float32))


X, SQUARE, CUBE = real(4, 3), real(3, 3), real(2, 4, 3)
IMAGE, SERIES = real(1, 2, 6, 6), real(1, 2, 6)
AT, ROWS, CLASSES = core.tensor([[0, 1, 2], [2, 1, 0]]), core.tensor([0, 2]), core.tensor([0, 2, 1, 2])
TRUTHS = X > 0

# A plain call of functions that have a parser, without the defaults; of those that are not here one is made of
# their op's samples. Tensors that are written are made anew.
PLAIN: dict[str, tuple[Any, ...]] = {
    "tensor": ([1.0, 2.0],), "zeros": (2, 3), "ones": (2, 3), "empty": (2, 0), "rand": (2, 3), "zeros_like": (X,),
    "ones_like": (X,), "empty_like": (real(0, 3),), "rand_like": (X,), "full": ((2, 3), 1.5), "full_like": (X, 1.5),
    "arange": (1, 9, 2), "eye": (3, 2), "new_zeros": (X, 2, 3), "new_ones": (X, 2, 3), "new_empty": (X, 2, 0),
    "pow": (X, 2.5), "where": (TRUTHS, X, 0.5), "clamp": (X, -1, 1.5), "clamp_min": (X, 0), "clamp_max": (X, 0.5),
    "nan_to_num": (X, 1.0, 2.0, 3.0), "addcmul": (X, X, X), "addcdiv": (X, X, X), "masked_fill": (X, TRUTHS, 0.5),
    "to": (X, core.float64), "type_as": (X, AT), "contiguous": (X,), "copy_": (X, real(3)), "fill_": (X, 2.0),
    "zero_": (X,), "masked_fill_": (X, TRUTHS, 0.5), "setitem": (X, 1, 2.0), "getitem": (X, (0, slice(1, 3))),
    **dict.fromkeys(("float", "double", "half", "bool", "bfloat16", "long", "int", "short", "char", "byte"), (X,)),
    "reshape": (X, 2, 6), "view": (X, 2, 6), "flatten": (CUBE, 0, 1), "permute": (CUBE, 2, 0, 1),
    "transpose": (X, 0, 1), "t": (X,), "_mT": (CUBE,), "_T": (X,), "squeeze": (real(1, 3), 0), "unsqueeze": (X, 1),
    "expand": (real(1, 3), 4, 3), "split": (X, 2, 0), "chunk": (X, 2, 0), "unbind": (X, 0), "cat": ([X, X], 1),
    "stack": ([X, X], 2), "diag": (SQUARE, 1), "trace": (SQUARE,), "flip": (X, 0), "roll": (X, 1, 0), "tril": (X, 1),
    "triu": (X, -1), "nonzero": (TRUTHS,), "gather": (X, 0, AT), "scatter": (X, 0, AT, 1.5),
    "scatter_add": (X, 0, AT, real(2, 3)),
    "scatter_reduce": (X, 0, AT, real(2, 3), "amax"), "index_select": (X, 1, ROWS),
    "index_add": (X, 0, ROWS, real(2, 3)),
    "index_copy": (X, 0, ROWS, real(2, 3)), "cumsum": (X, 1),
    **dict.fromkeys(("sum", "mean", "prod", "logsumexp", "all", "any", "amax", "amin"), (X, 1, True)),
    **dict.fromkeys(("max", "min", "argmax", "argmin"), (X, 1, True)),
    "var": (X, 1, False, True), "std": (X, (0, 1), None, True), "norm": (X, 2, 1, True),
    "sort": (X, 0, True), "argsort": (X, 1, True), "topk": (X, 2, 0, False),
    "matmul": (X, SQUARE), "mm": (X, SQUARE), "bmm": (CUBE, real(2, 3, 5)), "mv": (X, real(3)),
    "dot": (real(3), real(3)), "addmm": (real(3), X, SQUARE), "einsum": ("ij,jk->ik", X, SQUARE),
    "nn_functional_linear": (X, real(5, 3), real(5)), "nn_functional_layer_norm": (X, (3,), real(3), real(3), 1e-4),
    "nn_functional_cross_entropy": (X, CLASSES), "nn_functional_nll_loss": (X, CLASSES),
    "nn_functional_pad": (X, (1, 2), "constant", 0.5), "nn_functional_max_pool1d": (SERIES, 2, 2, 1, 1),
    "nn_functional_max_pool2d": (IMAGE, 2, 2, 1, 1), "nn_functional_avg_pool1d": (SERIES, 2, 2, 1),
    "nn_functional_avg_pool2d": (IMAGE, (2, 2), 2, 1),
    "nn_functional_avg_pool3d": (real(1, 2, 4, 4, 4), (2, 1, 2), 2, 0),
    "nn_functional_max_pool3d": (real(1, 2, 4, 4, 4), 2, 2, 1, 1),
    "randn": (2, 3), "randn_like": (X,), "linspace": (-1, 2.5, 7), "from_numpy": (X.numpy(),), "equal": (X, real(4, 3)),
    "hstack": ([X, X],), "vstack": ([X, X],), "cumprod": (X, 1), "cummax": (X, 0), "cummin": (X, 1),
    "nn_functional_conv1d": (SERIES, real(4, 1, 3), real(4), 2, 1, 1, 2),
    "nn_functional_conv2d": (IMAGE, real(3, 2, 2, 3), real(3), (2, 1), 1, 2),
    "nn_functional_conv3d": (real(1, 2, 4, 4, 4), real(3, 2, 2, 2, 2), real(3), 2, 1),
    "nn_functional_conv_transpose1d": (SERIES, real(2, 3, 3), real(3), 2, 1, 1),
    "nn_functional_conv_transpose2d": (IMAGE, real(2, 2, 2, 3), real(4), 2, 1, 1, 2, 2),
    "nn_functional_conv_transpose3d": (real(1, 2, 3, 3, 3), real(2, 3, 2, 2, 2), real(3), 2, 1),
    "backward": (X,),
    "int8_linear": (X, core.tensor([[1, -2, 127], [-128, 0, 3]], dtype=core.int8), real(2), real(2)),
    "take_along_dim": (X, core.tensor([[0, 2], [1, 1], [2, 0], [0, 0]]), 1), "index_fill": (X, 1, ROWS, 1.5),
    "masked_select": (X, TRUTHS), "masked_scatter": (X, TRUTHS, real(4, 3)), "argwhere": (TRUTHS,),
    "index_put": (X, (ROWS, ROWS), core.tensor(0.5), False), "diag_embed": (X, 1), "kron": (X, SQUARE),
    "inner": (X, SQUARE), "block_diag": (X, SQUARE), "cross": (X, real(4, 3), 1), "outer": (real(3), real(4)),
    "diff": (X,),
    "complex": (X, real(4, 3)), "nn_functional_pixel_shuffle": (real(1, 4, 2, 3), 2),
    "nn_functional_pixel_unshuffle": (IMAGE, 2), "nn_functional_channel_shuffle": (IMAGE, 2),
    "nn_functional_native_channel_shuffle": (IMAGE, 2), "logspace": (-1, 2, 7, 2.0), "tril_indices": (3, 4, 1),
    "triu_indices": (3, 4, -1), "randint": (2, 9, (2, 3)), "randperm": (9,), "normal": (X, 0.5), "unique": (AT, True),
    "bincount": (CLASSES,), "histc": (X, 5, -1, 1), "isin": (AT, ROWS), "uniform_": (X,), "normal_": (X,),
    "exponential_": (X,), "bernoulli": (core.tensor([0.0, 0.5, 1.0]),), "gcd": (AT, AT + 2),
    **{f"{kind}_{name}": (TRUTHS, X > 1) for kind in ("bitwise", "operator") for name in ("and", "or", "xor")},
    "nn_functional_grid_sample": (IMAGE, real(1, 5, 4, 2)), "diagonal": (SQUARE, 1, 0, 1),
    "ldexp": (real(2, 3), AT), "prelu": (X, real(3)), "nansum": (core.where(TRUTHS, X, float("nan")), 1, True),
    "linalg_solve_triangular": (SQUARE, real(3, 2)), "linalg_cholesky": (SQUARE @ SQUARE.T + core.eye(3),),
    "linalg_lstsq": (real(4, 3), real(4, 2)), "median": (X,), "logcumsumexp": (X, 1),
    **{f"fft_{name}": (X, None, 0) for name in ("fft", "ifft", "rfft")},
    **dict.fromkeys(("real", "imag", "view_as_real"), (core.complex(X, real(4, 3)),)),
    "nn_functional_scaled_dot_product_attention": (CUBE, CUBE + 1, CUBE - 1, None, 0.0, True, 0.5),
    "nn_functional_group_norm": (IMAGE, 2, real(2), real(2), 1e-4),
    "nn_functional_batch_norm": (IMAGE, real(2), core.ones(2), real(2), real(2), True, 0.2, 1e-4),
    **{f"nn_functional_adaptive_{how}_pool1d": (SERIES, 3) for how in ("avg", "max")},
    **{f"nn_functional_adaptive_{how}_pool2d": (IMAGE, (3, 2)) for how in ("avg", "max")},
    **{f"nn_functional_adaptive_{how}_pool3d": (real(1, 2, 4, 4, 4), 2) for how in ("avg", "max")},
    **dict.fromkeys(
        ("ctc_loss", "nn_functional_ctc_loss"),
        (real(4, 2, 3).log_softmax(-1), core.tensor([[1, 2], [2, 1]]), core.tensor([4, 3]), core.tensor([2, 1]), 0),
    ),
    "linalg_qr": (X,), "linalg_svdvals": (X,), "linalg_eigvalsh": (SQUARE,), "linalg_matrix_norm": (X,),
}  # fmt: skip
KEYWORDS: dict[str, dict[str, Any]] = {
    "nn_functional_grid_sample": {"align_corners": True},
    "backward": {"gradient": core.ones(4, 3), "retain_graph": False},
    "addcmul": {"value": 0.5}, "addcdiv": {"value": 2}, "addmm": {"beta": 1, "alpha": 1.0},
    "var": {"correction": 2}, "nn_functional_cross_entropy": {"reduction": "sum", "label_smoothing": 0.1},
    "nn_functional_nll_loss": {"reduction": "sum", "ignore_index": -7}, "full": {"dtype": core.float64},
    "zeros": {"dtype": core.int64}, "ones_like": {"dtype": core.bool}, "eye": {"dtype": core.float64},
    "int8_linear": {"activation": "relu"}, "bincount": {"minlength": 7}, "linalg_solve_triangular": {"upper": False},
}  # fmt: skip
# The same of functions that have a second plain call.
SECOND: dict[str, tuple[Any, ...]] = {
    "sum": (TRUTHS, 0), "max": (X,), "min": (X,), "argmax": (X,), "argmin": (X,), "pow": (2.0, X),
    "nn_functional_pad": (IMAGE, (1, 2), "reflect"),
    **{f"{kind}_{name}": (AT, 3) for kind in ("bitwise", "operator") for name in ("and", "or", "xor")},
}  # fmt: skip
WRITES = {"copy_", "fill_", "zero_", "masked_fill_", "setitem", "backward", "uniform_", "normal_", "exponential_"}
# nobody gives their arguments by name
UNNAMED = {"setitem", "getitem", "_mT", "_T", *(f"operator_{name}" for name in bits.operators)}
WRONG = (None, "x", 1.5, True, 1, -1, 99, -99, 2**70, (), (0,), (0, 0), [1], object, np.float32(1), 1e300, core.float64,
         X, AT, TRUTHS, real(0, 3), real(5), core.tensor(2.0), core.ones(4, 3, dtype=core.float16))  # fmt: skip

FUNCTIONS = {f.symbol: f for f in registered() if f.fast}


def public(f: Public) -> Any:
    """What users call."""
    if f.symbol in ("_mT", "_T"):
        return getattr(Tensor, f.symbol[1:]).fget
    if f.symbol in ("getitem", "setitem"):
        return getattr(Tensor, f"__{f.symbol}__")
    if f.namespace is not None and f.name in namespaces[f.namespace]:
        return namespaces[f.namespace][f.name]
    if f.symbol.startswith("operator_"):
        return bits.operators[f.symbol.removeprefix("operator_")]
    if f.symbol == "int8_linear":
        return int8_linear
    return getattr(Tensor if hasattr(Tensor, f.name) else core, f.name)


def fresh(f: Public, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments, tensors that a call writes being its own."""
    if f.symbol == "backward" and args and isinstance(args[0], Tensor) and args[0].is_floating_point():
        return (args[0].detach().clone().requires_grad_() * 1.0, *args[1:]), kwargs
    if f.symbol in WRITES and args and isinstance(args[0], Tensor):
        return (args[0].clone(), *args[1:]), kwargs
    return args, kwargs


def seen(value: Any) -> Any:
    """What can be told of a result: its items, dtype, strides, node."""
    if isinstance(value, tuple | list):
        return type(value), [seen(v) for v in value]
    if not isinstance(value, Tensor):
        return value
    if value.device.type != "cpu":  # a number in place of a dtype names a GPU
        return value.dtype, tuple(value.shape), str(value.device)
    node = None if value.grad_fn is None else value.grad_fn.name()
    if value.is_complex():
        value = core.view_as_real(value.detach())
    items = value.detach().to(core.float64).numpy().tobytes()
    # of nothing, and of one item along a dimension, a stride says nothing
    strides = [n for n, size in zip(value.stride(), value.shape, strict=True) if size > 1] if value.numel() else []
    return value.dtype, tuple(value.shape), strides, value.requires_grad, node, value._version, items


def outcome(f: Public, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, bool]:
    """What a call comes to, and whether it was served by a fast path alone."""
    args, kwargs = fresh(f, args, kwargs)
    core.manual_seed(0)
    before = native.module.paths()
    with np.errstate(all="ignore"):
        try:
            found = call(*args, **kwargs)
        except Exception as e:
            return (type(e), str(e)), False
    after = native.module.paths()
    ways = {way for way in after if way.startswith("call_") and after[way] != before.get(way, 0)}
    served = bool(ways & {"call_parsed", "call_in_place"}) and "call_python" not in ways
    written = [seen(args[0])] if f.symbol in WRITES and args and isinstance(args[0], Tensor) else []
    return [seen(found), *written], served


def agrees(f: Public, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Hold a public function to its Python function; whether the fast path served it."""
    face = public(f)
    found, served = outcome(f, face, args, kwargs)
    expected, _ = outcome(f, guarded(face.__wrapped__), args, kwargs)
    assert found == expected, (f.symbol, args, kwargs)
    return served


def from_samples(f: Public) -> tuple[Any, ...]:
    """A plain call of a function whose fast path is a call of its op, made from the first of the op's samples."""
    name, said = re.fullmatch(r"(\w+)\((.*)\)", f.fast[0].op).groups()
    op = declarations.table[name]
    arrays, params = op.samples(np.random.default_rng(0))[0]
    tensors = [core.from_numpy(np.asarray(a, np.float32 if a.dtype.kind == "f" else a.dtype)) for a in arrays]
    names = said.split(", ")
    given = {
        **dict(zip(names, tensors, strict=False)),
        **{k: v for k, v in {**op.params, **params}.items() if k in names},
    }
    return tuple(given[p.name] for p in f.signature().parameters if p.name in names)


for _symbol, _f in FUNCTIONS.items():
    if _symbol not in PLAIN:
        PLAIN[_symbol] = from_samples(_f)


def variations(f: Public) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Calls near the plain ones."""
    yield from near(f, PLAIN[f.symbol], KEYWORDS.get(f.symbol, {}))
    if f.symbol in SECOND:
        yield from near(f, SECOND[f.symbol], {})


def near(f: Public, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Calls near one."""
    for k in range(1, len(args)):
        yield args[:k], kwargs
        for wrong in WRONG:
            yield (*args[:k], wrong, *args[k + 1 :]), kwargs
    for wrong in WRONG:
        yield (wrong, *args[1:]), kwargs
    yield (*args, *WRONG[:1]), kwargs
    yield args, {**kwargs, "no_such_name": 1}
    for p in f.signature().parameters:
        if p.many or p.name in ("out", "device") or (p.name in ("self", "input") and f.symbol in WRITES):
            continue
        for wrong in WRONG:
            yield args, {**kwargs, p.name: wrong}


@pytest.mark.parametrize("symbol", FUNCTIONS)
def test_a_parser_serves_a_plain_call(symbol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observe, "hooked", False)  # once a leaf had a hook after accumulation, passes begin in Python
    f = FUNCTIONS[symbol]
    assert public(f)._parser == f.key  # else the extension was printed from another header
    agrees(f, PLAIN[symbol], KEYWORDS.get(symbol, {}))  # an op's first call, in Python, finds its kernels
    assert agrees(f, PLAIN[symbol], KEYWORDS.get(symbol, {})), "the plain call went to Python"


@pytest.mark.parametrize("symbol", [s for s, f in FUNCTIONS.items() if len(f.fast) > 1])
def test_a_parser_serves_its_second_plain_call(symbol: str) -> None:
    agrees(FUNCTIONS[symbol], SECOND[symbol], {})
    assert agrees(FUNCTIONS[symbol], SECOND[symbol], {}), "the plain call went to Python"


NAMED = [s for s, f in FUNCTIONS.items() if s not in UNNAMED and not any(p.many for p in f.signature().parameters)]


@pytest.mark.parametrize("symbol", NAMED)
def test_each_argument_may_have_its_name(symbol: str) -> None:
    f = FUNCTIONS[symbol]
    parameters = f.signature().parameters
    args, kwargs = PLAIN[symbol], dict(KEYWORDS.get(symbol, {}))
    for k in range(len(args) - 1, 0, -1):
        kwargs[parameters[k].name] = args[k]
        assert agrees(f, args[:k], kwargs), f"{parameters[k].name}= went to Python"


@pytest.mark.parametrize("symbol", [s for s in FUNCTIONS if "empty" not in s])  # whose items are what was in memory
def test_what_is_near_a_plain_call_comes_to_the_same(symbol: str) -> None:
    f = FUNCTIONS[symbol]
    for args, kwargs in variations(f):
        agrees(f, args, kwargs)


@pytest.mark.parametrize(
    ("call", "served"),
    [
        pytest.param(lambda: core.topk(X, 4, 0), True, id="topk of all"),
        pytest.param(lambda: core.var(X, 0, correction=3), True, id="three degrees of freedom fewer than four items"),
        pytest.param(lambda: core.nn.functional.pad(X, (0, 0, 0, 0)), True, id="no border"),
        pytest.param(lambda: X.reshape(-1, 6), True, id="an open size"),
        pytest.param(lambda: core.clamp(X, -(2**7) + 1, 127), True, id="a number that every dtype holds"),
        pytest.param(lambda: core.full((256, 512), 0.5), True, id="as many items as are filled here"),
        pytest.param(lambda: core.full((257, 512), 0.5), False, id="more"),
        pytest.param(lambda: core.arange(2**31), False, id="a bound past 32 bits"),
        pytest.param(lambda: core.cat([X] * 64), True, id="as many pieces as are joined here"),
        pytest.param(lambda: core.cat([X] * 65), False, id="one more"),
        pytest.param(lambda: core.softmax(X, 1, dtype=core.float64), False, id="another dtype"),
        pytest.param(lambda: core.sum(X, axis=1, keepdims=True), True, id="NumPy's names"),
    ],
)
def test_thresholds(call: Callable[[], Any], served: bool) -> None:
    if not served and call.__code__.co_consts and 2**31 in call.__code__.co_consts:
        call = lambda: core.arange(2**31, 2**31 + 4)
    before = native.module.paths()
    call()
    after = native.module.paths()
    assert (after["call_python"] == before["call_python"]) is served


def test_every_parser_is_bound() -> None:
    """No function of another namespace takes a parser by its name alone."""
    shown = {id(v): v for space in namespaces.values() for v in space.values()}
    shown |= {id(v): v for v in vars(Tensor).values()}
    for function in shown.values():
        key = getattr(function, "_parser", None)
        if key is not None:
            f = FUNCTIONS[key.partition(":")[0]]
            own, inner = inspect.unwrap(f.function), inspect.unwrap(getattr(function, "of", function))
            assert own is inner or f.symbol.endswith("_"), key
