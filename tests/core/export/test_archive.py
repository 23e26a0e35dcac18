"""Programs in files: what comes back, and what a hostile file gives."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import core
from core.base.errors import LoadError
from core.declare import op as declarations
from core.declare.op import Operation
from core.export import ExportError
from core.export.described import PROGRAM, STATE, TEXT, described
from core.export.to_numpy import numpy_text

from . import mutated
from .more_models import MODELS
from .test_numpy import arrays, same


@pytest.fixture(autouse=True)
def seeded():
    core.manual_seed(5)


@pytest.mark.parametrize("name", MODELS)
def test_a_program_comes_back_as_it_was(name, tmp_path):
    function, args, dynamic = MODELS[name]()
    program = core.export(function, args(3), dynamic=dynamic, name=name)
    program.save(tmp_path / "program.gl")
    again = core.export.load(tmp_path / "program.gl")
    assert described(again) == described(program)
    assert again.name == name
    assert numpy_text_or_none(again) == numpy_text_or_none(program)
    in_one = any(node.op == "gradient" for node in program.nodes)  # in a file it is in ops
    for n in (6, 4, 4):
        given = args(n)
        copies = [mutated._copied(a) for a in given]
        same(arrays(again(*copies)), arrays(program(*given)), tolerance=1e-6 if in_one else 0)
    for (a, x), (b, y) in zip(again.state.values(), program.state.values(), strict=True):
        assert a.name == b.name
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-6 if in_one else 0)


def numpy_text_or_none(program):
    try:
        return numpy_text(program)
    except ExportError:
        return None


@pytest.mark.parametrize("function", [mutated.halves, mutated.sign])
def test_branches_and_loops_come_back(function, tmp_path):
    program = core.export(function, (core.tensor(40.0),))
    program.save(tmp_path / "program.gl")
    again = core.export.load(tmp_path / "program.gl")
    assert str(again).split("#")[0] == str(program).split("#")[0]
    for x in (0.5, 3.0, -2.0, 100.0):
        same(arrays(again(core.tensor(x))), arrays(function(core.tensor(x))), tolerance=0)


def test_gradients_flow_through_a_loaded_program(tmp_path):
    program = core.export(lambda x: (x**3).sum(), (core.ones(3),))
    program.save(tmp_path / "cube.gl")
    x = core.tensor([1.0, 2.0, -1.0], requires_grad=True)
    core.export.load(tmp_path / "cube.gl")(x).backward()
    assert x.grad.tolist() == [3.0, 12.0, 3.0]


def test_a_file_has_its_text_and_no_folder_of_the_machine(tmp_path):
    program = core.export(core.nn.Linear(3, 2), (core.ones(4, 3),), dynamic={"input": {0: "batch"}})
    program.save(tmp_path / "linear.gl")
    with zipfile.ZipFile(tmp_path / "linear.gl") as archive:
        assert archive.namelist() == [PROGRAM, TEXT, STATE]
        assert archive.testzip() is None
        assert archive.read(TEXT).decode() == str(program)
        assert b"/" not in archive.read(PROGRAM)
    weights = core.load(io.BytesIO(mutated.records((tmp_path / "linear.gl").read_bytes())[STATE]))
    assert set(weights) == {"weight", "bias"}


def test_odd_numbers_and_dtypes_come_back(tmp_path):
    kept = core.tensor([1 + 2j], dtype=core.complex128)

    def f(x):
        y = x.masked_fill(x > 1, float("-inf")).clamp(max=float("inf")) + float("nan")
        return y, (kept * 2).real, x.half(), x.bfloat16(), x.to(core.float64)

    program = core.export(f, (core.ones(2),))
    program.save(tmp_path / "odd.gl")
    again = core.export.load(tmp_path / "odd.gl")
    for a, b in zip(again(core.ones(2)), program(core.ones(2)), strict=True):
        assert a.dtype == b.dtype
        assert core.equal(a.float().nan_to_num(), b.float().nan_to_num())


def test_a_parameter_that_no_file_holds_is_refused_by_name(tmp_path):
    program = core.export(lambda x: x.transpose(0, 1), (core.ones(2, 3),))
    program.nodes[0].params["dim0"] = object()
    with pytest.raises(ExportError, match="the op transpose has a parameter that no file holds"):
        program.save(tmp_path / "x.gl")
    assert not list(tmp_path.iterdir())


# -- hostile files -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole():
    function, args, dynamic = MODELS["cnn"]()
    return mutated.packed(core.export(function, args(3), dynamic=dynamic, name="cnn"))


def changed(whole, change):
    """The file with its description changed."""
    found = mutated.records(whole)
    said = json.loads(found[PROGRAM])
    change(said)
    found[PROGRAM] = json.dumps(said).encode()
    return io.BytesIO(mutated.zipped(found))


def refused(whole, change, match):
    with pytest.raises(LoadError, match=match):
        core.export.load(changed(whole, change))


def node(said, op):
    return next(n for n in said["nodes"] if n["op"] == op)


@pytest.mark.parametrize(("change", "match"), [
    (lambda s: s.update(format="pickle"), "its format is 'pickle'"),
    (lambda s: s.update(version=2), "version 2, and this core reads version 1\n.*pip install"),
    (lambda s: s.update(name="../../evil"), "is no name in Python"),
    (lambda s: s.update(name='x"; import os'), "is no name in Python"),
    (lambda s: s.pop("guards"), "the program lacks 'guards'"),
    (lambda s: s.update(more=1), "the program has 'more'"),
    (lambda s: node(s, "conv").update(op="__import__"), "there is no op '__import__'"),
    (lambda s: node(s, "conv")["params"].update(code="x"), "has the parameter 'code', and it knows stride"),
    (lambda s: node(s, "conv")["params"].update(groups="many"), "has groups='many', where something like 1 is needed"),
    (lambda s: node(s, "conv")["inputs"].pop(), r"the op conv has 2 inputs that are not \(x, weight, bias\)"),
    (lambda s: node(s, "conv")["inputs"].__setitem__(0, {"value": "linear"}), "'linear', which no op before it gives"),
    (lambda s: node(s, "linear")["outputs"].__setitem__(0, dict(s["inputs"][0])), "the value 'x' is defined twice"),
    (lambda s: node(s, "linear")["outputs"][0].update(dtype="object"), "has the dtype 'object'"),
    (lambda s: node(s, "linear")["outputs"][0].update(shape=["lots", 10]), "has the size 'lots', which no input has"),
    (lambda s: node(s, "linear")["outputs"][0].update(shape=[-1]), r"has the shape \(-1\)"),
    (lambda s: node(s, "linear")["outputs"][0].update(shape=[["**", "batch", ["**", 9, 9]]]), "exponent is no number"),
    (lambda s: node(s, "linear")["outputs"][0].update(shape=[["**", ["**", "batch", 30], 30]]), "too high a power"),
    (lambda s: node(s, "linear")["outputs"][0].update(shape=[["exec", 1, 2]]), "has the operator 'exec'"),
    (lambda s: s["sizes"].update(batch=[3, 0]), "is of input 3, and there are 1"),
    (lambda s: s["sizes"].update(batch=[0, 9]), "is said to be axis 9"),
    (lambda s: s["outputs"].append("x"), "the result have 1 tensors, and the program 2"),
    (lambda s: s["updates"].append(["x", "linear"]), "cannot become"),
    (lambda s: s["state"].pop(), "has '.*', which the program does not use"),
    (lambda s: s["state"][0].update(shape=[2**40]), "of shape"),
    (lambda s: s["state"][0].update(name="none"), "lacks 'none'"),
    (lambda s: s.update(lines=[]), "is said to come from line 0 of 0"),
    (lambda s: s.update(arguments={"kind": "list", "parts": []}), "its arguments are not a tuple"),
    (lambda s: s["guards"].append({"comparison": "or", "left": 1, "right": 1, "truth": True, "line": None}),
     "compares by 'or'"),
    (lambda s: s["nodes"].append({"op": "put", "inputs": [{"value": "x"}, {"value": "x"}], "line": None, "outputs":
                                  [{"name": "y", "dtype": "float32", "shape": []}],
                                  "params": {"path": {"tuple": [{"tuple": ["linear", {"tuple": []}, None]}]}}}),
     "the op put is not written as it has to be"),
])  # fmt: skip
def test_a_description_that_is_wrong_is_refused_with_the_place(whole, change, match):
    refused(whole, change, match)


def test_what_stands_too_deep_is_refused(whole):
    def deep(said):
        formula = "batch"
        for _ in range(60):
            formula = ["+", formula, 1]
        node(said, "linear")["outputs"][0]["shape"] = [formula]

    refused(whole, deep, "has the formula")
    found = mutated.records(whole)
    found[PROGRAM] = b"[" * 1_000_000
    with pytest.raises(LoadError, match=r"program\.json cannot be read"):
        core.export.load(io.BytesIO(mutated.zipped(found)))
    found[PROGRAM] = b'{"format": ' + b"9" * 100_000 + b"}"
    with pytest.raises(LoadError, match=r"program\.json cannot be read"):
        core.export.load(io.BytesIO(mutated.zipped(found)))


def test_bombs_and_strange_archives_are_refused(whole):
    found = mutated.records(whole)
    with pytest.raises(LoadError, match="compressed"):
        core.export.load(io.BytesIO(mutated.zipped({**found, PROGRAM: bytes(100_000_000)}, zipfile.ZIP_DEFLATED)))
    with pytest.raises(LoadError, match="the records"):
        core.export.load(io.BytesIO(mutated.zipped({**found, "data.pkl": b"cos\nsystem\n"})))
    with pytest.raises(LoadError, match=r"64,000,000 are allowed"):
        core.export.load(io.BytesIO(mutated.zipped({**found, PROGRAM: bytes(64_000_001)})))
    with pytest.raises(LoadError, match="not those that were written"):
        core.export.load(io.BytesIO(whole.replace(b'"op":"conv"', b'"op":"relu"', 1)))
    for cut in range(0, len(whole), 997):
        with pytest.raises(LoadError):
            core.export.load(io.BytesIO(whole[:cut]))


def test_a_file_of_another_kind_is_refused_with_the_remedy(tmp_path):
    core.save({"w": core.ones(2)}, tmp_path / "w.safetensors")
    with pytest.raises(LoadError, match=r"no file of a program(.|\n)*core.load reads tensors(.|\n)*w.safetensors"):
        core.export.load(tmp_path / "w.safetensors")
    core.save({"w": core.ones(2)}, tmp_path / "w.pt")
    with pytest.raises(LoadError, match="the records"):
        core.export.load(tmp_path / "w.pt")
    with pytest.raises(FileNotFoundError):
        core.export.load(tmp_path / "none.gl")


def test_memory_is_not_taken_for_what_a_file_says(whole):
    import tracemalloc

    def large(said):
        said["state"][0]["shape"] = [2**40, 2**10]

    data = changed(whole, large)
    tracemalloc.start()
    try:
        with pytest.raises(LoadError):
            core.export.load(data)
        assert tracemalloc.get_traced_memory()[1] < 20 * len(whole) + 2_000_000
    finally:
        tracemalloc.stop()


def test_truth_values_are_zero_or_one():
    program = core.export(lambda x: x & core.tensor([True, False]), (core.tensor([True, True]),))
    found = mutated.records(mutated.packed(program))
    assert found[STATE].endswith(b"\x01\x00")
    found[STATE] = found[STATE][:-1] + b"\x07"
    with pytest.raises(LoadError, match="truth values"):
        core.export.load(io.BytesIO(mutated.zipped(found)))


def test_an_op_that_does_something_else_than_the_file_says_is_named(whole):
    x = core.randn(2, 3, 12, 12)
    program = core.export.load(changed(whole, lambda s: node(s, "conv")["outputs"][0].update(dtype="int8")))
    with pytest.raises(ExportError, match=r"the op conv of the program cnn gives something else(.|\n)*int8"):
        program(x)
    program = core.export.load(
        changed(whole, lambda s: node(s, "conv")["params"].update(padding={"tuple": [2**40, 1]}))
    )
    with pytest.raises(ExportError, match="op: conv"):
        program(x)


@pytest.mark.parametrize(
    "name", [n for n, op in declarations.table.items() if isinstance(op, Operation) and op.samples]
)
def test_what_the_ops_take_in_their_own_tests_is_not_refused(name):
    for whole, given in mutated.single(declarations.table[name]):
        core.export.load(io.BytesIO(whole))(*given)


@pytest.mark.parametrize(("op", "params", "match"), [
    ("repeat", {"sizes": {"tuple": [1, 2**39, 2**39]}}, "a result of"),
    ("repeat_interleave", {"repeats": 2**62}, "the number 4611686018427387904"),
    ("unfold", {"size": 100}, "size 100, of 4 elements"),
    ("as_strided", {"stride": {"tuple": [1000, 1]}}, "element 2006 of 24"),
    ("gru", {"sizes": {"tuple": [2, 2, 9]}}, "sequences for 5 rows|an input of shape|for 3 rows|for . rows"),
    ("conv", {"stride": {"tuple": [0]}}, "whole numbers of at least 1 are needed"),
    ("max_pool", {"out": {"tuple": [2, 900]}}, "900 windows of"),
    ("polygamma", {"n": 2**30}, "at most 10,000 is computed"),
])  # fmt: skip
def test_numbers_that_would_lead_out_of_memory_are_refused(op, params, match):
    whole, given = mutated.single(declarations.table[op])[0]
    program = core.export.load(changed(whole, lambda said: said["nodes"][0]["params"].update(params)))
    with pytest.raises(ExportError, match=match):
        program(*given)


def test_text_from_a_file_cannot_become_code(whole, tmp_path):
    """What a file says stands in texts and names of the Python file, where it has to stay text."""
    evil = 'x"""\nopen(\'stolen\', \'w\')\n"""{open("stolen", "w")}\\"'

    def change(said):
        said["lines"] = [["model.py", 3, f"\r\n{evil}\x85\u2028{evil}"] for _ in said["lines"]]
        said["nodes"][0]["outputs"][0]["name"] = evil.replace("\n", "").replace("\\", "")
        said["nodes"][1]["inputs"][0]["value"] = evil.replace("\n", "").replace("\\", "")

    program = core.export.load(changed(whole, change))
    path = program.numpy(tmp_path)
    namespace = {"__file__": path, "open": None}
    with open(path, encoding="utf-8") as file:
        exec(compile(file.read(), path, "exec"), namespace)
    assert namespace["run"](np.ones((2, 3, 12, 12), np.float32)).shape == (2, 10)
    assert not (tmp_path / "stolen").exists()


def test_files_with_faults_at_random_give_an_answer_or_a_clear_error():
    done = subprocess.run([sys.executable, "-m", "tests.core.export.mutated", "400", "--seed", "11"], timeout=300,
                          cwd=Path(__file__).parents[3], capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "400 cases, 0 wrong" in done.stdout
    assert "refused" in done.stdout
    assert "ran\n" in done.stdout
