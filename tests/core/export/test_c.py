"""Programs as plain C: compiled, run by a `main` without Python on other data at a size that was not exported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import core
from core.export.ir import Block, ExportError, Node, Tree, Value
from core.export.program import Program

from .c_models import CASES, Case
from .models import CASES as MODELS
from .run_c import compiled, flat, is_there, ran

BOUND = 1e-5  # of the largest |output|


def _tensor(x: Any) -> bool:
    return isinstance(x, core.Tensor)


def _exported(case: Case) -> Any:
    core.manual_seed(3)
    model = case.make()
    if isinstance(model, core.nn.Module):
        model.eval()
        for name, b in model.named_buffers():  # statistics that are not those of a new batch norm
            if name.endswith("running_mean"):
                b.copy_(core.randn(*b.shape) * 0.1)
            elif name.endswith("running_var"):
                b.copy_(core.rand(*b.shape) + 0.5)
    return core.export(model, case.args(), dynamic=case.dynamic)


def _agree(found: list[Any], wanted: list[Any], bound: float = BOUND) -> None:
    assert len(found) == len(wanted) > 0
    for a, b in zip(found, wanted, strict=True):
        if b.dtype.kind != "f":
            np.testing.assert_array_equal(a, b)
            continue
        assert np.array_equal(np.isfinite(a), np.isfinite(b))
        there = np.isfinite(b)
        largest = max(np.abs(b[there]).max(initial=0), 1e-30)
        assert np.abs(a[there] - b[there]).max(initial=0) <= bound * largest


def _holds(program: Any, args: Any, folder: Path, build: str) -> None:
    if not is_there(build):
        pytest.skip(f"needs the compiler of {build}")
    wanted = flat(program(*args), _tensor)
    executable = compiled(program, folder, build)
    status, found = ran(executable, program, flat(args, _tensor), wanted, build)
    assert status == 0
    _agree(found, wanted)


@pytest.mark.parametrize("name", list(MODELS))
def test_model(name: str, tmp_path: Path) -> None:
    """Exported at size 3, run at size 7."""
    function, args, dynamic = MODELS[name]()
    _holds(core.export(function, args(3), dynamic=dynamic), args(7), tmp_path, "gcc")


@pytest.mark.by_turns
@pytest.mark.parametrize("name", list(CASES))
def test_sanitized(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    _holds(_exported(case), case.other(), tmp_path, "sanitized")


@pytest.mark.by_turns
@pytest.mark.parametrize("build", ["clang", "plain", "aarch64"])
@pytest.mark.parametrize("name", ["mlp", "cnn", "gpt", "losses", "lstm"])
def test_other_compilers(name: str, build: str, tmp_path: Path) -> None:
    case = CASES[name]
    _holds(_exported(case), case.other(), tmp_path, build)


# -- control flow ------------------------------------------------------------------------------------------------------


def _program(name: str, inputs: list[Value], nodes: list[Node], outputs: list[Value], sizes: Any) -> Program:
    tensors = Tree("tuple", None, tuple(Tree("tensor") for _ in inputs))
    result = Tree("tuple", None, tuple(Tree("tensor") for _ in outputs))
    return Program(name, inputs, {}, nodes, outputs, [], sizes, [], tensors, result, [v.name for v in inputs])


def _newton() -> Program:
    """while ((x * x - a).abs().sum() > 1e-4): x = (x + a / x) / 2, and steps counted."""
    a, x, steps = Value("a", "float32", ("n",)), Value("x", "float32", ("n",)), Value("steps", "int64", ())
    start, zero = Value("start", "float32", ("n",)), Value("zero", "int64", ())
    t = [Value(f"t{k}", "float32", ("n",)) for k in range(6)]
    total, goes_on = Value("total", "float32", ()), Value("goes_on", "bool", ())
    test = Block((x, steps), (
        Node("mul", (x, x), {}, (t[0],), None), Node("sub", (t[0], a), {}, (t[1],), None),
        Node("abs", (t[1],), {}, (t[2],), None),
        Node("sum", (t[2],), {"dim": (0,), "keepdim": False}, (total,), None),
        Node("gt", (total, 1e-4), {}, (goes_on,), None)), (goes_on,))  # fmt: skip
    x2, steps2 = Value("x2", "float32", ("n",)), Value("steps2", "int64", ())
    u = [Value(f"u{k}", "float32", ("n",)) for k in range(3)]
    counted = Value("counted", "int64", ())
    body = Block((x2, steps2), (
        Node("true_divide", (a, x2), {}, (u[0],), None), Node("add", (x2, u[0]), {}, (u[1],), None),
        Node("mul", (u[1], 0.5), {}, (u[2],), None), Node("add", (steps2, 1), {}, (counted,), None)),
        (u[2], counted))  # fmt: skip
    root, count = Value("root", "float32", ("n",)), Value("count", "int64", ())
    nodes = [Node("add", (a, 1.0), {}, (start,), None),
             Node("full", (), {"shape": (), "value": 0, "dtype": "int64"}, (zero,), None),
             Node("while", (start, zero), {}, (root, count), None, (test, body))]  # fmt: skip
    return _program("newton", [a], nodes, [root, count], {"n": (0, 0)})


def _swapping() -> Program:
    """while i < n: a, b = b, a + b: each turn reads what the other writes."""
    a, b, n = Value("a", "float32", (3,)), Value("b", "float32", (3,)), Value("n", "int64", ())
    v = {k: Value(k, "float32", (3,)) for k in ("x", "y", "x2", "y2", "both", "p", "q")}
    i, i2, later, last = (Value(k, "int64", ()) for k in ("i", "i2", "later", "last"))
    zero, goes_on = Value("zero", "int64", ()), Value("goes_on", "bool", ())
    test = Block((v["x"], v["y"], i), (Node("lt", (i, n), {}, (goes_on,), None),), (goes_on,))
    body = Block((v["x2"], v["y2"], i2), (Node("add", (v["x2"], v["y2"]), {}, (v["both"],), None),
                                          Node("add", (i2, 1), {}, (later,), None)),
                 (v["y2"], v["both"], later))  # fmt: skip
    nodes = [Node("full", (), {"shape": (), "value": 0, "dtype": "int64"}, (zero,), None),
             Node("while", (a, b, zero), {}, (v["p"], v["q"], last), None, (test, body))]  # fmt: skip
    return _program("swapping", [a, b, n], nodes, [v["p"], v["q"], last], {})


def _branch() -> Program:
    """x * 2 where the sum is above 0, else x - 1; then the exponential."""
    x = Value("x", "float32", ("n", 3))
    total, above = Value("total", "float32", ()), Value("above", "bool", ())
    double, less, chosen, y = (Value(k, "float32", ("n", 3)) for k in ("double", "less", "chosen", "y"))
    then = Block((), (Node("mul", (x, 2.0), {}, (double,), None),), (double,))
    other = Block((), (Node("sub", (x, 1.0), {}, (less,), None),), (less,))
    nodes = [Node("sum", (x,), {"dim": (0, 1), "keepdim": False}, (total,), None),
             Node("gt", (total, 0), {}, (above,), None), Node("if", (above,), {}, (chosen,), None, (then, other)),
             Node("exp", (chosen,), {}, (y,), None)]  # fmt: skip
    return _program("branch", [x], nodes, [y, chosen], {"n": (0, 0)})


@pytest.mark.parametrize("build", ["gcc", "sanitized", "aarch64"])
def test_while_takes_as_many_turns_as_it_needs(build: str, tmp_path: Path) -> None:
    program = _newton()
    if not is_there(build):
        pytest.skip(f"needs the compiler of {build}")
    executable = compiled(program, tmp_path, build)
    for numbers in ([4.0, 9.0, 2.0], [1.0], [1e4, 3.0]):
        a = np.array(numbers, np.float32)
        wanted = flat(program(core.tensor(a)), _tensor)
        status, found = ran(executable, program, [a], wanted, build)
        assert status == 0
        _agree(found, wanted)
        np.testing.assert_allclose(found[0], np.sqrt(a), rtol=1e-4)
    assert int(found[1]) > 5


def test_what_a_loop_carries_may_change_places(tmp_path: Path) -> None:
    program = _swapping()
    executable = compiled(program, tmp_path, "sanitized")
    for turns in (0, 1, 7):
        args = (core.tensor([1.0, 2.0, 3.0]), core.tensor([1.0, 0.5, -1.0]), core.tensor(turns))
        wanted = flat(program(*args), _tensor)
        status, found = ran(executable, program, flat(args, _tensor), wanted, "sanitized")
        assert status == 0
        assert int(found[2]) == turns
        _agree(found, wanted)


def test_both_branches(tmp_path: Path) -> None:
    program = _branch()
    executable = compiled(program, tmp_path, "sanitized")
    for sign in (1, -1):
        x = np.full((5, 3), 0.25 * sign, np.float32)
        wanted = flat(program(core.tensor(x)), _tensor)
        status, found = ran(executable, program, [x], wanted, "sanitized")
        assert status == 0
        _agree(found, wanted)
        np.testing.assert_allclose(found[1], x * 2 if sign > 0 else x - 1)


# -- state, errors, forms ----------------------------------------------------------------------------------------------


def test_state_comes_as_further_outputs(tmp_path: Path) -> None:
    core.manual_seed(5)
    norm = core.nn.BatchNorm1d(4)
    x = core.randn(6, 4)
    program = core.export(norm, (x,))
    executable = compiled(program, tmp_path, "sanitized")
    assert "MODEL_STATE_RUNNING_MEAN" in (tmp_path / "model.h").read_text()
    result = flat(program(x), _tensor)
    wanted = result + [np.asarray(program.state[old.name][1]) for old, _ in program.updates]
    status, found = ran(executable, program, [x.numpy()], wanted, "sanitized")
    assert status == 0
    assert len(found) == len(result) + 3
    _agree(found, wanted)


def test_training_step(tmp_path: Path) -> None:
    """A whole step: loss, gradients and the update of weights, which come as further outputs."""
    core.manual_seed(5)
    model = core.nn.Sequential(core.nn.Linear(6, 16), core.nn.Tanh(), core.nn.Linear(16, 4))

    def step(x: Any, target: Any) -> Any:
        loss = core.nn.functional.cross_entropy(model(x), target)
        gradients = core.autograd.grad(loss, list(model.parameters()))
        with core.no_grad():
            for p, g in zip(model.parameters(), gradients, strict=True):
                p -= 0.1 * g
        return loss.detach()

    program = core.export(step, (core.randn(5, 6), core.randint(0, 4, (5,))))
    executable = compiled(program, tmp_path, "sanitized")
    x, target = core.randn(5, 6), core.randint(0, 4, (5,))
    wanted = flat([program(x, target)], _tensor)
    wanted += [np.asarray(program.state[old.name][1]) for old, _ in program.updates]
    status, found = ran(executable, program, [x.numpy(), target.numpy()], wanted, "sanitized")
    assert status == 0
    assert len(wanted) == 5
    _agree(found, wanted)


def test_sizes_and_indices_that_do_not_fit_are_errors(tmp_path: Path) -> None:
    program = _exported(CASES["gpt"])
    executable = compiled(program, tmp_path, "sanitized")
    tokens = np.zeros((2, 5), np.int64)
    wanted = [np.zeros((2, 5, 50), np.float32)]
    assert ran(executable, program, [tokens], wanted, "sanitized")[0] == 0
    assert ran(executable, program, [tokens], wanted, "sanitized", sizes=[2, -1])[0] == 1
    assert ran(executable, program, [tokens], wanted, "sanitized", sizes=[2, 2**40])[0] == 1
    for wrong in (50, -1, 2**62):
        tokens[1, 3] = wrong
        assert ran(executable, program, [tokens], wanted, "sanitized")[0] == 2


def test_guard_is_an_error_code(tmp_path: Path) -> None:
    def f(x: Any) -> Any:
        return x * 2 if x.shape[0] > 2 else x * 3

    program = core.export(f, (core.ones(4, 2),), dynamic={"x": {0: "n"}})
    executable = compiled(program, tmp_path, "sanitized")
    assert "where" in (tmp_path / "model.h").read_text()
    x = np.ones((5, 2), np.float32)
    assert ran(executable, program, [x], [x], "sanitized")[0] == 0
    assert ran(executable, program, [x], [x], "sanitized", sizes=[2])[0] == 1


def test_no_heap_and_no_python(tmp_path: Path) -> None:
    program = _exported(CASES["gpt"])
    program.to_c(tmp_path)
    text = "".join(f.read_text() for f in tmp_path.iterdir() if f.suffix in (".c", ".h") and f.name != "model.h")
    for word in ("malloc", "calloc", "Python.h", "cblas", "omp.h", "stdio.h"):
        assert word not in text
    assert str(tmp_path) not in text
    assert str(Path(core.__file__).parent) not in text


def test_embedded_weights(tmp_path: Path) -> None:
    import subprocess

    program = _exported(CASES["mlp"])
    program.to_c(tmp_path / "file")
    program.to_c(tmp_path / "array", embed=True)
    assert not (tmp_path / "array" / "weights.bin").exists()
    (tmp_path / "array" / "main.c").write_text(
        '#include "model.h"\n#include <stdio.h>\n'
        "int main(void) { return fwrite(model_weights, 1, MODEL_WEIGHT_BYTES, stdout) < 1; }\n")  # fmt: skip
    folder = tmp_path / "array"
    subprocess.run(["gcc", "-Wall", "-Werror", "main.c", "model.c", "model_weights.c", "-o", "main", "-lm"], cwd=folder,
                   check=True)  # fmt: skip
    found = subprocess.run(["./main"], cwd=folder, capture_output=True, check=True).stdout
    assert found == (tmp_path / "file" / "weights.bin").read_bytes()


def test_what_is_not_written_is_refused_with_its_line(tmp_path: Path) -> None:
    program = core.export(lambda x: core.linalg.inv(x), (core.eye(3) + 1,))
    with pytest.raises(ExportError, match=r"test_c\.py line \d+.*inv: is not written in C[\s\S]*remedy"):
        program.to_c(tmp_path)


@pytest.mark.by_turns
@pytest.mark.parametrize("build", ["gcc", "plain"])
@pytest.mark.parametrize("size", [1, 64])
@pytest.mark.parametrize("name", ["mlp", "gpt", "vit"])
def test_compilers_warn_of_nothing_where_all_sizes_are_known(name: str, size: int, build: str, tmp_path: Path) -> None:
    """Loops of a known length are unrolled, and what cannot happen in them is looked at."""
    function, args, _ = MODELS[name]()
    compiled(core.export(function, args(size)), tmp_path, build)


def test_memory_is_used_again(tmp_path: Path) -> None:
    """The arena of a deep chain is that of a few layers."""
    layers = [core.nn.Linear(64, 64) for _ in range(12)]
    for length, most in ((2, 3), (12, 3)):
        program = core.export(core.nn.Sequential(*layers[:length]), (core.ones(2, 64),), dynamic={"input": {0: "n"}})
        program.to_c(tmp_path)
        text = (tmp_path / "model.c").read_text()
        assert text.count("= end, end +=") <= most


@pytest.mark.by_turns
@pytest.mark.parametrize("name", ["mlp", "gpt", "lstm", "encoder", "views"])
def test_sizes_of_one(name: str, tmp_path: Path) -> None:
    """What was exported where sizes are more than one runs where they are one: nothing is taken for a broadcast."""
    program = _exported(CASES[name])
    executable = compiled(program, tmp_path, "sanitized")
    args = [np.resize(a, [1 if isinstance(d, str) else n for d, n in zip(v.shape, a.shape, strict=True)])
            for v, a in zip(program.inputs, flat(CASES[name].args(), _tensor), strict=True)]  # fmt: skip
    if name == "views":
        args = [np.resize(args[0], (1, 5, 6))]  # it takes five places of an axis
    wanted = flat(program(*[core.tensor(a) for a in args]), _tensor)
    status, found = ran(executable, program, args, wanted, "sanitized")
    assert status == 0
    _agree(found, wanted)


def test_names_of_sizes_that_c_has_for_something_else(tmp_path: Path) -> None:
    program = core.export(lambda x, y: core.cat([x, y], 0) @ y.t(), (core.ones(2, 3), core.ones(4, 3)),
                          dynamic={"x": {0: "product"}, "y": {0: "for"}})  # fmt: skip
    x, y = core.randn(5, 3), core.randn(2, 3)
    executable = compiled(program, tmp_path, "sanitized")
    wanted = flat([program(x, y)], _tensor)
    status, found = ran(executable, program, [x.numpy(), y.numpy()], wanted, "sanitized")
    assert status == 0
    _agree(found, wanted)


def test_whole_numbers_wrap_around(tmp_path: Path) -> None:
    def f(x: Any, y: Any) -> Any:
        return (x + 100) // 2, x * x, (y * y) > 0, y * y, x.to(core.float32) / 3, y // 7, y % 7, (x > 5) & (x < 90)

    program = core.export(f, (core.tensor([1, 2], dtype=core.uint8), core.tensor([3, 4], dtype=core.int32)))
    args = (core.tensor([200, 90], dtype=core.uint8), core.tensor([-65000, 65536], dtype=core.int32))
    executable = compiled(program, tmp_path, "sanitized")
    wanted = flat(program(*args), _tensor)
    status, found = ran(executable, program, flat(args, _tensor), wanted, "sanitized")
    assert status == 0
    _agree(found, wanted)
