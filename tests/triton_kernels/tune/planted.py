"""Kernels with a fault planted, as wrong configs are: does the tuner, which has seen two sizes, accept one?

``python -m tests.triton_kernels.tune.planted [kernel ...]`` plants every fault that fits in the kernels of
`planted_programs`: a mask left out or wrong by one, a loop that forgets the rest, a stride that is another size, half
precision, a value in place of what is masked, another reduction, a program less. Each is judged beside the kernel as
it was at two sizes, as the tuner judges a config. What it accepts is held to a third size: what is wrong there was
accepted wrongly. So are the blocks that the tuner proposes by two sizes.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from triton_kernels import tune
from triton_kernels.tune.arguments import Call
from triton_kernels.tune.measure import Failed
from triton_kernels.tune.measure_adopted import AdoptedMeasure, Variant, key_of
from triton_kernels.tune.texts import text_of

from .planted_programs import PROGRAMS

_WARPS = ("num_warps", "num_stages")


@dataclass(frozen=True)
class Fault:
    """A changed kernel: what was changed, and its text; or how many programs fewer it has."""

    what: str
    text: str
    fewer: int = 0


@dataclass(frozen=True)
class Verdict:
    """What became of a fault: "refused", "accepted" though it is wrong at a size, or "same" where it is wrong at none.
    size : the first that shows it, from 0."""

    kernel: str
    fault: str
    became: str
    why: str = ""
    size: int = 0


# -- faults ------------------------------------------------------------------------------------------------------------


def faults(text: str, name: str, grid: Sequence[int]) -> Iterator[Fault]:
    """Yield every fault that fits in a kernel, one at a place."""
    for change in (_no_mask, _off_by_one, _forgets_the_rest, _another_size, _halves, _another_value, _another_reduction,
                   _scaled):  # fmt: skip
        for k in range(100):
            tree = ast.parse(text)
            function = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name)
            places = list(change(function))
            if k >= len(places):
                break
            what, do = places[k]
            do()
            yield Fault(f"{change.__name__.strip('_').replace('_', ' ')}: {what[:70]}",
                        ast.unparse(ast.fix_missing_locations(tree)))  # fmt: skip
    if max(grid) > 1:
        yield Fault("a program less", text, 1)


Places = Iterator[tuple[str, Callable[[], Any]]]


def _calls(function: ast.AST, *names: str) -> Iterator[ast.Call]:
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in names:
            yield node


def _no_mask(function: ast.AST) -> Places:
    """An access without its mask: right where the block divides the size."""
    for call in _calls(function, "tl.load", "tl.store", "tl.atomic_add"):
        for keyword in call.keywords:
            if keyword.arg == "mask":
                yield (
                    ast.unparse(call),
                    lambda c=call, k=keyword: setattr(
                        c, "keywords", [x for x in c.keywords if x is not k and x.arg != "other"]
                    ),
                )


def _off_by_one(function: ast.AST) -> Places:
    for node in ast.walk(function):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Lt):
            yield ast.unparse(node), lambda n=node: setattr(n, "ops", [ast.LtE()])
            less = ast.BinOp(node.comparators[0], ast.Sub(), ast.Constant(1))
            yield ast.unparse(node) + " - 1", lambda n=node, x=less: setattr(n, "comparators", [x])


def _forgets_the_rest(function: ast.AST) -> Places:
    """A loop over whole blocks alone."""
    for call in _calls(function, "tl.cdiv"):
        whole = ast.parse(f"({ast.unparse(call.args[0])}) // ({ast.unparse(call.args[1])})", mode="eval").body
        yield (
            ast.unparse(call),
            lambda c=call, w=whole: (
                setattr(c, "func", ast.parse("tl.maximum", mode="eval").body),
                setattr(c, "args", [w, ast.Constant(1)]),
            ),
        )
    for call in _calls(function, "range", "tl.range"):
        if len(call.args) == 3:
            whole = ast.parse(f"{ast.unparse(call.args[1])} - {ast.unparse(call.args[2])} + 1", mode="eval").body
            yield ast.unparse(call), lambda c=call, w=whole: c.args.__setitem__(1, w)


def _another_size(function: ast.FunctionDef) -> Places:
    """A stride or a size in the place of another: right where the two are equal."""
    sizes = [a.arg for a in function.args.args if a.annotation is None]
    used = [n for n in ast.walk(function) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mult)]
    factors = [n.right for n in used if isinstance(n.right, ast.Name) and n.right.id in sizes]
    for name in factors:
        for other in {f.id for f in factors} | {s for s in sizes if s in ("n", "columns", "rows", "M", "N", "K")}:
            if other != name.id:
                yield f"{name.id} becomes {other} in line {name.lineno}", lambda n=name, o=other: setattr(n, "id", o)


def _halves(function: ast.AST) -> Places:
    """Half precision on the way."""
    for call in _calls(function, "tl.store"):
        yield (
            ast.unparse(call),
            lambda c=call: c.args.__setitem__(
                1, ast.parse(f"(({ast.unparse(c.args[1])}) * 1.0).to(tl.float16)", mode="eval").body
            ),
        )
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "tl.float32":
            yield f"tl.float32 in line {node.lineno}", lambda n=node: setattr(n, "attr", "float16")


def _another_value(function: ast.AST) -> Places:
    """Another value where a load is masked: it shows where something is masked."""
    for call in _calls(function, "tl.load"):
        for keyword in call.keywords:
            if keyword.arg == "other":
                yield ast.unparse(call), lambda k=keyword: setattr(k, "value", ast.Constant(1))


def _another_reduction(function: ast.AST) -> Places:
    swap = {"tl.sum": "tl.max", "tl.max": "tl.min", "tl.min": "tl.max", "tl.cumsum": "tl.sort"}
    for call in _calls(function, *swap):
        other = ast.parse(swap[ast.unparse(call.func)], mode="eval").body
        yield ast.unparse(call), lambda c=call, o=other: setattr(c, "func", o)
    for node in ast.walk(function):
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            yield ast.unparse(node), lambda n=node: setattr(n, "op", ast.Sub())


def _scaled(function: ast.AST) -> Places:
    """A result that is off by a hundredth, and one that is off in one lane of a block."""
    for call in _calls(function, "tl.store"):
        said = ast.unparse(call.args[1])
        yield (
            ast.unparse(call),
            lambda c=call, s=said: c.args.__setitem__(1, ast.parse(f"({s}) * 1.01", mode="eval").body),
        )
        yield (
            ast.unparse(call) + ", what is positive",
            lambda c=call, s=said: c.args.__setitem__(1, ast.parse(f"tl.where(({s}) > 0, 0, ({s}))", mode="eval").body),
        )


# -- what becomes of them ----------------------------------------------------------------------------------------------


class Judge:
    """A kernel's launches at two sizes, which are judged by, and at a third."""

    def __init__(self, name: str, text: str, shown: Sequence[Call], hidden: Sequence[Call]) -> None:
        self.name, self.text, self.every, self.count = name, text, [*shown, *hidden], len(shown)
        base = self._measure(text, 0)
        self.told = {(k, 0): base.dry(k) for k in range(len(self.every))}

    def _measure(self, text: str, fewer: int) -> AdoptedMeasure:
        key = key_of({})
        grids = [_less(call.grid, fewer) for call in self.every]
        measure = AdoptedMeasure(text, self.name, {}, {}, {key: grids[0]}, "float32", kind="interpret", default={},
                                 calls=self.every, variants=[{key: Variant({}, (g,))} for g in grids])  # fmt: skip
        measure.open()
        return measure

    def became(self, fault: Fault) -> Verdict:
        """Return what the tuner says of a fault that it is shown at the first sizes, held to the last."""
        try:
            measure = self._measure(fault.text, fault.fewer)
        except Exception as error:
            return Verdict(self.name, fault.what, "refused", f"it cannot be made: {error}"[:80])
        measure._told = dict(self.told)
        for k in range(len(self.every)):
            try:
                measure._beside_default(k, {}, 0, 0)
            except Failed as failure:
                became = "refused" if k < self.count else "accepted"
                return Verdict(self.name, fault.what, became, failure.reason[:90], k)
        return Verdict(self.name, fault.what, "same")


def _less(grid: tuple[int, ...], fewer: int) -> tuple[int, ...]:
    largest = max(range(len(grid)), key=lambda axis: grid[axis])
    return tuple(n - fewer * (axis == largest and n > 1) for axis, n in enumerate(grid))


def judge_of(name: str, program: Callable[..., Any], *sizes: Any) -> Judge:
    """Capture a program at each of its sizes, the last one hidden."""
    with tune.capture() as seen:
        for each in sizes:
            program(*each)
    launches = [x for x in seen.of(name) if x.call is not None and not x.refused]
    calls = [x.call for x in launches if x.call is not None]
    return Judge(name, text_of(launches[0].kernel), calls[:-1], calls[-1:])


def verdicts(name: str) -> Iterator[Verdict]:
    """Yield what becomes of every fault in a kernel of `planted_programs`."""
    judge = judge_of(name, *PROGRAMS[name])
    for fault in faults(judge.text, name, judge.every[0].grid):
        yield judge.became(fault)


def proposals(name: str) -> Iterator[Verdict]:
    """Yield what becomes of the blocks that the tuner proposes by two sizes: each is held to the third, where the
    program has the same block by itself; where it has another, as for a longer row, results are not carried over."""
    program, *sizes = PROGRAMS[name]
    spaces = []
    for asked in (sizes[:2], sizes):
        with tune.capture() as seen:
            for each in asked:
                program(*each)
        problem = seen.problem(name, target="sm_90")
        spaces.append({t.name: t for t in problem.space.tunables if t.name not in _WARPS})
    defaults = {n: v for x in seen.of(name)[-1:] if x.call for n, v in x.call.arguments.items()}
    for constant, tunable in spaces[0].items():
        for value in tunable.values:
            if value != tunable.default and defaults[constant] == tunable.default:
                right = constant in spaces[1] and value in spaces[1][constant].values
                yield Verdict(name, f"{constant}={value}", "right" if right else "accepted", "wrong at a third size")


def main(names: Sequence[str]) -> int:
    """Print what became of every fault and proposal; 1 where one was accepted wrongly."""
    total: Counter[str] = Counter()
    for name in names or PROGRAMS:
        for kind, each in (("fault", verdicts(name)), ("proposed", proposals(name))):
            found = list(each)
            total.update(f"{kind} {v.became}" for v in found)
            total.update("fault that the second size alone shows" for v in found if v.size == 1)
            print(f"{name}: {kind}: {dict(Counter(v.became for v in found))}", flush=True)
            for v in found:
                if v.became == "accepted":
                    print(f"    {v.became}: {v.fault} ({v.why})")
    print(dict(total))
    return int(any(key.endswith("accepted") for key in total))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
