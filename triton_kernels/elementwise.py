"""Elementwise kernels made from an expression's text: any inputs, broadcast and strided, one pass.

Algorithm: `build` prints two kernels a signature. The flat one reads arrays that lie densely in one common order and
indexes them by one number. The strided one divides the flat output index into as many coordinates as remain after
neighbouring dimensions have been merged, and multiplies by each array's strides (0 where it broadcasts).
float16 and bfloat16 are computed in float32; parameters are float64 until they meet the compute type.

Bytes moved: each array once. Operations: those of the expression. Source: the expression, by core's printer.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Sequence
from typing import Any

import numpy as np
import triton
import triton.language as tl

from . import runtime, scalar
from .cases import Case
from .runtime import FLOATING, INTERPRET, Launch, Memo
from .tune import references
from .tune.declared import TritonKernel, dtype_of, empty
from .tune.space import Constraint, Space, powers_of_two


def _space(block: int) -> Space:
    return Space(
        [powers_of_two("BLOCK", 512, 2048, default=block), powers_of_two("num_warps", 4, 8, default=8)],
        [Constraint("at least 2 elements a thread", lambda c: c["BLOCK"] >= 64 * c["num_warps"])],
    )


SPACE = _space(1024)
# Where sin and cos stand together their long reductions of large arguments spill with four elements a thread.
_TRIGONOMETRIC_SPACE = _space(512)
_INTERPRETED_BLOCK = 1 << 16  # one program for most test arrays: the interpreter's cost is by tl operation
_FLOAT64 = np.dtype(np.float64)
_BOOL = np.dtype(np.bool_)
_kernels: dict[Any, Elementwise] = {}


def build(
    name: str,
    inputs: Sequence[str],
    params: Sequence[str],
    lines: Sequence[str],
    result: str,
    out_kind: str = "same",
    bools: Sequence[str] = (),
    more: Sequence[str] = (),
) -> Elementwise:
    """Return the elementwise kernel `name`; equal arguments give the same object.

    `lines` are assignments such as ``t0 = scalar.tanh(x)`` in terms of the inputs, the parameters and earlier targets,
    spelt by `primitives.PRIMITIVES`; `result` is the value to store: a name or a number. `out_kind` is ``"same"`` (the
    compute type, rounded to the output's dtype) or ``"bool"``. Boolean inputs may be named in `bools`; they are also
    recognised by their dtype. `more` are further values, each stored to an output of its own like the first one.

    >>> from triton_kernels import elementwise, mode
    >>> kernel = elementwise.build("axpy", ["x", "y"], ["a"], ["t0 = (x * a)", "t1 = (t0 + y)"], "t1")
    >>> x, y, out = np.ones((2, 3), np.float32), np.arange(3, dtype=np.float32), np.empty((2, 3), np.float32)
    >>> if mode() == "interpret":
    ...     kernel((x, y), (10.0,), out)
    """
    if out_kind not in ("same", "bool"):
        raise ValueError(f"elementwise kernel {name}: out_kind is 'same' or 'bool', not {out_kind!r}")
    key = (name, tuple(inputs), tuple(params), tuple(lines), result, out_kind, tuple(bools), tuple(more))
    if key not in _kernels:
        _kernels[key] = Elementwise(*key)
    return _kernels[key]


class Elementwise:
    """A scalar expression as kernels; call it with arrays (or numbers), parameters and the output."""

    def __init__(
        self,
        name: str,
        inputs: tuple[str, ...],
        params: tuple[str, ...],
        lines: tuple[str, ...],
        result: str,
        out_kind: str,
        bools: tuple[str, ...] = (),
        more: tuple[str, ...] = (),
    ) -> None:
        self.more = more
        self.name, self.inputs, self.params = name, inputs, params
        self.lines, self.result, self.out_kind, self.bools = lines, result, out_kind, bools
        text = " ".join(lines)
        self.space = _TRIGONOMETRIC_SPACE if "tl.sin" in text and "tl.cos" in text else SPACE
        self._jitted: dict[Any, Any] = {}
        self._launches: Memo = Memo()

    def __repr__(self) -> str:
        return f"<elementwise kernel {self.name}({', '.join((*self.inputs, *self.params))})>"

    def __call__(
        self,
        arrays: Sequence[Any],
        params: Sequence[float],
        out: Any,
        config: dict[str, Any] | None = None,
        more: Sequence[Any] = (),
    ) -> None:
        """Compute into `out`, whose shape the inputs broadcast to, and `more` like it. An input may be a number."""
        if len(arrays) != len(self.inputs) or len(params) != len(self.params):
            raise TypeError(
                f"{self.name} takes {len(self.inputs)} inputs ({', '.join(self.inputs)}) and {len(self.params)} "
                f"parameters ({', '.join(self.params)}), got {len(arrays)} and {len(params)}"
            )
        held = [a for a in arrays if not isinstance(a, int | float)]
        numbers = [float(a) for a in arrays if isinstance(a, int | float)]
        if len(more) != len(self.more) or any((a.shape, a.strides, a.dtype) != (out.shape, out.strides, out.dtype)
                                              for a in more):  # fmt: skip
            raise ValueError(f"{self.name} takes {len(self.more)} more outputs of the first one's layout and dtype")
        if out.size:
            self.launch_of(arrays, out, config)((*held, out, *more), (*numbers, *map(float, params)))

    def launch_of(self, arrays: Sequence[Any], out: Any, config: dict[str, Any] | None = None) -> Launch:
        """Return the frozen launch for arrays of these layouts, numbers among them; it takes the arrays and `out`,
        then the numbers and parameters."""
        signature = [None if isinstance(a, int | float) else (a.shape, a.strides, a.dtype) for a in arrays]
        key = (*signature, out.shape, out.strides, out.dtype, config and tuple(config.items()))
        launch = self._launches.get(key)
        if launch is None:
            launch = self._launches[key] = self._prepare(arrays, out, config)
        return launch

    def _prepare(self, arrays: Sequence[Any], out: Any, config: dict[str, Any] | None) -> Launch:
        names = [n for n, a in zip(self.inputs, arrays, strict=True) if not isinstance(a, int | float)]
        held = [a for a in arrays if not isinstance(a, int | float)]
        compute = self._compute_type(names, held, out)
        bools = frozenset(n for n, a in zip(names, held, strict=True) if a.dtype == _BOOL)
        sizes, strides = collapse(out.shape, [*held, out], self.name)
        flat = len(sizes) <= 1 and all(s in ((1,), ()) for s in strides)
        wide = max([out.size, *(_extent(sizes, s) for s in strides)]) >= 2**31
        scalars = tuple(n for n, a in zip(self.inputs, arrays, strict=True) if isinstance(a, int | float))
        kernel = self.kernel(scalars, bools, 0 if flat else len(sizes))
        kind = next((a.dtype for a in held if a.dtype != _BOOL), out.dtype) if self.out_kind == "bool" else out.dtype
        config = config or runtime.tuned(kernel, self.space, (out.size,), kind)
        settings = self.space.complete(config)
        warps = settings.pop("num_warps")
        if INTERPRET and config is None:
            settings["BLOCK"] = min(triton.next_power_of_2(max(out.size, 1)), _INTERPRETED_BLOCK)
        ints = [out.size] if flat else [out.size, *sizes[1:], *(s for each in strides for s in each)]
        constants = {"COMPUTE": compute, "WIDE": wide, **settings}
        grid = (triton.cdiv(out.size, settings["BLOCK"]),)
        return Launch(kernel, grid, ints, constants, num_warps=warps)

    def _compute_type(self, names: Sequence[str], held: Sequence[Any], out: Any) -> Any:
        dtypes = [a.dtype for a in held if a.dtype != _BOOL]
        if self.out_kind == "same":
            dtypes.append(out.dtype)
        elif out.dtype != _BOOL:
            raise TypeError(f"{self.name} computes a condition: out must be bool, not {out.dtype}")
        if any(d not in FLOATING and d != _BOOL for d in dtypes):
            listed = ", ".join(f"{n}: {a.dtype}" for n, a in zip([*names, "out"], [*held, out], strict=True))
            raise TypeError(
                f"{self.name} computes in floating point and takes float16, bfloat16, float32, float64 and bool, "
                f"got {listed}. Remedy: convert the integers to a floating-point type."
            )
        return tl.float64 if _FLOAT64 in dtypes else tl.float32

    def tuning(self, domain: tuple[float, float] = (-3.0, 3.0), values: Sequence[float] = ()) -> TritonKernel:
        """Return what the tuner is told of the flat kernel, with the text itself in NumPy as reference; `values` are
        those of the parameters."""
        numbers = tuple(values) or (0.5,) * len(self.params)
        count = 1 + len(self.more)

        def arrays(shape: Any, dtype: str, rng: Any) -> Any:
            def made(name: str) -> Any:
                if rng is None:
                    return empty(shape, "bool" if name in self.bools else dtype)
                return rng.random(shape) < 0.5 if name in self.bools else rng.uniform(*domain, shape).astype(kind)

            kind = dtype_of(dtype)
            out = "bool" if self.out_kind == "bool" else dtype
            return [made(n) for n in self.inputs], [empty(shape, out) for _ in range(count)]

        def expected(inputs: Any) -> Any:
            wide = [x if x.dtype == _BOOL else x.astype(np.float64) for x in inputs]
            named = dict(zip((*self.inputs, *self.params), (*wide, *numbers), strict=True))
            found = references.printed(self.lines, (self.result, *self.more), named)
            scale = 1.0 + sum(np.abs(x.astype(np.float64)) for x in wide)
            kind = next((x.dtype for x in inputs if x.dtype != _BOOL), np.dtype(np.float64))
            results = []
            for y in found:
                y = np.broadcast_to(y, inputs[0].shape).astype(np.float64)
                with np.errstate(over="ignore"):  # what the dtype does not hold is infinite in it
                    y = np.where(np.isinf(y.astype(kind)), y.astype(kind).astype(np.float64), y)
                results.append((y, scale + np.abs(y), 4))
            return results

        def work(s: Any, size: int, c: Any) -> Any:
            return 1.0 * len(self.lines) * s[0], 1.0 * size * s[0] * (len(self.inputs) + count)

        return TritonKernel(self.kernel((), frozenset(self.bools), 0), ("items",), self.space, arrays,
                            lambda i, o, c: self(i, numbers, o[0], c, o[1:]), expected, work, (5000,))  # fmt: skip

    def compile_cases(self, dtype: str) -> list[Case]:
        """Return what the compile check compiles: the flat kernel, and the strided one of two dimensions."""
        bools = frozenset(self.bools)
        out = "*u8" if self.out_kind == "bool" else f"*{dtype}"
        pointers = ["*u8" if n in bools else f"*{dtype}" for n in self.inputs] + [out] * (1 + len(self.more))
        floats = [0.5] * len(self.params)
        constants = {"COMPUTE": tl.float64 if dtype == "fp64" else tl.float32, "WIDE": False}
        strides = [1000, 1] * (len(self.inputs) + 1)
        return [
            Case(self.name, self.kernel((), bools, 0), (*pointers, *floats, 999 * 1000), constants, self.space),
            Case(
                f"{self.name} strided",
                self.kernel((), bools, 2),
                (*pointers, *floats, 999 * 1000, 1000, *strides),
                constants,
                self.space,
            ),
        ]

    def kernel(self, scalars: tuple[str, ...], bools: frozenset[str], ndim: int) -> Any:
        """Return the jitted kernel for `ndim` merged dimensions (0: flat), with these inputs numbers and these
        bools."""
        key = (scalars, bools, ndim)
        if key not in self._jitted:
            self._jitted[key] = jit_source(self.name, self.source(scalars, bools, ndim))
        return self._jitted[key]

    def source(self, scalars: tuple[str, ...] = (), bools: frozenset[str] = frozenset(), ndim: int = 0) -> str:
        """Return the kernel's text; ``ndim=0`` is the flat kernel."""
        held = [n for n in self.inputs if n not in scalars]
        others = [f"out{k}" for k in range(1, 1 + len(self.more))]
        pointers = [f"{n}_ptr" for n in [*held, "out", *others]]
        floats = [f"{n}: tl.float64" for n in [*scalars, *self.params]]
        sizes = [f"size{k}" for k in range(1, ndim)]
        strides = [f"{n}_stride{k}" for n in [*held, "out"] for k in range(ndim)]
        constants = ["COMPUTE: tl.constexpr", "WIDE: tl.constexpr", "BLOCK: tl.constexpr"]
        body = [
            "index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
            "if WIDE:",
            "    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)",
            "mask = index < numel",
        ]
        if ndim:
            rest = "index"
            for k in reversed(range(1, ndim)):
                body += [f"i{k} = {rest} % size{k}", f"rest{k} = {rest} // size{k}"]
                rest = f"rest{k}"
            body.append(f"i0 = {rest}")
        for n in [*held, "out"]:
            offset = " + ".join(f"i{k} * {n}_stride{k}" for k in range(ndim)) if ndim else "index"
            if n == "out":
                place = f" + ({offset})"
            else:
                load = f"tl.load({n}_ptr + ({offset}), mask=mask, other=0)"
                body.append(f"{n} = {load} != 0" if n in bools else f"{n} = {load}.to(COMPUTE)")
        body += [f"{n} = {n}.to(COMPUTE)" for n in [*scalars, *self.params]]
        stored = {"out": self.result, **dict(zip(others, self.more, strict=True))}
        results = {n: "result" + n[3:] for n in stored}
        constants_of, lines = lift_literals([*self.lines, *(f"{results[n]} = {value}" for n, value in stored.items())])
        body += constants_of + lines
        for n, value in stored.items():
            at, result = f"{n}_ptr{place}", results[n]
            if self.out_kind == "bool":
                body.append(f"tl.store({at}, tl.where({result}, 1, 0).to(tl.uint8), mask=mask)")
            elif not (value in self.inputs or value.isidentifier()):  # a number: the same everywhere
                full = f"tl.full([BLOCK], {result}, COMPUTE)"
                body.append(f"tl.store({at}, {full}.to({n}_ptr.dtype.element_ty), mask=mask)")
            else:
                body.append(f"tl.store({at}, {result}.to({n}_ptr.dtype.element_ty), mask=mask)")
        heading = ", ".join([*pointers, *floats, "numel", *sizes, *strides, *constants])
        name = f"{self.name}_kernel"
        return "\n".join(["@triton.jit", f"def {name}({heading}):", *("    " + line for line in body), ""])


def lift_literals(lines: Sequence[str]) -> tuple[list[str], list[str]]:
    """Replace numbers that stand alone as arguments of a call by scalars of the compute type.

    Triton makes such a number a float32 before it meets the other operands, and a device function cannot ask a bare
    number for its dtype. Numbers beside an operator keep every digit by themselves.
    """
    lifted: dict[str, str] = {}

    class Lift(ast.NodeTransformer):
        def visit_Call(self, node: ast.Call) -> ast.AST:
            if isinstance(node.func, ast.Name):  # float("inf"): itself the number
                return node
            node.args = [self.replace(arg) for arg in node.args]
            return node

        def replace(self, arg: ast.expr) -> ast.expr:
            text = ast.unparse(arg)
            try:
                value = eval(text, {"__builtins__": {}, "float": float})  # a literal, a negated one, or float("inf")
            except Exception:
                return self.visit(arg)
            if isinstance(value, bool) or not isinstance(value, int | float):
                return arg
            return ast.Name(id=lifted.setdefault(text, f"literal{len(lifted)}"), ctx=ast.Load())

    changed = [ast.unparse(Lift().visit(ast.parse(line))) for line in lines]
    return [f"{name} = tl.full([], {text}, COMPUTE)" for text, name in lifted.items()], changed


_count = 0


def jit_source(name: str, source: str) -> Any:
    """Compile a kernel's text; `linecache` learns it, since Triton and tracebacks read sources from there."""
    global _count
    _count += 1
    filename = f"<triton_kernels {name} {_count}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    namespace = {"triton": triton, "tl": tl, "scalar": scalar, "__name__": "triton_kernels.generated"}
    exec(compile(source, filename, "exec"), namespace)
    return namespace[f"{name}_kernel"]


def collapse(
    shape: Sequence[int], arrays: Sequence[Any], name: str = "elementwise"
) -> tuple[list[int], list[tuple[int, ...]]]:
    """Merge neighbouring dimensions that all arrays step through alike: sizes, and each array's strides in elements.

    Arrays broadcast to `shape`: their missing and one-sized dimensions get stride 0. Dimensions are first put in the
    order in which the last array (the output) lies in memory, so that dense arrays of any common order become flat.

    >>> collapse((4, 5, 6), [np.zeros((4, 5, 6)), np.zeros((1, 6)), np.zeros((4, 5, 6))])
    ([20, 6], [(6, 1), (0, 1), (6, 1)])
    """
    ndim = len(shape)
    all_strides = []
    for a in arrays:
        missing = ndim - a.ndim
        if missing < 0 or any(n not in (1, m) for n, m in zip(a.shape, shape[max(missing, 0) :], strict=False)):
            raise ValueError(
                f"{name}: an input of shape {tuple(a.shape)} does not broadcast to the output's {tuple(shape)}"
            )
        own = [0 if n == 1 else s for n, s in zip(a.shape, runtime.element_strides(a), strict=True)]
        all_strides.append([0] * missing + own)
    order = sorted(range(ndim), key=lambda k: -abs(all_strides[-1][k]))
    order = [k for k in order if shape[k] != 1]
    sizes: list[int] = []
    merged: list[list[int]] = [[] for _ in arrays]
    for k in order:
        n = shape[k]
        if sizes and all(m[-1] == s[k] * n for m, s in zip(merged, all_strides, strict=True)):
            sizes[-1] *= n
            for m, s in zip(merged, all_strides, strict=True):
                m[-1] = s[k]
        else:
            sizes.append(n)
            for m, s in zip(merged, all_strides, strict=True):
                m.append(s[k])
    return sizes, [tuple(m) for m in merged]


def _extent(sizes: Sequence[int], strides: Sequence[int]) -> int:
    """Return the largest offset that an array is read at."""
    return sum(abs(s) * (n - 1) for n, s in zip(sizes, strides, strict=True))


def _representative() -> list[Elementwise]:
    """Unary, binary, a bool input, the gradient of tanh fused into one pass."""
    return [
        build("exp", ["x"], [], ["t0 = scalar.exp(x)"], "t0"),
        build("add", ["x", "y"], [], ["t0 = (x + y)"], "t0"),
        build("where", ["c", "x", "y"], [], ["t0 = tl.where(c, x, y)"], "t0", bools=["c"]),
        build("tanh_backward", ["g", "x"], [], ["t0 = scalar.tanh(x)", "t1 = (g * (1.0 - t0 * t0))"], "t1"),
    ]


def compile_cases(dtype: str) -> list[Case]:
    """Return what the compile check compiles, for one dtype."""
    return [case for kernel in _representative() for case in kernel.compile_cases(dtype)]
