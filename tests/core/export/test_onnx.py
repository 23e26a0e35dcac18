"""`Program.to_onnx`: models and functions written, checked by onnx, and run by ONNX Runtime at another size."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import core
from core.declare import op as declarations
from core.declare.op import Elementwise
from core.dispatch.elementwise import call_map
from core.dispatch.structured import call_operation
from core.export import ExportError, Program
from core.export.ir import Block, Line, Node, Tree, Value
from core.export.onnx_graph import ELEMENTS
from core.export.onnx_ops import ROWS
from core.export.onnx_views import VIEWS

from .models import CASES
from .onnx_functions import FUNCTIONS
from .onnx_running import assert_close, run_by_onnx, session, tensors

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
nn, F = core.nn, core.nn.functional


@pytest.mark.parametrize("name", [*CASES, *FUNCTIONS])
def test_another_size_and_other_data(name: str, tmp_path: Path) -> None:
    function, args, dynamic = CASES[name]() if name in CASES else FUNCTIONS[name]
    program = core.export(function, args(3), dynamic=dynamic)
    program.to_onnx(tmp_path / "m.onnx")
    found = run_by_onnx(program, tmp_path / "m.onnx", args(11))
    with core.no_grad():
        wanted = tensors(function(*args(11)))
    for x, y in zip(found, wanted, strict=True):
        assert_close(x, y)


# -- each op with a row against its own result -------------------------------------------------------------------------


def program_of(op: Any, inputs: Any, params: dict[str, Any], outputs: Any) -> Program:
    """Return the program of one op."""
    given = [Value(f"x{k}", kind(x), x.shape) if isinstance(x, np.ndarray) else x for k, x in enumerate(inputs)]
    values = [v for v in given if isinstance(v, Value)]
    results = tuple(Value(f"y{k}", kind(y), y.shape) for k, y in enumerate(outputs))
    node = Node(op.name, tuple(given), params, results, Line("cell.py", 3, f"core.{op.name}(x)"))
    tree = Tree("tuple", None, tuple(Tree("tensor") for _ in values))
    return Program("one", values, {}, [node], results, [], {}, [], tree, Tree("tuple"), [v.name for v in values])


def kind(a: Any) -> str:
    return "bool" if a.dtype == bool else str(a.dtype.name)


def samples(op: Any) -> list[tuple[Any, dict[str, Any]]]:
    """Return inputs and parameters for an op, in float32."""
    rng = np.random.default_rng(0)
    if isinstance(op, Elementwise):
        found = []
        for name, (low, high) in zip(op.inputs, op.domain, strict=True):
            a = rng.uniform(max(low, -50), min(high, 50), (3, 4)).astype(np.float32)
            found.append(a > 0 if name in op.bools else a)
        return [(found, dict(op.params))]
    made = op.samples(rng)
    return [([x.astype(np.float32) if getattr(x, "dtype", None) == np.float64 else x for x in inputs],
             {**op.params, **params}) for inputs, params in made]  # fmt: skip


WRITTEN = sorted(n for n, op in declarations.table.items()
                 if isinstance(op, Elementwise) or n in ROWS or n in VIEWS)  # fmt: skip
SOME_FORMS_REFUSED = {"adaptive_max_pool", "attention", "bitwise_left_shift", "bitwise_right_shift", "conv_weight",
                      "cummax", "cummin", "dropout", "embedding_backward", "gru", "lstm", "rnn",
                      "scatter_reduce"}  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN)
def test_every_op_with_a_row(name: str, tmp_path: Path) -> None:
    op = declarations.table[name]
    ran = 0
    messages = []
    for inputs, params in samples(op):
        given = [core.from_numpy(x.copy()) if isinstance(x, np.ndarray) else x for x in inputs]
        if isinstance(op, Elementwise):
            results: Any = call_map(op, tuple(given), tuple(params.values()))
        else:
            results = call_operation(op, tuple(given), params)  # type: ignore[arg-type]
        wanted = [t.numpy() for t in (results if isinstance(results, tuple) else (results,))]
        arrays = [x for x in inputs if isinstance(x, np.ndarray)]
        if any(a.dtype.kind == "c" for a in (*arrays, *wanted)):
            continue
        try:
            program_of(op, inputs, params, wanted).to_onnx(tmp_path / "m.onnx")
        except ExportError as error:
            messages.append(str(error))
            continue
        s = session(tmp_path / "m.onnx")
        found = s.run(None, {i.name: a for i, a in zip(s.get_inputs(), arrays, strict=True)})
        for x, y in zip(found, wanted, strict=True):
            assert_close(x, y, 2e-5)
        ran += 1
    assert ran or name in SOME_FORMS_REFUSED
    assert not messages or name in SOME_FORMS_REFUSED
    assert all(name in said and "cell.py line 3" in said and "remedy" in said for said in messages)


@pytest.mark.parametrize(
    "name", ["expm1", "log1p", "hypot", "copysign", "atan2", "remainder", "floor_divide", "fmod", "trunc"]
)
def test_primitives_at_the_edges(name: str, tmp_path: Path) -> None:
    op = declarations.table[name]
    edges = np.array([0.0, -0.0, 1e-7, -1e-7, 1, -1, 2.5, -2.5, 80, -80, np.inf, -np.inf, np.nan, 1e30, 0.3,
                      -0.9999999], np.float32)  # fmt: skip
    inputs = [edges] if len(op.inputs) == 1 else [edges[:, None].repeat(16, 1), edges[None].repeat(16, 0)]
    if name in ("remainder", "floor_divide", "fmod"):  # where the quotient is a number that float32 holds
        inputs = [np.where(np.isfinite(x) & (np.abs(x) < 1e20), x, 3) for x in inputs]
        inputs[1] = np.where(np.abs(inputs[1]) < 1e-3, np.float32(0.7), inputs[1])
    wanted = [call_map(op, tuple(map(core.from_numpy, inputs)), ()).numpy()]  # type: ignore[arg-type]
    program_of(op, inputs, {}, wanted).to_onnx(tmp_path / "m.onnx")
    s = session(tmp_path / "m.onnx")
    (found,) = s.run(None, {i.name: a for i, a in zip(s.get_inputs(), inputs, strict=True)})
    assert np.array_equal(np.isnan(found), np.isnan(wanted[0]))
    np.testing.assert_allclose(found, wanted[0], rtol=1e-5, atol=1e-30)
    if name in ("copysign", "atan2"):
        numbers = ~np.isnan(found)
        assert np.array_equal(np.signbit(found[numbers]), np.signbit(wanted[0][numbers]))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int64", "int32", "bool"])
def test_dtypes(dtype: str, tmp_path: Path) -> None:
    def f(x: Any) -> Any:
        return (x + x, x * x, x.reshape(-1)[1:], x == x, core.cat([x, x]))

    x = (core.arange(12).reshape(3, 4) % 5).to(getattr(core, dtype))
    program = core.export(f, (x,), dynamic={"x": {0: "n"}})
    program.to_onnx(tmp_path / "m.onnx")
    model = onnx.load(tmp_path / "m.onnx")
    assert model.graph.input[0].type.tensor_type.elem_type == ELEMENTS[dtype]
    if dtype == "bfloat16":  # which ONNX Runtime has no kernels for on the CPU
        return
    again = core.cat([x, x])
    for a, b in zip(run_by_onnx(program, tmp_path / "m.onnx", (again,)), tensors(f(again)), strict=True):
        assert_close(a, b)


# -- control flow ------------------------------------------------------------------------------------------------------


def scalar(name: str) -> Value:
    return Value(name, "bool", ())


def node(op: str, inputs: Any, output: Value, **params: Any) -> Node:
    return Node(op, tuple(inputs), params, (output,), Line("loop.py", 1, ""))


def by_hand(nodes: list[Node], inputs: list[Value], outputs: list[Value]) -> Program:
    tree = Tree("tuple", None, tuple(Tree("tensor") for _ in inputs))
    return Program(
        "hand", inputs, {}, nodes, outputs, [], {"n": (0, 0)}, [], tree, Tree("tuple"), [v.name for v in inputs]
    )


def test_if_by_hand(tmp_path: Path) -> None:
    x, total, positive = Value("x", "float32", ("n",)), Value("total", "float32", ()), scalar("positive")
    a, b, y = (Value(n, "float32", ("n",)) for n in "aby")
    then = Block((), (node("mul", (x, 2), a),), (a,))
    other = Block((), (node("add", (x, total), b),), (b,))
    program = by_hand([node("sum", (x,), total, dim=(0,), keepdim=False), node("gt", (total, 0), positive),
                       Node("if", (positive,), {}, (y,), None, (then, other))], [x], [y])  # fmt: skip
    program.to_onnx(tmp_path / "m.onnx")
    assert "If" in [n.op_type for n in onnx.load(tmp_path / "m.onnx").graph.node]
    for values in ([1.0, 2.0, 3.0], [-1.0, -5.0]):
        (found,) = session(tmp_path / "m.onnx").run(None, {"x": np.array(values, np.float32)})
        given = np.array(values, np.float32)
        assert_close(found, given * 2 if given.sum() > 0 else given + given.sum())


def test_if_that_gives_what_stands_around_it(tmp_path: Path) -> None:
    x, y, positive = Value("x", "float32", ("n",)), Value("y", "float32", ("n",)), Value("flag", "bool", ())
    minus = Value("minus", "float32", ("n",))
    program = by_hand([Node("if", (positive,), {}, (y,), None, (Block((), (), (x,)),
                                                                Block((), (node("neg", (x,), minus),), (minus,))))],
                      [x, positive], [y])  # fmt: skip
    program.to_onnx(tmp_path / "m.onnx")
    s = session(tmp_path / "m.onnx")
    for flag in (True, False):
        (found,) = s.run(None, {"x": np.ones(2, np.float32), "flag": np.array(flag)})
        assert_close(found, np.full(2, 1.0 if flag else -1.0, np.float32))


def test_while_by_hand(tmp_path: Path) -> None:
    """The loop doubles x until its sum passes a bound, counts the turns, and holds a branch."""
    x, bound = Value("x", "float32", ("n",)), Value("bound", "float32", ())
    start, k, last, turns = (Value(n, "int64", ()) for n in ("start", "k", "last", "turns"))
    u, v, twice, y = (Value(n, "float32", ("n",)) for n in ("u", "v", "twice", "y"))
    total, goes, odd, left = Value("total", "float32", ()), scalar("goes"), scalar("odd"), Value("left", "int64", ())
    plus, chosen, k2 = Value("plus", "float32", ("n",)), Value("chosen", "float32", ("n",)), Value("k2", "int64", ())
    test = Block(
        (u, k2), (node("sum", (u,), total, dim=(0,), keepdim=False), node("lt", (total, bound), goes)), (goes,)
    )
    branch = Node("if", (odd,), {}, (chosen,), None,
                  (Block((), (node("add", (twice, 1), plus),), (plus,)), Block((), (), (twice,))))  # fmt: skip
    inside = (node("mul", (v, 2), twice), node("remainder", (k, 2), left), node("eq", (left, 1), odd), branch,
              node("add", (k, 1), last))  # fmt: skip
    body = Block((v, k), inside, (chosen, last))
    loop = Node("while", (x, start), {}, (y, turns), None, (test, body))
    program = by_hand([node("full", (), start, shape=(), value=0, dtype="int64"), loop], [x, bound], [y, turns])
    program.to_onnx(tmp_path / "m.onnx")
    s = session(tmp_path / "m.onnx")
    for n, most in ((2, 100.0), (5, 7.0), (3, 0.0)):
        given = np.linspace(0.5, 1.5, n).astype(np.float32)
        found, count = s.run(None, {"x": given, "bound": np.array(most, np.float32)})
        wanted, k_ = given, 0
        while wanted.sum() < most:
            wanted, k_ = wanted * 2 + k_ % 2, k_ + 1
        assert_close(found, wanted)
        assert count == k_


# -- what the model says -----------------------------------------------------------------------------------------------


def test_names_sizes_and_lines(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
    program = core.export(model, (core.rand(5, 4),), dynamic={"input": {0: "batch"}})
    program.to_onnx(tmp_path / "m.onnx")
    proto = onnx.load(tmp_path / "m.onnx")
    assert {i.name for i in proto.graph.initializer} == {"0.weight", "0.bias"}
    shape = [d.dim_param or d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim]
    assert shape == ["batch", 4]
    assert [d.dim_param or d.dim_value for d in proto.graph.output[0].type.tensor_type.shape.dim] == ["batch", 3]
    assert {p.key: p.value for p in proto.metadata_props}["source"] == "Sequential"
    assert proto.opset_import[0].version == 18

    def f(x: Any) -> Any:
        return x.tanh()

    core.export(f, (core.rand(3),)).to_onnx(tmp_path / "f.onnx")
    (said,) = {n.doc_string for n in onnx.load(tmp_path / "f.onnx").graph.node if n.op_type == "Tanh"}
    assert "test_onnx.py" in said
    assert "x.tanh()" in said
    assert "/" not in said.split(" ")[0]


def test_updates_are_outputs(tmp_path: Path) -> None:
    norm = nn.BatchNorm1d(3)
    program = core.export(norm, (core.rand(5, 3),), dynamic={"input": {0: "batch"}})
    program.to_onnx(tmp_path / "m.onnx")
    proto = onnx.load(tmp_path / "m.onnx")
    said = json.loads({p.key: p.value for p in proto.metadata_props}["updates"])
    assert said["running_mean"] == "running_mean.next"
    x = core.rand(9, 3)
    found = dict(
        zip([o.name for o in proto.graph.output], run_by_onnx(program, tmp_path / "m.onnx", (x,)), strict=True)
    )
    norm(x)
    assert_close(found["running_mean.next"], norm.running_mean.numpy())
    assert_close(found["running_var.next"], norm.running_var.numpy())
    assert found["num_batches_tracked.next"] == 1


def test_a_training_step(tmp_path: Path) -> None:
    core.manual_seed(0)
    model = nn.Sequential(nn.Embedding(10, 8), nn.Flatten(), nn.Linear(24, 16), nn.GELU(), nn.Linear(16, 5))
    optimizer = core.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    x, y = core.randint(0, 10, (4, 3)), core.randint(0, 5, (4,))
    step(x, y)  # the optimizer has its state
    program = core.export(step, (x, y), dynamic={"x": {0: "batch"}, "y": {0: "batch"}})
    program.to_onnx(tmp_path / "m.onnx")
    x, y = core.randint(0, 10, (7, 3)), core.randint(0, 5, (7,))
    found = run_by_onnx(program, tmp_path / "m.onnx", (x, y))
    wanted = program(x, y)
    assert_close(found[0], wanted.detach().numpy())
    for (old, _), array in zip(program.updates, found[1:], strict=True):
        assert_close(array, program.state[old.name][1])


def test_a_guard_is_checked_by_the_model(tmp_path: Path) -> None:
    def f(x: Any) -> Any:
        return x * 2 if x.shape[0] < 50 else x

    program = core.export(f, (core.rand(3),), dynamic={"x": {0: "n"}})
    assert program.guards
    program.to_onnx(tmp_path / "m.onnx")
    assert_close(run_by_onnx(program, tmp_path / "m.onnx", (core.ones(49),))[0], np.full(49, 2, np.float32))
    with pytest.raises(Exception, match="needed: n < 50"):
        session(tmp_path / "m.onnx").run(None, {"x": np.ones(60, np.float32)})


def test_sizes_that_have_to_be_equal_are_checked(tmp_path: Path) -> None:
    program = core.export(lambda x, y: x + y, (core.rand(3), core.rand(3)), dynamic={"x": {0: "n"}, "y": {0: "n"}})
    program.to_onnx(tmp_path / "m.onnx")
    with pytest.raises(Exception, match="needed"):  # 1 and 4 would broadcast
        session(tmp_path / "m.onnx").run(None, {"x": np.ones(4, np.float32), "y": np.ones(1, np.float32)})


def test_an_input_that_is_returned_and_a_result_given_twice(tmp_path: Path) -> None:
    program = core.export(lambda x: (x, x.exp(), x.exp()), (core.rand(3),))
    program.to_onnx(tmp_path / "m.onnx")
    x = core.rand(3)
    for a, b in zip(run_by_onnx(program, tmp_path / "m.onnx", (x,)), (x, x.exp(), x.exp()), strict=True):
        assert_close(a, b.numpy())


def test_what_onnx_cannot_say_is_refused_with_its_line(tmp_path: Path) -> None:
    program = core.export(lambda x: core.linalg.inv(x @ x.t() + core.full((3, 3), 0.5)).sum(), (core.rand(3, 3),))
    with pytest.raises(ExportError, match=r"test_onnx\.py line \d+ (.|\n)*inv(.|\n)*remedy"):
        program.to_onnx(tmp_path / "m.onnx")
    assert not (tmp_path / "m.onnx").exists()
    program = core.export(lambda x: core.fft.rfft(x).abs(), (core.rand(4),))
    groups = core.export(lambda x, w: core.nn.functional.conv1d(x.reshape(1, -1, 8), w, groups=x.shape[0]),
                         (core.ones(2, 3, 8), core.ones(2, 3, 3)), dynamic={"x": {0: "n"}, "w": {0: "n"}})  # fmt: skip
    with pytest.raises(ExportError, match=r"test_onnx\.py line \d+ .*`group` of ONNX's Conv depends on the sizes"):
        groups.to_onnx(tmp_path / "m.onnx")
    with pytest.raises(ExportError, match="remedy"):
        program.to_onnx(tmp_path / "m.onnx")


def test_an_older_opset_is_refused(tmp_path: Path) -> None:
    from core.export.onnx_writer import to_onnx

    program = core.export(nn.ReLU(), (core.rand(3),))
    with pytest.raises(ValueError, match="opset 18"):
        to_onnx(program, tmp_path / "m.onnx", opset=13)
    to_onnx(program, tmp_path / "m.onnx", opset=21)
    assert math.isclose(onnx.load(tmp_path / "m.onnx").opset_import[0].version, 21)


def test_without_the_package_the_error_names_the_remedy() -> None:
    program = (
        "import sys; sys.modules['onnx'] = None\n"
        "import core\n"
        "program = core.export(core.nn.ReLU(), (core.ones(2),))\n"
        "for call in (lambda: program.to_onnx('m'), lambda: core.onnx.load('m')):\n"
        "    try: call()\n"
        "    except ImportError as e: print(e)\n"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said.count("pip install 'gradlab[onnx]'") == 2
