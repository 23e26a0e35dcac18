"""Programs as plain NumPy: run where core cannot be imported, on other data and at a size that was not exported."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest

import core
from core.declare import op as declarations
from core.declare.op import Elementwise, Operation
from core.dispatch.elementwise import call_map
from core.dispatch.structured import call_operation
from core.export.ir import Block, ExportError, Line, Names, Node, Sized, Tree, Value
from core.export.program import Program
from core.export.to_numpy import numpy_text
from tests.conformance.harness import turned

from .more_models import MODELS

CHILD = """
import importlib.util, pickle, sys

class NoCore:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("core", "ml_dtypes", "scipy", "torch"):
            raise ImportError(name + " is not to be imported")

sys.meta_path.insert(0, NoCore())
try:
    import core
except ImportError:
    pass
else:
    raise SystemExit("core could be imported")
path, calls, answers = sys.argv[1:]
spec = importlib.util.spec_from_file_location("written", path)
written = importlib.util.module_from_spec(spec)
spec.loader.exec_module(written)
with open(calls, "rb") as file:
    found = [written.run(*args) for args in pickle.load(file)]
with open(answers, "wb") as file:
    pickle.dump(found, file)
assert "core" not in sys.modules
"""


def arrays(x):
    """Tensors, however they stand together, as arrays of their own."""
    if isinstance(x, core.Tensor):
        return np.array(x.detach().numpy())
    if isinstance(x, dict):
        return {k: arrays(v) for k, v in x.items()}
    return type(x)(map(arrays, x)) if type(x) in (list, tuple) else tuple(map(arrays, x)) if isinstance(x, tuple) else x


def in_child(path, calls, folder):
    """What the written file gives for each of the calls, in a process of its own."""
    with open(folder / "calls", "wb") as file:
        pickle.dump(calls, file)
    script = folder / "child.py"
    script.write_text(CHILD)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run([sys.executable, "-I", script, path, folder / "calls", folder / "answers"], cwd=folder,
                          env=environment, capture_output=True, text=True, timeout=120)  # fmt: skip
    assert done.returncode == 0, done.stderr
    with open(folder / "answers", "rb") as file:
        return pickle.load(file)


def same(found, wanted, tolerance=1e-5):
    """Assert one nesting, and of each array the dtype, the shape and values within a part of the largest."""
    if isinstance(wanted, dict):
        assert list(found) == list(wanted)
        wanted, found = list(wanted.values()), list(found.values())
    if isinstance(wanted, list | tuple):
        assert len(found) == len(wanted)
        for a, b in zip(found, wanted, strict=True):
            same(a, b, tolerance)
    elif isinstance(wanted, np.ndarray):
        assert isinstance(found, np.ndarray)
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        if wanted.dtype.kind in "fc":
            largest = np.max(np.abs(wanted[np.isfinite(wanted)]), initial=0)
            part = 2e-3 if wanted.dtype == np.float16 else tolerance
            np.testing.assert_allclose(found, wanted, rtol=0, atol=part * largest)
        else:
            np.testing.assert_array_equal(found, wanted)
    else:
        assert found == wanted


@pytest.mark.parametrize("name", MODELS)
def test_a_model_runs_without_core_at_another_size(name, tmp_path):
    core.manual_seed(3)
    function, args, dynamic = MODELS[name]()
    program = core.export(function, args(3), dynamic=dynamic, name=name)
    path = program.numpy(tmp_path)
    core.manual_seed(7)
    calls = [args(8), args(5)]
    given = [arrays(call) for call in calls]
    wanted = [arrays(function(*call)) for call in calls]  # in turn: a model may have state
    for found, expected in zip(in_child(path, given, tmp_path), wanted, strict=True):
        same(found, expected)
        assert np.any([np.any(a) for a in _flat(expected)])  # nothing but zeros would say nothing


def _flat(x):
    if isinstance(x, dict):
        x = list(x.values())
    return [a for part in x for a in _flat(part)] if isinstance(x, list | tuple) else [x]


def written(program):
    """The functions of a program's file that has no state."""
    namespace = {"__file__": "program.py"}
    exec(compile(numpy_text(program), "program.py", "exec"), namespace)
    return namespace


# -- every op of the table ---------------------------------------------------------------------------------------------


def program_of(op, args, params):
    """A program of one op on these arrays, and what core gives."""
    tensors = tuple(core.from_numpy(a.copy()) if isinstance(a, np.ndarray) else a for a in args)
    if isinstance(op, Elementwise):
        results = call_map(op, tensors, tuple(params.values()))
    else:
        results = call_operation(op, tensors, params)
    results = results if isinstance(results, tuple) else (results,)
    given = [Value(f"x{k}", t.dtype.name, t.shape) if isinstance(t, core.Tensor) else t for k, t in enumerate(tensors)]
    inputs = [v for v in given if isinstance(v, Value)]
    outputs = [Value(f"y{k}", t.dtype.name, t.shape) for k, t in enumerate(results)]
    trees = [Tree("tuple", None, tuple(Tree("tensor") for _ in values)) for values in (inputs, outputs)]
    node = Node(op.name, tuple(given), params, tuple(outputs), None)
    return Program("one", inputs, {}, [node], outputs, [], {}, [], *trees, [v.name for v in inputs]), results


def agrees(op, args, params):
    program, results = program_of(op, args, params)
    found = written(program)["run"](*[a.copy() for a in args if isinstance(a, np.ndarray)])
    for k, (a, t) in enumerate(zip(found, results, strict=True)):
        b = t.detach().numpy()
        a = turned(op.name, k, a, b)
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        largest = np.max(np.abs(b[np.isfinite(b)]), initial=0) if b.dtype.kind in "fc" else 0
        part = 1e-3 if b.dtype == np.float16 else 1e-5
        np.testing.assert_allclose(a, b, rtol=part, atol=part * largest)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool", "float16"])
@pytest.mark.parametrize("name", [n for n, op in declarations.table.items() if isinstance(op, Elementwise)])
def test_an_elementwise_op(name, dtype, rng):
    op = declarations.table[name]
    args = []
    for input_, (low, high) in zip(op.inputs, op.domain, strict=True):
        a = rng.uniform(low, high, (3, 4))
        args.append(a > (low + high) / 2 if dtype == "bool" or input_ in op.bools else a.astype(dtype))
    numbers = [[*args[:k], n, *args[k + 1 :]] for k in range(len(args)) for n in (2, 1.5)
               if len(args) > 1 and op.inputs[k] not in op.bools]  # fmt: skip
    narrow = [[args[0][:, :1].copy(), *args[1:]]] if len(args) > 1 else []
    held = 0
    for given in (args, *numbers, *narrow, [np.asarray(a[0, 0]) for a in args]):
        try:
            program_of(op, given, dict(op.params))
        except (RuntimeError, NotImplementedError, TypeError):
            continue  # core refuses such operands
        agrees(op, given, dict(op.params))
        held += 1
    assert held or dtype != "float32"


@pytest.mark.parametrize(
    "name", [n for n, op in declarations.table.items() if isinstance(op, Operation) and op.samples]
)
def test_a_structured_op(name):
    op = declarations.table[name]
    for args, params in op.samples(np.random.default_rng(0)):
        params = {**op.params, **params}
        if params.get("p") and "seed" in params:
            params["p"] = 0.0
        single = [np.asarray(a, np.float32) if getattr(a, "dtype", None) == np.float64 else a for a in args]
        agrees(op, [a if a is None else np.asarray(a) for a in single], params)


def test_every_structured_op_has_a_text_or_a_refusal_that_says_why():
    from core.export.copied import Copies

    refused = []
    for name, op in declarations.table.items():
        if isinstance(op, Operation) and "::" not in name:  # another test's own
            try:
                Copies(Names({"np"})).operation(op)
            except ExportError as error:
                refused.append(name if name in str(error) else str(error))
    assert set(refused) <= {"move", "dropout"}  # they have texts of their own where they are no random numbers


# -- what a file looks like and how it behaves -------------------------------------------------------------------------


def test_the_file_reads_like_code(tmp_path):
    layers = core.nn.Sequential(core.nn.Linear(3, 4), core.nn.ReLU())

    def f(x):
        return {"y": layers(x) / x.shape[0]}

    text = numpy_text(core.export(f, (core.ones(2, 3),), dynamic={"x": {0: "batch"}}))
    assert "x: float32, shape (batch, 3)" in text
    assert "# test_numpy.py:" in text
    assert "layers(x) / x.shape[0]" in text
    assert "linear = x @ state['layers.0.weight'].T + state['layers.0.bias']" in text
    assert "relu = np.maximum(linear, 0.0)" in text
    assert "true_divide = relu / batch" in text
    assert "return {'y': true_divide}" in text
    assert "core" not in re.sub(r"written by core\.export", "", text)
    assert str(tmp_path) not in text


def test_a_function_of_the_file_stands_there_once():
    text = numpy_text(core.export(lambda x: core.erf(x).erf().erf(), (core.ones(2),)))
    assert text.count("def erf(") == 1
    assert text.count("erf(") > 3


def test_arguments_that_do_not_fit_are_refused():
    def f(x, more):
        return x + more[0] if x.shape[0] > 2 else x

    program = core.export(f, (core.ones(4, 3), [core.ones(4, 3), 2]),
                          dynamic={"x": {0: "n"}, "more": [{0: "n"}, None]})  # fmt: skip
    run = written(program)["run"]
    x = np.ones((5, 3), np.float32)
    np.testing.assert_array_equal(run(x, [x, 2]), x * 2)
    with pytest.raises(ValueError, match=r"x has to be an array of float32 with 2 dimensions, got float64 of shape"):
        run(x.astype(np.float64), [x, 2])
    with pytest.raises(ValueError, match=r"got list"):
        run([1.0], [x, 2])
    with pytest.raises(ValueError, match=r"more_0 has the shape \(4, 3\), and needs \(5, 3\)"):
        run(x, [x[:4], 2])
    with pytest.raises(ValueError, match="more\\[1\\] was 2 when this was written"):
        run(x, [x, 3])
    with pytest.raises(ValueError, match="written for sizes where n > 2"):
        run(x[:2], [x[:2], 2])


def test_state_moves_on_and_is_reset(tmp_path, monkeypatch):
    count = core.zeros(2)

    def f(x):
        count.add_(x)
        return count * 1, x.mul_(2)

    path = core.export(f, (core.ones(2),), name="counter").numpy(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    import counter

    assert path == str(tmp_path / "counter.py")
    x = np.ones(2, np.float32)
    assert counter.run(x)[0].tolist() == [1, 1]
    assert x.tolist() == [2, 2]
    assert counter.run(x)[0].tolist() == [3, 3]
    counter.reset()
    assert counter.run(np.ones(2, np.float32))[0].tolist() == [1, 1]


def test_results_are_memory_of_their_own(tmp_path):
    weight = core.ones(2)

    def f(x):
        return weight, x, x[0], x.t()

    x = np.ones((2, 2), np.float32)
    namespace = {"__file__": core.export(f, (core.ones(2, 2),), name="f").numpy(tmp_path)}
    exec((tmp_path / "f.py").read_text(), namespace)
    for a in namespace["run"](x):
        a[...] = 9
    assert x.tolist() == [[1, 1], [1, 1]]
    assert namespace["state"]["weight"].tolist() == [1, 1]


def test_branches_and_loops_are_pythons():
    """while total < limit: total, n = total * 2, n + 1; then the half where n is odd."""
    f32, i64, truth = "float32", "int64", "bool"
    limit = Value("limit", f32, ())
    one, zero = Value("one", f32, ()), Value("zero", i64, ())
    a, n, less = Value("a", f32, ()), Value("n", i64, ()), Value("less", truth, ())
    b, m, doubled, more = Value("b", f32, ()), Value("m", i64, ()), Value("doubled", f32, ()), Value("more", i64, ())
    total, steps, rest, odd = (Value(*v, ()) for v in (("total", f32), ("steps", i64), ("rest", i64), ("odd", truth)))
    half, result = Value("half", f32, ()), Value("result", f32, ())
    line = Line("loop.py", 7, "while total < limit:")
    test = Block((a, n), (Node("lt", (a, limit), {}, (less,), line),), (less,))
    body = Block((b, m), (Node("mul", (b, 2.0), {}, (doubled,), line), Node("add", (m, 1), {}, (more,), line)),
                 (doubled, more))  # fmt: skip
    then = Block((), (Node("mul", (total, 0.5), {}, (half,), None),), (half,))
    nodes = [
        Node("full", (), {"shape": (), "value": 1.0, "dtype": f32}, (one,), None),
        Node("full", (), {"shape": (), "value": 0, "dtype": i64}, (zero,), None),
        Node("while", (one, zero), {}, (total, steps), line, (test, body)),
        Node("remainder", (steps, 2), {}, (rest,), None),
        Node("eq", (rest, 1), {}, (odd,), None),
        Node("if", (odd,), {}, (result,), None, (then, Block((), (), (total,)))),
    ]
    one_tensor = Tree("tensor")
    program = Program("loop", [limit], {}, nodes, [result, steps], [], {}, [], Tree("tuple", None, (one_tensor,)),
                      Tree("tuple", None, (one_tensor, one_tensor)), ["limit"])  # fmt: skip
    run = written(program)["run"]
    for given in (0.5, 3.0, 9.0, 40.0):
        wanted = program(core.tensor(given))
        same(run(np.asarray(given, np.float32)), arrays(wanted))
    text = numpy_text(program)
    assert "while True:" in text
    assert "if odd:" in text
    assert "# loop.py:7  while total < limit:" in text


def test_sizes_of_values_are_read_from_them():
    x = Value("x", "float32", (4,))
    found = Value("found", "float32", ())
    found.shape = (("size", found, 0), 2)
    total = Value("total", "float32", ())
    nodes = [Node("view", (x,), {"shape": (2, 2)}, (found,), None),
             Node("full", (), {"shape": (), "value": Sized(("*", ("size", found, 0), 1.5)), "dtype": "float32"},
                  (total,), None)]  # fmt: skip
    program = Program("f", [x], {}, nodes, [total], [], {}, [], Tree("tuple", None, (Tree("tensor"),)), Tree("tensor"),
                      ["x"])  # fmt: skip
    assert written(program)["run"](np.ones(4, np.float32)).tolist() == 3.0


def test_bfloat16_is_refused_with_the_remedy():
    program = core.export(lambda x: x * 2 + 1, (core.ones(2, dtype=core.bfloat16),))
    with pytest.raises(ExportError, match=r"no bfloat16, which x has\n.*model.float\(\)"):
        numpy_text(program)
    program = core.export(lambda x: (x.bfloat16() + 1).float(), (core.ones(2),))
    with pytest.raises(
        ExportError, match=r"no bfloat16, which (cast|add) has here\n.*model.float\(\)(.|\n)*test_numpy"
    ):
        numpy_text(program)


def test_many_results_are_named_over_several_lines():
    def f(x):
        return sum(part * k for k, part in enumerate(x.unbind(1)))

    x = core.randn(3, 40)
    text = numpy_text(core.export(f, (x,), dynamic={"x": {0: "batch"}}))
    assert max(map(len, text.splitlines())) <= 120
    namespace: dict = {}
    exec(compile(text, "program.py", "exec"), namespace)
    np.testing.assert_allclose(namespace["run"](x.numpy()), f(x).numpy(), rtol=1e-5, atol=1e-5)
