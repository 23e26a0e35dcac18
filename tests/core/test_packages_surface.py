"""Names that packages ask for: what does something does it, what is inert is, and what is not here refuses."""

from __future__ import annotations

import importlib
import threading

import numpy as np
import pytest

import core
from core.base.absent import AbsentModule
from core.nn.attention.flex_attention import (
    AuxRequest,
    and_masks,
    create_block_mask,
    create_mask,
    flex_attention,
    noop_mask,
    or_masks,
)


def test_what_compile_takes():
    def f(x):
        return x + 1

    assert core.compile(f, disable=True) is f
    assert core.compile(mode="reduce-overhead")(f)(core.ones(1)).item() == 2
    model = core.compile(core.nn.Linear(2, 1), backend="eager")
    assert isinstance(model, core._dynamo.OptimizedModule)
    assert model.in_features == 2
    model(core.ones(1, 2)).sum().backward()
    assert model._orig_mod.weight.grad is not None
    with pytest.raises(RuntimeError, match="Unrecognized mode"):
        core.compile(f, mode="fast")
    with pytest.raises(RuntimeError, match="Either mode or options"):
        core.compile(f, mode="default", options={"a": 1})
    with pytest.raises(TypeError, match="a function or a module"):
        core.compile(3)


def test_marks_of_a_trace_change_nothing():
    assert not core.compiler.is_compiling()
    for mark in (core._dynamo.allow_in_graph, core.jit.unused, core.jit.export):
        assert mark(print) is print
    assert core.compiler.disable(recursive=False)(print) is print
    assert core.compiler.disable(abs)(-1) == 1
    with core.compiler.set_stance("force_eager"):
        pass
    with pytest.raises(RuntimeError, match=r"invalid torch\.compile stance"):
        core.compiler.set_stance("sitting")
    with pytest.raises(NotImplementedError, match="nothing is traced"):
        core._dynamo.export(print)
    assert core.compiler.wrap_numpy(np.flip)(core.tensor([1.0, 2.0])).tolist() == [2.0, 1.0]


def test_a_future_is_set_once_and_waited_for():
    f = core.futures.Future()
    threading.Timer(0.01, f.set_result, (3,)).start()
    assert f.then(lambda x: x.value() * 2).wait() == 6
    with pytest.raises(RuntimeError, match="only be set once"):
        f.set_result(4)
    g = core.futures.Future()
    with pytest.raises(RuntimeError, match="no value yet"):
        g.value()
    h = g.then(lambda x: x.value())
    g.set_exception(KeyError("k"))
    with pytest.raises(KeyError):
        h.wait()
    assert core.futures.wait_all([f, core.jit.fork(lambda: 5)]) == [3, 5]
    assert core.futures.collect_all([]).wait() == []


@pytest.mark.parametrize("name", ["xpu", "mps", "mtia"])
def test_devices_that_are_not_here_say_so(name):
    module = getattr(core, name)
    assert not module.is_available()
    assert module.device_count() == 0
    module.manual_seed(0)
    module.empty_cache()
    assert module.max_memory_allocated() == 0
    with pytest.raises(RuntimeError, match=f"no device '{name}'"):
        module.current_device()
    with pytest.raises(AttributeError):
        module.nothing_of_the_kind  # noqa: B018


def test_the_accelerator_is_cudas():
    assert core.accelerator.is_available() == core.cuda.is_available()
    if not core.cuda.is_available():
        assert core.accelerator.current_accelerator() is None
        assert core.accelerator.device_count() == core.accelerator.memory_allocated() == 0
        assert core.cuda.get_rng_state_all() == []
        core.accelerator.synchronize()
        with pytest.raises(RuntimeError, match="none is available"):
            core.accelerator.current_device_index()


def test_checks_are_made_at_once():
    core._check(True)
    for name, error in (("_check", RuntimeError), ("_check_value", ValueError), ("_check_index", IndexError),
                        ("_check_type", TypeError), ("_check_not_implemented", NotImplementedError)):  # fmt: skip
        with pytest.raises(error, match="mine"):
            getattr(core, name)(False, lambda: "mine")
    with pytest.raises(TypeError, match="cond must be a bool"):
        core._check(core.ones(1))
    with pytest.raises(RuntimeError, match="Expected cond"):
        core._check_tensor_all(core.tensor([True, False]))
    core._assert(core.ones(1))
    with pytest.raises(AssertionError):
        core._assert(False)
    with pytest.raises(RuntimeError, match="nonzero"):
        core._assert_async(core.zeros(1))
    assert not isinstance(3, core.SymInt)
    assert (core.sym_int(2.7), core.sym_max(1, 2.0), core.sym_min(1, 2), core.sym_not(True)) == (2, 2.0, 1, False)


def test_ops_are_found_by_namespace():
    x = core.tensor([-1.0, 2.0])
    assert core.ops.aten.relu(x).tolist() == core.ops.aten.relu.default(x).tolist() == [0.0, 2.0]
    assert repr(core.ops.aten.relu.default) == "<OpOverload(op='aten.relu', overload='default')>"

    @core.library.custom_op("surface::twice")
    def twice(x: core.Tensor) -> core.Tensor:
        return x * 2

    assert core.ops.surface.twice(x).tolist() == [-2.0, 4.0]
    with pytest.raises(AttributeError, match="has no attribute 'nms'"):
        core.ops.torchvision.nms  # noqa: B018
    with pytest.raises(OSError, match="Could not load"):
        core.ops.load_library("ops.so")


def test_what_is_given_for_an_op_before_it_is_declared_is_kept():
    @core.library.register_fake("surface::later")
    def fake(x):
        return core.empty(x.shape)

    @core.library.custom_op("surface::later")
    def later(x: core.Tensor) -> core.Tensor:
        return x + 1

    assert later.fake is fake


def test_parts_that_are_not_here_refuse_when_they_are_used():
    module = AbsentModule("core.elsewhere", "remedy")
    assert not isinstance(1, module.Thing)
    assert not module.is_available()
    for call in (module.Thing, module.make):
        with pytest.raises(NotImplementedError, match="is not here"):
            call()
    with pytest.raises(AttributeError):
        module.__wrapped__  # noqa: B018
    with pytest.raises(NotImplementedError, match="c_op"):
        core.utils.cpp_extension.load("name", ["a.cpp"])


@pytest.mark.parametrize("path", ["distributed.tensor._utils", "_inductor.config", "onnx.symbolic_opset11",
                                  "fx.passes.split_module", "ao.quantization", "export._trace"])  # fmt: skip
def test_such_parts_are_imported_under_the_alias(path):
    with core.as_torch():
        module = importlib.import_module(f"torch.{path}")
        parent, _, name = path.rpartition(".")
        assert getattr(importlib.import_module(f"torch.{parent}"), name) is not None
        with pytest.raises(NotImplementedError):
            module.SomethingOfThis()
        with pytest.raises(ModuleNotFoundError, match="No module named"):
            importlib.import_module("torch.nothing_of_the_kind")


def test_a_modules_late_names_are_there_under_the_alias():
    with core.as_torch():
        import torch

        assert "Bernoulli" in vars(torch.distributions)
        import functorch

        assert functorch.vmap is core.func.vmap
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("functorch.dim")


def test_weights_by_address_are_read_from_the_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    folder = tmp_path / "hub" / "checkpoints"
    folder.mkdir(parents=True)
    url = "https://example.org/models/net-12345678.pth"
    with pytest.raises(RuntimeError, match="nothing is fetched"):
        core.hub.load_state_dict_from_url(url)
    core.save({"w": core.ones(1)}, folder / "net-12345678.pth")
    assert core.hub.load_state_dict_from_url(url)["w"].item() == 1.0
    with pytest.raises(RuntimeError, match="invalid hash value"):
        core.utils.model_zoo.load_url(url, check_hash=True)


def test_settings_are_kept_and_put_back():
    with core.backends.mkldnn.flags(enabled=False):
        assert core.backends.mkldnn.enabled is False
    assert core.backends.mkldnn.enabled is True
    assert not core.backends.openmp.is_available()
    with pytest.raises(TypeError, match="unexpected keyword"), core.backends.opt_einsum.flags(beauty=1):
        pass
    before = core.backends.cudnn.deterministic  # a program that another test ran may have set it
    with core.backends.cudnn.flags(deterministic=not before):
        assert core.backends.cudnn.deterministic is not before
    assert core.backends.cudnn.deterministic is before
    with core._dynamo.config.patch({"verbose": True}):
        assert core._dynamo.config.verbose
    assert not core._dynamo.config.verbose


def test_optimizers_of_wrappers_and_packages_step():
    from core.optim.optimizer import _use_grad_for_differentiable, required

    assert repr(required) == "<required parameter>"

    class Wrapper(core.optim.Optimizer):
        def __init__(self, inner):
            self.inner = inner

        def step(self, closure=None):
            return self.inner.step(closure)

    p = core.ones(1, requires_grad=True)
    (p * 2).sum().backward()
    Wrapper(core.optim.SGD([p], lr=0.5)).step()
    assert p.item() == 0.0

    class Own(core.optim.Optimizer):
        @_use_grad_for_differentiable
        def step(self):
            return core.is_grad_enabled()

    assert Own([p], {}).step() is False


def test_scores_are_changed_and_hidden():
    core.manual_seed(0)
    q, k, v = (core.randn(2, 4, 6, 8) for _ in range(3))
    causal = create_block_mask(lambda b, h, i, j: i >= j, None, None, 6, 6, BLOCK_SIZE=2)
    expected = core.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert core.allclose(flex_attention(q, k, v, block_mask=causal), expected, atol=1e-6)
    bias = core.randn(4, 6, 6)
    found, lse = flex_attention(q, k, v, lambda s, b, h, i, j: s + bias[h, i, j], return_lse=True)
    scores = q @ k.transpose(-1, -2) / 8**0.5 + bias
    assert core.allclose(found, scores.softmax(-1) @ v, atol=1e-6)
    assert core.allclose(lse, scores.logsumexp(-1), atol=1e-6)
    few = flex_attention(q, k[:, :2], v[:, :2], enable_gqa=True, return_aux=AuxRequest(max_scores=True))
    assert few[0].shape == v.shape
    assert few[1].lse is None
    hidden = create_block_mask(lambda b, h, i, j: (i > 0) & (j >= 0), 1, 1, 6, 6)
    assert flex_attention(q, k, v, block_mask=hidden)[:, :, 0].abs().sum() == 0
    with pytest.raises(ValueError, match="same number of heads"):
        flex_attention(q, k[:, :2], v[:, :2])
    assert causal.to_dense()[0, 0].tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert causal.sparsity() == pytest.approx(100 / 3)
    both = and_masks(lambda b, h, i, j: i >= j, lambda b, h, i, j: i - j < 2)
    assert create_mask(both, 1, 1, 3, 3)[0, 0].int().tolist() == [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
    assert create_mask(or_masks(both, noop_mask), 1, 1, 2, 2).all()


def double(number: int, told) -> None:
    if number == told:
        raise ValueError("the second one")


def test_processes_are_started_and_their_errors_told():
    mp = core.multiprocessing
    mp.start_processes(double, (7,), nprocs=2, start_method="fork")
    with pytest.raises(mp.ProcessRaisedException, match="the second one") as caught:
        mp.start_processes(double, (1,), nprocs=2, start_method="fork")
    assert caught.value.error_index == 1
    mp.set_sharing_strategy(mp.get_sharing_strategy())
    with pytest.raises(ValueError, match="unknown sharing strategy"):
        mp.set_sharing_strategy("telepathy")


def test_decorators_that_are_blocks_wrap_each_call():
    from core.utils._contextlib import _DecoratorContextManager

    entered: list[str] = []

    class Block(_DecoratorContextManager):
        def __enter__(self):
            entered.append("in")

        def __exit__(self, *raised):
            entered.append("out")

    assert Block()(lambda x: x + 1)(1) == 2

    @Block()
    def steps():
        yield 1

    assert list(steps()) == [1]
    assert entered == ["in", "out"] * 3


def test_a_class_with_torch_function_is_asked():
    class Like:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "asked"

    assert core.overrides.has_torch_function((Like(), 1))
    assert not core.overrides.has_torch_function((core.ones(1), 1))
    assert core.overrides.handle_torch_function(core.add, (Like(),), Like(), 1) == "asked"
    with pytest.raises(TypeError, match="no implementation found"):
        core.overrides.handle_torch_function(core.add, (), 1)


def test_a_model_becomes_onnx_by_pytorchs_names(tmp_path):
    onnx = pytest.importorskip("onnx")
    model = core.nn.Linear(3, 2)
    path = tmp_path / "model.onnx"
    core.onnx.export(model, (core.ones(4, 3),), str(path), input_names=["x"], output_names=["y"],
                     dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}})  # fmt: skip
    found = onnx.load(str(path))
    assert [i.name for i in found.graph.input] == ["x"]
    assert [o.name for o in found.graph.output] == ["y"]
    assert core.allclose(core.onnx.load(str(path))(core.ones(7, 3)), model(core.ones(7, 3)))
    assert core.export.Dim("batch").__name__ == "batch"
