"""Names that packages ask for and few programs call: older functions, ops by ATen's names, masked reductions, pipes."""

from __future__ import annotations

import json

import numpy as np
import pytest

import core
from core import masked
from core.base.absent import absent_class, absent_function, is_absent
from core.distributed.elastic import record
from core.utils.data import IterDataPipe, MapDataPipe, datapipes, functional_datapipe

X = core.tensor([[1.0, 2.0], [3.0, 5.0]])


def test_what_stands_for_an_absent_name_says_so():
    cls = absent_class("A", "core.x", "An A.", "do without")
    assert is_absent(cls)
    assert is_absent(absent_function("f", "core.x", "An f.", "do without"))
    assert not is_absent(type("B", (cls,), {}))
    assert not is_absent(core.ones)


def test_dtypes_and_schemes_that_are_names():
    assert (core.cfloat, core.cdouble, core.short) == (core.complex64, core.complex128, core.int16)
    assert core.uint4.itemsize == core.float8_e8m0fnu.itemsize == 1
    assert core.float4_e2m1fn_x2.is_floating_point
    with pytest.raises(RuntimeError, match=r"no tensors of core\.int4"):
        core.ones(2, dtype=core.int4)
    assert isinstance(core.per_channel_affine, core.qscheme)


@pytest.mark.parametrize(("given", "want"), [((1, 3), [1, 2, 3]), ((2,), [0, 1, 2]), ((1, 0, -0.5), [1, 0.5, 0])])
def test_range_has_its_end(given, want):
    assert core.range(*given).tolist() == want


def test_range_that_leads_nowhere_is_refused():
    with pytest.raises(RuntimeError, match="inconsistent with step"):
        core.range(1, 0)


def test_binomial_draws_within_its_counts():
    core.manual_seed(0)
    drawn = core.binomial(core.full((2000,), 10.0), core.full((2000,), 0.25))
    assert 0 <= drawn.min() <= drawn.max() <= 10
    assert abs(drawn.mean().item() - 2.5) < 0.15


def test_rounding_as_quantised_numbers_has_a_gradient_inside_of_the_range():
    x = core.tensor([0.26, 9.0], requires_grad=True)
    y = core.fake_quantize_per_tensor_affine(x, 0.5, 0, -2, 2)
    y.sum().backward()
    assert (y.tolist(), x.grad.tolist()) == ([0.5, 1.0], [1.0, 0.0])


def test_a_file_as_a_tensor(tmp_path):
    np.arange(3, dtype=np.float32).tofile(tmp_path / "x")
    x = core.from_file(str(tmp_path / "x"), shared=True, size=3)
    x[0] = 7.0
    assert np.fromfile(tmp_path / "x", np.float32).tolist() == [7.0, 1.0, 2.0]
    with pytest.raises(RuntimeError, match="CPU"):
        core.from_file(str(tmp_path / "x"), size=3, device="cuda")


@pytest.mark.parametrize("name", ["eig", "symeig", "matrix_rank"])
def test_functions_that_were_removed_name_what_took_their_place(name):
    with pytest.raises(RuntimeError, match=r"core\.linalg"):
        getattr(core, name)(X)


def test_modules_of_devices():
    assert core.get_device_module("cpu") is core.cpu
    with pytest.raises(RuntimeError, match="Device 'moon'"):
        core.get_device_module("moon")


@pytest.mark.parametrize(("call", "want"), [
    (lambda o: list(o.aten.sym_size(X)), [2, 2]),
    (lambda o: o.aten.alias(X).tolist(), X.tolist()),
    (lambda o: o.aten.slice_copy(X, 1, 1).tolist(), [[2.0], [5.0]]),
    (lambda o: o.aten.constant_pad_nd(X, [1, 0], 9.0).tolist(), [[9.0, 1.0, 2.0], [9.0, 3.0, 5.0]]),
    (lambda o: o.aten.threshold_backward(X, X, 2.0).tolist(), [[0.0, 0.0], [3.0, 5.0]]),
    (lambda o: o.aten.full([2], 3.0).tolist(), [3.0, 3.0]),
    (lambda o: o.prims.convert_element_type(X, core.int64).tolist(), [[1, 2], [3, 5]]),
    (lambda o: [v.item() for v in o.quantized_decomposed.choose_qparams(X, 0, 255, 1e-6, core.uint8)], [5 / 255, 0]),
    (lambda o: o.higher_order.scan(lambda c, x: [c + x, c * 1], [core.zeros(2)], [X])[1].tolist(),
     [[0.0, 0.0], [1.0, 2.0]]),
    (lambda o: o.higher_order.map_impl(lambda x: x + 1, [X]).tolist(), [[2.0, 3.0], [4.0, 6.0]]),
])  # fmt: skip
def test_ops_by_name(call, want):
    assert call(core.ops) == pytest.approx(want) if isinstance(want[0], float) else call(core.ops) == want


def test_gradients_by_atens_names_are_those_of_the_layers():
    x, w = core.rand(1, 2, 5, 5), core.rand(3, 2, 3, 3)
    leaves = [x.clone().requires_grad_(), w.clone().requires_grad_()]
    y = core.nn.functional.conv2d(*leaves)
    y.sum().backward()
    found = core.ops.aten.convolution_backward(core.ones_like(y), x, w, [3], [1, 1], [0, 0], [1, 1], False, [0, 0], 1,
                                               [True, True, True])  # fmt: skip
    assert all(core.allclose(a, b.grad) for a, b in zip(found[:2], leaves, strict=True))
    assert found[2].tolist() == [9.0, 9.0, 9.0]
    v = core.rand(4, 6)
    y, mean, rstd = core.ops.aten.native_layer_norm(v, [6], None, None, 1e-5)
    leaf = v.clone().requires_grad_()
    core.nn.functional.layer_norm(leaf, [6]).square().sum().backward()
    got = core.ops.aten.native_layer_norm_backward(2 * y, v, [6], mean, rstd, None, None, [True, False, False])
    assert core.allclose(got[0], leaf.grad, atol=1e-5)
    assert got[1:] == (None, None)


def test_products_in_groups_and_with_scales():
    F = core.nn.functional
    a, b = core.rand(4, 3), core.rand(2, 3, 2)
    ends = core.tensor([1, 3])
    rows = F.grouped_mm(a, b, offs=ends)
    assert core.allclose(rows[1:3], a[1:3] @ b[1])
    assert not rows[3].any()
    assert F.grouped_mm(b.mT, a[:3, :].T @ a[:3, :], offs=core.tensor([1, 3])).shape == (2, 3)
    assert F.grouped_mm(a.T, core.rand(4, 5), offs=core.tensor([2, 4])).shape == (2, 3, 5)
    with pytest.raises(RuntimeError, match="offs"):
        F.grouped_mm(a, b)
    block = F.ScalingType.BlockWise1x32
    with pytest.raises(NotImplementedError, match="scales of blocks"):
        F.scaled_mm(a, a.T, core.ones(1), block, core.ones(1), block)


@pytest.mark.parametrize(("name", "want"), [
    ("sum", [1.0, 8.0]), ("mean", [1.0, 4.0]), ("amax", [1.0, 5.0]), ("amin", [1.0, 3.0]), ("prod", [1.0, 15.0]),
    ("norm", [1.0, 34**0.5]),
])  # fmt: skip
def test_reductions_of_what_a_mask_lets_through(name, want):
    mask = core.tensor([[True, False], [True, True]])
    given = {"dim": 1} if name == "norm" else {}
    args = (X,) if given else (X, 1)
    assert getattr(masked, name)(*args, mask=mask, **given).tolist() == pytest.approx(want)
    assert masked.var(X, 1, mask=mask)[1].item() == pytest.approx(2.0)
    assert masked.softmax(X, 1, mask=mask)[0].tolist() == [1.0, 0.0]


def test_pipes_are_methods_of_each_other():
    @functional_datapipe("census_doubled")
    class Doubled(IterDataPipe):
        def __init__(self, source):
            self.source = source

        def __iter__(self):
            return (2 * x for x in self.source)

    pipe = datapipes.Wrapper(range(6)).census_doubled().filter(lambda x: x > 0).sharding_filter().batch(2)
    datapipes.apply_sharding(pipe, 2, 1)
    assert list(pipe) == [[4, 8]]
    shuffled = datapipes.Wrapper(range(20)).shuffle(buffer_size=4).map(str)
    datapipes.apply_random_seed(shuffled, core.Generator())
    order = list(shuffled)
    assert sorted(order, key=int) == [str(k) for k in range(20)]
    assert list(datapipes.apply_shuffle_settings(shuffled, False)) == [str(k) for k in range(20)]
    with pytest.raises(AttributeError, match="nothing_such"):
        pipe.nothing_such()
    with pytest.raises(TypeError, match="only decorate"):
        functional_datapipe("x")(int)
    assert issubclass(MapDataPipe, core.utils.data.Dataset)


def test_tensors_change_places():
    a, b = core.nn.Parameter(core.ones(1)), core.zeros(2)
    core.utils.swap_tensors(a, b)
    assert (a.tolist(), b.tolist(), type(b)) == ([0.0, 0.0], [1.0], core.nn.Parameter)
    with pytest.raises(RuntimeError, match="change places"):
        core.utils.swap_tensors(b * 2, a)


def test_ops_by_a_schema():
    lib = core.library.Library("census_test", "DEF")
    assert lib.define("twice(Tensor x, float by=2.0) -> Tensor") == "twice"
    with pytest.raises(NotImplementedError, match="Could not run 'census_test::twice'"):
        core.ops.census_test.twice(X)
    lib.impl("twice", lambda x, by=2.0: x * by, "CompositeExplicitAutograd")
    x = core.ones(2, requires_grad=True)
    core.ops.census_test.twice(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    with pytest.raises(ValueError, match="not a schema"):
        lib.define("nothing")
    with pytest.raises(ValueError, match="reserved"):
        core.library.Library("aten", "DEF")
    lib._destroy()


def test_older_names_of_cuda():
    assert not isinstance(core.ones(1), core.cuda.FloatTensor)
    if not core.cuda.is_available():
        assert core.cuda.default_generators == ()
        core.cuda.seed_all()
        for call in (lambda: core.cuda.FloatTensor(2), lambda: core.cuda.nvtx.mark("x"), core.cuda.nccl.version):
            with pytest.raises(RuntimeError):
                call()


def test_an_error_is_recorded_where_torchrun_reads_it(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "error.json"))

    @record
    def main():
        raise ValueError("why")

    with pytest.raises(ValueError, match="why"):
        main()
    assert json.loads((tmp_path / "error.json").read_text())["message"]["message"] == "ValueError: why"


def test_keywords_that_pytorch_documents():
    assert core.result_type(scalar=2, tensor=core.ones(1)) is core.float32
    assert core.mm(X.bfloat16(), X.bfloat16(), out_dtype=core.float32).dtype is core.float32
    out = core.zeros(2)
    assert core.sum(X, 0, out=out) is out
    assert X.dim_order(ambiguity_check=True) == (0, 1)
    with pytest.raises(RuntimeError, match="unique dim order"):
        core.ones(1, 2).dim_order(ambiguity_check=True)
    x = core.tensor([0.5, -1.0], dtype=core.float64, requires_grad=True)
    assert core.autograd.gradcheck(core.tanh, (x,), check_forward_ad=True, check_grad_dtypes=True)
    assert core.autograd.gradgradcheck(core.tanh, (x,), gen_non_contig_grad_outputs=True)
    with pytest.raises(NotImplementedError, match="forward mode"):
        core.autograd.gradgradcheck(core.tanh, (x,), check_fwd_over_rev=True)
    with pytest.raises(NotImplementedError, match="several examples"):
        core.autograd.gradcheck(core.tanh, (x,), check_batched_grad=True)
    with pytest.raises(RuntimeError, match="grad_variables"):
        core.autograd.backward(x.sum(), core.ones(()), grad_variables=core.ones(()))
    hooks = {}
    handle = core.utils.hooks.RemovableHandle(hooks, extra_dict=(more := {}))
    hooks[handle.id] = more[handle.id] = print
    handle.remove()
    assert hooks == more == {}
