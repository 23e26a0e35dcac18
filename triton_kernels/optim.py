"""Optimizer steps in place, printed from a formula's text: one launch over all tensors of a group.

Algorithm: a table on the device holds a row for each parameter: the addresses of its arrays and its length. A second
one, which depends on the lengths alone and is kept, gives each program its row and its block. A program reads its
addresses, computes the formula once an element, and writes what the formula changes. Only a tensor's last block is
masked, so that all others load 16 bytes a thread. float16 and bfloat16 are stored, float32 is computed (float64 for
float64); the numbers come as float64.

Bytes moved: each array once in, each written one once out: AdamW 7 arrays of the parameter's size. Operations: those of
the formula. Source: the formula, by core's printer; the table of addresses is the multi-tensor apply of NVIDIA's Apex.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import triton
import triton.language as tl

from . import runtime
from .cases import Case
from .elementwise import jit_source, lift_literals
from .runtime import FLOATING, INTERPRET, TYPE_NAMES, Launch, Memo
from .tune import references
from .tune.declared import TritonKernel, copied, empty, float64, normal
from .tune.space import Config, Constraint, Space, powers_of_two


def _space(warps: int) -> Space:
    return Space(
        [powers_of_two("BLOCK", 512, 2048, default=1024), powers_of_two("num_warps", 4, 8, default=warps)],
        [Constraint("at least 4 elements a thread", lambda c: c["BLOCK"] >= 128 * c["num_warps"])],
    )


SPACE = _space(4)
_SPACES = {"nadam_step": _space(8)}  # with four warps its default spills on sm_100
_INTERPRETED_BLOCK = 1 << 17
_TABLES = 64  # tables of addresses remembered by one kernel: memory pools repeat themselves from step to step
_TYPES = {"fp16": tl.float16, "bf16": tl.bfloat16, "fp32": tl.float32, "fp64": tl.float64}
_kernels: dict[Any, Update] = {}


def build(
    name: str,
    arrays: Sequence[str],
    params: Sequence[str],
    lines: Sequence[str],
    results: Sequence[tuple[str, str]],
) -> Update:
    """Return the update kernel `name`; equal arguments give the same object.

    `arrays` are the parameter, its gradient and its state; `lines` assignments in terms of them, of the numbers
    `params` and of earlier targets; `results` pairs each array that is written with its new value.

    >>> from triton_kernels import mode, optim
    >>> descent = optim.build("descent", ["p", "g"], ["lr"], ["t0 = (g * lr)", "t1 = (p - t0)"], [("p", "t1")])
    >>> p, g = [np.ones(3, np.float32), np.ones(5, np.float32)], [np.ones(3, np.float32), np.ones(5, np.float32)]
    >>> if mode() == "interpret":
    ...     descent((p, g), (0.25,))
    ...     assert p[1][4] == 0.75
    """
    key = (name, tuple(arrays), tuple(params), tuple(lines), tuple(results))
    if key not in _kernels:
        _kernels[key] = Update(*key)
    return _kernels[key]


class Update:
    """A formula with several results as a kernel; call it with lists of arrays and the numbers."""

    def __init__(
        self,
        name: str,
        arrays: tuple[str, ...],
        params: tuple[str, ...],
        lines: tuple[str, ...],
        results: tuple[tuple[str, str], ...],
    ) -> None:
        self.name, self.arrays, self.params, self.lines, self.results = name, arrays, params, lines, results
        self.kernel = jit_source(name, self.source())
        self.space = _SPACES.get(name, SPACE)
        self._blocks: Memo = Memo()
        self._tables: dict[Any, Any] = {}

    def __repr__(self) -> str:
        return f"<update kernel {self.name}({', '.join((*self.arrays, *self.params))})>"

    def __call__(self, lists: Sequence[Sequence[Any]], numbers: Sequence[float], config: Config | None = None) -> None:
        """One step over all tensors: ``lists[k][i]`` is the array `k` of tensor `i`, contiguous, all of one dtype."""
        if len(lists) != len(self.arrays) or len(numbers) != len(self.params):
            raise TypeError(
                f"{self.name} takes {len(self.arrays)} lists ({', '.join(self.arrays)}) and {len(self.params)} numbers "
                f"({', '.join(self.params)}), got {len(lists)} and {len(numbers)}"
            )
        tensors = [t for t in zip(*lists, strict=True) if t[0].size]
        if not tensors:
            return
        dtype = tensors[0][0].dtype
        table, aligned = self._table(tensors, dtype)
        device = 0 if INTERPRET else runtime.host().current_device()
        sizes = tuple([t[0].size for t in tensors])
        key = (device, dtype, aligned, config and tuple(config.items()), sizes)
        found = self._blocks.get(key)
        if found is None:
            found = self._blocks[key] = self._prepare(sizes, dtype, aligned, config)
        launch, blocks = found
        launch((table, blocks), tuple(numbers), reached=[a for t in tensors for a in t] if INTERPRET else ())

    def _prepare(self, sizes: Sequence[int], dtype: Any, aligned: bool, config: Config | None) -> tuple[Launch, Any]:
        """Return the launch over tensors of these sizes, and its table of blocks on the device."""
        asked = (len(sizes), triton.cdiv(sum(sizes), len(sizes)))
        config = config or runtime.tuned(self.kernel, self.space, asked, dtype)
        settings = self.space.complete(config)
        warps = settings.pop("num_warps")
        if INTERPRET and config is None:
            settings["BLOCK"] = min(triton.next_power_of_2(max(sizes)), _INTERPRETED_BLOCK)
        blocks = _blocks(sizes, settings["BLOCK"])
        constants = {"STORED": _TYPES[TYPE_NAMES[dtype]], "ALIGNED": aligned, **settings}
        constants["COMPUTE"] = tl.float64 if dtype == np.float64 else tl.float32
        return Launch(self.kernel, (len(blocks),), (), constants, num_warps=warps), runtime.upload(blocks)

    def _table(self, tensors: Sequence[Sequence[Any]], dtype: Any) -> tuple[Any, bool]:
        """Return the addresses and lengths on the device, and whether all addresses are aligned to 16 bytes."""
        where = runtime.address
        rows = tuple([(*[where(a) for a in t], t[0].size) for t in tensors])
        found = self._tables.get((dtype, rows))
        if found is None:
            for i, t in enumerate(tensors):
                self._check(i, t, dtype)
            if len(self._tables) >= _TABLES:
                self._tables.clear()
            aligned = all(address % 16 == 0 for row in rows for address in row[:-1])
            found = self._tables[dtype, rows] = (runtime.upload(np.array(rows, np.int64)), aligned)
        return found

    def _check(self, i: int, tensor: Sequence[Any], dtype: Any) -> None:
        described = ", ".join(
            f"{n} {a.dtype} {tuple(a.shape)} strides {tuple(a.strides)}"
            for n, a in zip(self.arrays, tensor, strict=True)
        )
        if dtype not in FLOATING or any(a.dtype != dtype or a.shape != tensor[0].shape for a in tensor):
            raise ValueError(
                f"{self.name}: parameters, gradients and state must be floating, all of one dtype and each of its "
                f"parameter's shape; tensor {i} has {described}"
            )
        if not all(runtime.is_contiguous(a) for a in tensor):
            raise ValueError(
                f"{self.name}: the arrays must be contiguous; tensor {i} has {described}. Remedy: .contiguous() first."
            )

    def source(self) -> str:
        """Return the kernel's text."""
        n = len(self.arrays)
        floats = [f"{p}: tl.float64" for p in self.params]
        constants = [f"{c}: tl.constexpr" for c in ("STORED", "COMPUTE", "ALIGNED", "BLOCK")]
        body = [
            "place = tl.program_id(0)",
            f"row = table_ptr + tl.load(blocks_ptr + 2 * place) * {n + 1}",
            # the compiler sees that the offset is a multiple of BLOCK, and loads whole vectors
            "index = tl.load(blocks_ptr + 2 * place + 1) * BLOCK + tl.arange(0, BLOCK)",
            "last = tl.load(blocks_ptr + 2 * place + 1) * BLOCK + BLOCK",
            f"numel = tl.load(row + {n})",
        ]
        for k, name in enumerate(self.arrays):
            body += [
                f"{name}_ptr = tl.load(row + {k}).to(tl.pointer_type(STORED))",
                "if ALIGNED:",
                f"    {name}_ptr = tl.multiple_of({name}_ptr, 16)",
            ]
        body += [f"{p} = {p}.to(COMPUTE)" for p in self.params]
        literals, lines = lift_literals([*self.lines, *(f"{name}_new = {value}" for name, value in self.results)])
        used = "\n".join(lines)
        body += literals + ["if last <= numel:"] + self._block(lines, used, "")
        body += ["else:", "    mask = index < numel"] + self._block(lines, used, ", mask=mask")
        heading = ", ".join(["table_ptr", "blocks_ptr", *floats, *constants])
        return "\n".join(["@triton.jit", f"def {self.name}_kernel({heading}):", *("    " + x for x in body), ""])

    def _block(self, lines: Sequence[str], used: str, mask: str) -> list[str]:
        """Load, compute and store one block; what the formula does not read is not loaded."""
        import re

        other = ", other=0.0" if mask else ""
        read = [n for n in self.arrays if re.search(rf"\b{n}\b", used)]
        body = [f"{n} = tl.load({n}_ptr + index{mask}{other}).to(COMPUTE)" for n in read]
        body += lines
        body += [f"tl.store({n}_ptr + index, {n}_new.to(STORED){mask})" for n, _ in self.results]
        return ["    " + line for line in body]

    def tuning(self) -> TritonKernel:
        """Return what the tuner is told: so many tensors of so many items each, and the text itself in NumPy as
        reference."""
        changed, numbers = [n for n, _ in self.results], [0.5] * len(self.params)
        kept = [n for n in self.arrays if n not in changed]

        def arrays(shape: Any, dtype: str, rng: Any) -> Any:
            count, items = shape
            given = [abs(normal(rng, items, dtype)) for _ in range(count * len(self.arrays))]
            return given, [empty(items, dtype) for _ in range(count * len(changed))]

        def lists(inputs: Any, outputs: Any) -> dict[str, Any]:
            """By name; of what is changed the outputs, which begin as the last inputs."""
            count = len(outputs) // len(changed)
            held = {n: inputs[k * count : (k + 1) * count] for k, n in enumerate(kept)}
            return held | {n: outputs[k * count : (k + 1) * count] for k, n in enumerate(changed)}

        def launch(inputs: Any, outputs: Any, config: Config | None) -> None:
            named = lists(inputs, outputs)
            self([named[n] for n in self.arrays], numbers, config)

        def expected(inputs: Any) -> Any:
            wide, size = float64(inputs), len(inputs) * len(changed) // len(self.arrays)
            named, found = lists(wide, wide[len(wide) - size :]), []
            for i in range(size // len(changed)):
                values = {n: a[i] for n, a in named.items()} | dict(zip(self.params, numbers, strict=True))
                results = references.printed(self.lines, [value for _, value in self.results], values)
                scale = 1.0 + sum(np.abs(a) for a in values.values())
                found.append([(r, scale + np.abs(r), 4) for r in results])
            return [one for k in range(len(changed)) for one in (each[k] for each in found)]

        def work(s: Any, size: int, c: Config) -> Any:
            padded = triton.cdiv(s[1], c["BLOCK"]) * c["BLOCK"]
            moved = len(self.arrays) + len(changed)
            return 1.0 * len(self.lines) * s[0] * padded, 1.0 * size * moved * s[0] * s[1]

        return TritonKernel(self.kernel, ("tensors", "items"), self.space, arrays, launch, expected, work, (3, 1500),
                            begin=copied)  # fmt: skip

    def compile_cases(self, dtype: str) -> list[Case]:
        """Return what the compile check compiles, for one dtype."""
        constants = {
            "STORED": _TYPES[dtype],
            "COMPUTE": tl.float64 if dtype == "fp64" else tl.float32,
            "ALIGNED": True,
        }
        arguments = ("*i64", "*i64", *[0.5] * len(self.params))
        return [Case(self.name, self.kernel, arguments, constants, self.space)]


def _blocks(sizes: Sequence[int], block: int) -> np.ndarray:
    """For each program the row of its tensor and its block in it."""
    counts = [-(-n // block) for n in sizes]
    rows = np.repeat(np.arange(len(sizes)), counts)
    within = np.arange(len(rows)) - np.repeat(np.cumsum([0, *counts[:-1]]), counts)
    return np.stack([rows, within], axis=1).astype(np.int64)


def _representative() -> Update:
    """AdamW's formula. Those that core prints come from its declarations."""
    lines = [
        "t0 = (p * keep)", "t1 = (g - m)", "t2 = (t1 * weight)", "t3 = (m + t2)", "t4 = (v * beta2)",
        "t5 = (g * g)", "t6 = (t5 * weight2)", "t7 = (t4 + t6)", "t8 = scalar.sqrt(t7)", "t9 = (t8 * root)",
        "t10 = (t9 + eps)", "t11 = scalar.div(t3, t10)", "t12 = (t11 * size)", "t13 = (t0 - t12)",
    ]  # fmt: skip
    params = ["keep", "weight", "beta2", "weight2", "root", "eps", "size"]
    return build("adamw", ["p", "g", "m", "v"], params, lines, [("p", "t13"), ("m", "t3"), ("v", "t7")])


def compile_cases(dtype: str) -> list[Case]:
    """Return what the compile check compiles, for one dtype."""
    return _representative().compile_cases(dtype)
