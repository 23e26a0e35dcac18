"""`core.onnx.load`: models run, train, and are refused with the reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import core
from core.onnx import OnnxError, load
from core.onnx.table import ROWS, Call
from tests.core.export import onnx_nodes
from tests.core.export.models import CASES

onnx = pytest.importorskip("onnx")
nn = core.nn
FLOAT, INT64 = 1, 7


def model(nodes: Any, inputs: Any, outputs: Any, held: Any = (), opset: int = 18, ir: int = 9) -> Any:
    """Return a model; inputs and outputs are (name, element type, shape), `held` arrays by name."""
    helper = onnx.helper
    info = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [info(*i) for i in inputs], [info(*o) for o in outputs],
                              [onnx.numpy_helper.from_array(a, n) for n, a in dict(held).items()])  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir)


def loaded(*args: Any, **kwargs: Any) -> Any:
    return load(model(*args, **kwargs).SerializeToString())


def one(op: str, inputs: int, opset: int, **attributes: Any) -> Any:
    """Return the module of one node with inputs x0, x1, ..."""
    names = [f"x{k}" for k in range(inputs)]
    node = onnx.helper.make_node(op, names, ["y"], **attributes)
    return loaded([node], [(n, FLOAT, None) for n in names], [("y", FLOAT, None)], opset=opset)


# -- what a model is ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(CASES))
def test_what_was_exported_comes_back(name: str, tmp_path: Path) -> None:
    function, args, dynamic = CASES[name]()
    program = core.export(function, args(3), dynamic=dynamic)
    program.to_onnx(tmp_path / "m.onnx")
    module = load(tmp_path / "m.onnx")
    given = program.flat(args(7), lambda x: isinstance(x, core.Tensor))
    with core.no_grad():
        found, wanted = module(*given), program(*args(7))
    found = found if isinstance(found, tuple) else (found,)
    flat: list[Any] = []
    core.export.ir.tree_of(wanted, lambda x: isinstance(x, core.Tensor), flat)
    for a, b in zip(found, flat, strict=False):
        assert a.dtype == b.dtype
        assert core.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)


def test_initializers_train_and_have_their_names(tmp_path: Path) -> None:
    core.manual_seed(0)
    original = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.BatchNorm1d(8), nn.Linear(8, 1)).eval()
    core.export(original, (core.rand(3, 4),), dynamic={"input": {0: "n"}}).to_onnx(tmp_path / "m.onnx")
    module = load(tmp_path / "m.onnx")
    assert {n for n, _ in module.named_parameters()} == {n for n, _ in original.named_parameters()}
    assert {"2.running_mean", "2.running_var"} <= {n for n, _ in module.named_buffers()}
    x, y = core.rand(16, 4), core.rand(16, 1)
    optimizer = core.optim.Adam(module.parameters(), lr=0.05)
    losses = []
    for _ in range(200):
        optimizer.zero_grad()
        loss = ((module(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    assert losses[-1] < 0.3 * losses[0]
    original.load_state_dict(module.state_dict(), strict=False)
    assert core.allclose(original(x), module(x), atol=1e-5)


def test_gradients_are_those_of_the_original(tmp_path: Path) -> None:
    original = nn.Sequential(nn.Conv2d(1, 4, 3), nn.GELU(), nn.Flatten(), nn.LayerNorm(64), nn.Linear(64, 3))
    core.export(original, (core.rand(2, 1, 6, 6),)).to_onnx(tmp_path / "m.onnx")
    module = load(tmp_path / "m.onnx")
    x = core.rand(2, 1, 6, 6)
    module(x).sum().backward()
    original(x).sum().backward()
    mine = dict(module.named_parameters())
    for name, p in original.named_parameters():
        assert core.allclose(mine[name].grad, p.grad, rtol=1e-4, atol=1e-5)


def test_a_loaded_model_is_exported_again(tmp_path: Path) -> None:
    core.export(nn.Linear(4, 2), (core.rand(3, 4),), dynamic={"input": {0: "n"}}).to_onnx(tmp_path / "m.onnx")
    module = load(tmp_path / "m.onnx")
    program = core.export(lambda x: module(x), (core.rand(3, 4),), dynamic={"x": {0: "n"}})
    x = core.rand(9, 4)
    assert core.allclose(program(x), module(x), atol=1e-6)


def test_inputs_in_order_and_by_name() -> None:
    node = onnx.helper.make_node("Sub", ["a", "b"], ["y"])
    module = loaded([node], [("a", FLOAT, [2]), ("b", FLOAT, [2])], [("y", FLOAT, [2])])
    a, b = core.tensor([3.0, 4.0]), core.tensor([1.0, 1.0])
    for found in (module(a, b), module(b=b, a=a), module(a, b=b)):
        assert found.tolist() == [2.0, 3.0]
    for args, named in (((a,), {}), ((a, b, a), {}), ((a, b), {"c": a})):
        with pytest.raises(TypeError, match="needed: a, b"):
            module(*args, **named)


def test_functions_of_the_model_are_called() -> None:
    helper = onnx.helper
    scale = helper.make_node("Elu", ["v"], ["w"])
    reference = onnx.AttributeProto()
    reference.name, reference.ref_attr_name, reference.type = "alpha", "slope", onnx.AttributeProto.FLOAT
    scale.attribute.append(reference)
    function = helper.make_function("mine", "Bend", ["v"], ["w"], [scale], [helper.make_opsetid("", 18)], ["slope"])
    proto = model([helper.make_node("Bend", ["x"], ["y"], domain="mine", slope=3.0)], [("x", FLOAT, [2])],
                  [("y", FLOAT, [2])])  # fmt: skip
    proto.functions.append(function)
    proto.opset_import.append(helper.make_opsetid("mine", 1))
    found = load(proto.SerializeToString())(core.tensor([1.0, -50.0]))
    assert found.tolist() == [1.0, -3.0]


# -- opsets ------------------------------------------------------------------------------------------------------------


def test_softmax_before_13_is_over_all_later_axes() -> None:
    x = core.rand(2, 3, 4)
    old = one("Softmax", 1, 11, axis=1)(x)
    assert core.allclose(old.sum((1, 2)), core.ones(2))
    assert core.allclose(one("Softmax", 1, 13, axis=1)(x), x.softmax(1))


def test_axes_as_attributes_and_as_inputs() -> None:
    x = core.rand(1, 3, 1)
    assert one("Squeeze", 1, 11, axes=[0])(x).shape == (3, 1)
    assert one("Unsqueeze", 1, 11, axes=[0, -1])(x).shape == (1, 1, 3, 1, 1)
    assert one("Squeeze", 2, 13)(x, core.tensor([2])).shape == (1, 3)
    assert one("ReduceSum", 1, 11, axes=[1], keepdims=0)(x).shape == (1, 1)
    assert one("ReduceMax", 2, 18)(x, core.tensor([1])).shape == (1, 1, 1)


def test_bounds_as_attributes_and_as_inputs() -> None:
    x = core.tensor([-2.0, 0.5, 3.0])
    assert one("Clip", 1, 6 + 1, min=-1.0, max=1.0)(x).tolist() == [-1.0, 0.5, 1.0]
    assert one("Clip", 2, 13)(x, core.tensor(0.0)).tolist() == [0.0, 0.5, 3.0]
    assert one("Slice", 1, 9, starts=[1], ends=[9], axes=[0])(x).tolist() == [0.5, 3.0]
    assert one("Pad", 1, 10, pads=[1, 1], value=7.0)(x).tolist() == [7.0, -2.0, 0.5, 3.0, 7.0]
    assert one("Dropout", 1, 10, ratio=0.9)(x).tolist() == x.tolist()
    assert one("Upsample", 2, 9)(x[None, None], core.tensor([1.0, 1.0, 2.0])).tolist() == [[[-2, -2, 0.5, 0.5, 3, 3]]]
    assert one("TopK", 1, 9, k=1)(x).tolist() == [3.0]
    held = {n: np.full(1, v, np.float32) for n, v in (("s", 2), ("b", 1), ("m", 0), ("v", 1))}
    node = onnx.helper.make_node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"], epsilon=0.0)
    for opset in (7, 9, 15):
        module = loaded([node], [("x", FLOAT, None)], [("y", FLOAT, None)], held, opset)
        assert module(core.ones(1, 1)).tolist() == [[3.0]]


def test_resize_of_opset_10_has_no_region() -> None:
    x = core.tensor([[[1.0, 2.0]]])
    assert one("Resize", 2, 10)(x, core.tensor([1.0, 1.0, 2.0])).tolist() == [[[1, 1, 2, 2]]]


def test_an_opset_before_7_is_read_where_nothing_changed() -> None:
    assert one("Relu", 1, 6)(core.tensor([-1.0, 2.0])).tolist() == [0.0, 2.0]
    with pytest.raises(OnnxError, match="opset 6"):
        one("Add", 2, 6)


# -- refusals ----------------------------------------------------------------------------------------------------------


def test_every_op_without_a_row_is_named() -> None:
    nodes = [onnx.helper.make_node("Foo", ["x"], ["a"]), onnx.helper.make_node("Bar", ["a"], ["y"], domain="their")]
    with pytest.raises(OnnxError, match=r"2 of the model's ops(.|\n)*Foo; their\.Bar"):
        loaded(nodes, [("x", FLOAT, [1])], [("y", FLOAT, [1])])


def test_an_attribute_that_a_row_does_not_know_is_named() -> None:
    with pytest.raises(OnnxError, match="Gelu with the attribute strange"):
        one("Gelu", 1, 20, strange=1)


def test_a_row_is_added() -> None:
    @core.onnx.row("Doubled")
    def doubled(call: Call, x: Any, times: int = 1) -> Any:
        return x * 2**times

    try:
        node = onnx.helper.make_node("Doubled", ["x"], ["y"], times=3)
        assert loaded([node], [("x", FLOAT, [1])], [("y", FLOAT, [1])])(core.ones(1)).item() == 8
    finally:
        del ROWS["Doubled"]


def test_a_node_that_fails_is_named() -> None:
    node = onnx.helper.make_node("ConvTranspose", ["x", "w"], ["y"], name="up")
    module = loaded([node], [("x", 12, [1]), ("w", 12, [1])], [("y", 12, [1])])
    with pytest.raises(OnnxError, match=r"'up'(.|\n)*uint32"):
        module(np.ones(1, np.uint32), np.ones(1, np.uint32))


@pytest.mark.parametrize(
    "place", ["../secret.bin", "/etc/passwd", "a/../../secret.bin", "", "..\\secret.bin", "link/secret.bin"]
)
def test_external_data_outside_of_the_folder_is_refused(place: str, tmp_path: Path) -> None:
    (tmp_path / "secret.bin").write_bytes(np.ones(4, np.float32).tobytes())
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path)
    with pytest.raises(OnnxError, match="outside of the model's folder"):
        load(_with_external(folder, place, 4))


def _with_external(folder: Path, place: str, count: int, **more: str) -> Path:
    proto = model([onnx.helper.make_node("Add", ["x", "w"], ["y"])], [("x", FLOAT, [count])], [("y", FLOAT, [count])])
    held = proto.graph.initializer.add()
    held.name, held.data_type, held.data_location = "w", FLOAT, 1
    held.dims.append(count)
    for key, value in {"location": place, **more}.items():
        held.external_data.add(key=key, value=value)
    (folder / "m.onnx").write_bytes(proto.SerializeToString())
    return folder / "m.onnx"


def test_external_data_beside_the_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(np.arange(6, dtype=np.float32).tobytes())
    path = _with_external(tmp_path, "w.bin", 4, offset="8", length="16")
    assert load(path)(core.zeros(4)).tolist() == [2, 3, 4, 5]
    with pytest.raises(OnnxError, match="beyond the end"):
        load(_with_external(tmp_path, "w.bin", 4, offset="16", length="16"))
    with pytest.raises(OnnxError, match="holds 24 bytes"):
        load(_with_external(tmp_path, "w.bin", 4))
    with pytest.raises(OnnxError, match="came as bytes"):
        load(_with_external(tmp_path, "w.bin", 4).read_bytes())
    with pytest.raises(OnnxError, match="cannot be read"):
        load(_with_external(tmp_path, "none.bin", 4))


def test_sizes_are_those_that_the_file_holds() -> None:
    proto = model([onnx.helper.make_node("Add", ["x", "w"], ["y"])], [("x", FLOAT, [1])], [("y", FLOAT, [1])])
    held = proto.graph.initializer.add()
    held.name, held.data_type = "w", FLOAT
    held.dims.extend([1 << 40, 1 << 20])
    for fill in (b"", b"\0" * 64):
        held.raw_data = fill
        with pytest.raises(OnnxError, match="holds"):
            load(proto.SerializeToString())
    held.ClearField("raw_data")
    held.float_data.extend([1.0] * 8)
    with pytest.raises(OnnxError, match="holds 8 numbers"):
        load(proto.SerializeToString())
    del held.dims[:]
    held.dims.extend([-8])
    with pytest.raises(OnnxError, match="negative"):
        load(proto.SerializeToString())


@pytest.mark.parametrize("bytes_", [b"", b"\x80\x04K\x01.", b"not a model at all", bytes(range(256))])
def test_what_is_no_model_is_refused(bytes_: bytes, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(bytes_)
    with pytest.raises(OnnxError, match="no ONNX model"):
        load(tmp_path / "m.onnx")


# -- ONNX's own tests --------------------------------------------------------------------------------------------------


def test_onnx_node_tests() -> None:
    """A sixth of ONNX's own tests; what may fail is listed in onnx_nodes with its reason."""
    every = [c for c in onnx_nodes.cases() if onnx_nodes.of_tensors(c)]
    assert len(every) > 1000
    failed = [o for o in onnx_nodes.outcomes(every[::6]) if o.reason]
    unknown = [o for o in failed if not onnx_nodes.excused(o)]
    assert not unknown, "\n".join(f"{o.name}: {o.reason}" for o in unknown)
    assert len(failed) < 0.1 * len(every[::6])
