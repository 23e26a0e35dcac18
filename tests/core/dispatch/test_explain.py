"""`explain` says what dispatch does: for every op, kind and device the kernel it names is the one that runs."""

from __future__ import annotations

import numpy as np
import pytest

import core
from core.declare.op import Elementwise, Operation, table
from core.events import observe


class Kernels(observe.Observer):
    def __init__(self) -> None:
        self.ran: list[tuple[str, str]] = []

    def op(self, event):
        self.ran.append((event.kernel, event.backend))


def ran(function, *args, **params) -> list[tuple[str, str]]:
    watch = Kernels()
    with observe.observing(watch):
        function(*args, **params)
    return watch.ran


DTYPES = [core.float32, core.float64, core.float16, core.bfloat16, core.int64, core.bool]
MAPS = ["add", "sub", "mul", "div", "pow", "maximum", "lt", "eq", "logical_and"]
UNARY = ["exp", "tanh", "neg", "abs", "square", "sqrt", "isnan", "sigmoid", "erf"]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", MAPS + UNARY)
def test_maps(name, dtype, device):
    x = core.ones(3, dtype=dtype, device=device)
    args = (x, x) if name in MAPS else (x,)
    said = core.explain(name, *args)
    if dtype is core.bool and name in ("sub", "neg"):
        with pytest.raises(RuntimeError, match="not implemented for 'Bool'"):
            getattr(core, name)(*args)
    else:
        assert said.runs[:2] == ran(getattr(core, name), *args)[-1]


STRUCTURED = [
    ("sum", ((4, 5),), {}),
    ("sum", ((4, 5),), {"dim": 1, "keepdim": True}),
    ("mean", ((4, 5),), {"dim": 0}),
    ("amax", ((4, 5),), {"dim": 0}),
    ("argmax", ((4, 5),), {}),
    ("softmax", ((4, 5),), {"dim": 1}),
    ("log_softmax", ((4, 5),), {"dim": 0}),
    ("matmul", ((4, 5), (5, 3)), {}),
    ("linear", ((4, 5), (3, 5)), {}),
    ("layer_norm", ((4, 5),), {"normalized_shape": (5,)}),
    ("permute", ((4, 5),), {"dims": (1, 0)}),
    ("clone", ((4, 5),), {}),
]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("dtype", [core.float32, core.float64, core.float16], ids=str)
@pytest.mark.parametrize(("name", "shapes", "params"), STRUCTURED)
def test_structured_ops(name, shapes, params, dtype, device, rng):
    args = [core.tensor(rng.uniform(-1, 1, s)).to(dtype).to(device) for s in shapes]
    function = core.declare.op.functions[name]
    said = core.explain(name, *args, **params)
    assert said.runs[:2] in ran(function, *args, **params)


@pytest.mark.parametrize("name", ["sum", "softmax", "layer_norm"])
def test_layouts_do_not_mislead(name):
    x = core.ones(4, 5).t()[::2]
    params = {"sum": {"dim": 0}, "softmax": {"dim": 0}, "layer_norm": {"normalized_shape": (4,)}}[name]
    assert core.explain(name, x, **params).runs[:2] == ran(core.declare.op.functions[name], x, **params)[-1]


def test_public_names():
    x = core.ones(3)
    said = {
        "div": core.explain("div", x, 2),
        "pow": core.explain("pow", x, 2),
        "pow 3": core.explain("pow", x, 3),
        "pow 4": core.explain("pow", x, 4),
        "where": core.explain("where", x > 0, x, 0.0),
        "gelu": core.explain("gelu", x),
        "gelu tanh": core.explain("gelu", x, approximate="tanh"),
        "clamp": core.explain("clamp", x, 0, 1),
        "clamp, left open": core.explain("clamp", x),
        "softmax, left open": core.explain("softmax", x),
    }
    assert [e.runs.kernel.removesuffix("_f32") for e in said.values()] == [
        "true_divide", "square", "cube", "pow_scalar", "where", "gelu_erf", "gelu_tanh", "clip_between", "clip_between",
        "softmax_forward"]  # fmt: skip
    assert [e.op for e in said.values()] == [k.split()[0].rstrip(",") for k in said]


def test_the_sentences():
    said = str(core.explain("softmax", core.ones(2, 3)))
    assert said.splitlines()[0] == "softmax of float32 on cpu runs softmax_forward (C)"
    assert "softmax_reference (NumPy) accepts too, but stands later" in said
    said = core.explain("softmax", core.ones(2, 3, dtype=core.int64))
    assert said.runs == ("softmax_reference", "NumPy", None)
    assert "softmax_forward (C) declined: takes float32 and float64, got int64" in str(said)
    said = core.explain("softmax", core.ones(2, 3, device="cuda"))
    assert said.runs.backend == "Triton"
    said = core.explain("tanh", core.ones(3, dtype=core.float16))
    assert said.runs[:2] == ("tanh_f16", "C")
    assert core.explain("abs", core.ones(3, dtype=core.int64)).runs[:2] == ("abs_i64", "C")
    said = core.explain("abs", core.ones(3, dtype=core.int32))
    assert said.runs.backend == "NumPy"
    assert "takes float32, float64 and int64, got int32" in said.candidates[0].reason
    assert "no C kernel is written for this op" in str(core.explain("geqrf", core.eye(3)))
    assert repr(said) == str(said)


def test_nothing_is_computed(monkeypatch):
    def fail(*args, **params):
        raise AssertionError("computed")

    for name in ("exp", "matmul"):
        op = table[name]
        if isinstance(op, Operation):
            monkeypatch.setattr(op, "forward", fail)
        else:
            x = core.ones(2)
            core.exp(x)
            monkeypatch.setitem(op.kernels, x._kind, core.backends.Kernel(fail, "", ""))
    core.explain("exp", core.ones(2))
    core.explain("matmul", core.ones(2, 2), core.ones(2, 2))
    assert observe.observers == ()
    assert core.is_grad_enabled()


def test_promotion_is_part_of_it():
    said = core.explain("mul", core.ones(2), core.ones(2, dtype=core.float64))
    assert said.kind == "float64 on cpu"
    assert core.explain("div", core.ones(2, dtype=core.int64), 2).kind == "float32 on cpu"
    assert core.explain("add", core.ones(2, device="cuda"), 1).kind == "float32 on cuda:0"


def test_what_cannot_be_explained():
    with pytest.raises(ValueError, match="no op named 'sofmax'; did you mean softmax"):
        core.explain("sofmax", core.ones(2))
    with pytest.raises(RuntimeError, match="same device"):
        core.explain("add", core.ones(2), core.ones(2, device="cuda"))
    with pytest.raises(TypeError):
        core.explain("softmax")
    with pytest.raises(TypeError):
        core.explain("tanh", "x")


def test_a_kernel_printed_from_an_older_text_declines():
    if core.native.module is None:
        pytest.skip("no extension")
    program = table["tanh"].program
    kind = core.ones(1)._kind
    changed = program._replace(statements=(program.statements[0]._replace(op="sinh"),))
    assert "changed after the extension was built" in core.backends.cpu.map(changed, kind)
    unknown = program._replace(name="not_there")
    assert "declared after the extension was built" in core.backends.cpu.map(unknown, kind)


def test_every_declared_map_is_in_the_extension_as_declared():
    if core.native.module is None:
        pytest.skip("no extension")
    kind = core.ones(1)._kind
    for op in table.values():
        if isinstance(op, Elementwise) and core.base.source.is_ours(op.function.__code__.co_filename):
            for program in op.programs:
                where = kind.boolean if program.kinds and set(program.kinds) == {"bool"} else kind
                found = core.backends.cpu.map(program, where)
                assert not isinstance(found, str), (program.name, found)


def test_half_numbers_agree_between_backends():
    x = np.array([1e-3, 2.0], np.float16)
    for device in ("cpu", "cuda"):
        y = core.tensor(x, device=device) * 1e5
        np.testing.assert_allclose(y.tolist()[0], 100, rtol=1e-2)


def test_a_function_in_place_of_its_name_and_what_is_neither() -> None:
    x = core.ones(3, 3)
    assert str(core.explain(core.softmax, x, 1)) == str(core.explain("softmax", x, 1))
    with pytest.raises(TypeError, match="the name of an op is a str or its function, not int"):
        core.explain(3, x)
    with pytest.raises(TypeError, match=r"explain\('add', ...\) needs a Tensor among the op's inputs: "):
        core.explain("add")
