"""What a PyTorch cell does is the same under recording: output, exception, random state and values."""

from __future__ import annotations

import contextlib
import inspect
import io
import linecache
import os
import sys
import warnings
from typing import Any

import pytest
import torch

from core.events import observe
from lab.recorder import tensor_types
from lab.session.recording import Recording

BEGIN = """
import copy, io, pickle, threading, weakref, gc, warnings
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F
"""
CELLS = {
    "in place on a view under no_grad": """
        m = nn.Linear(3, 4)
        m(torch.ones(2, 3)).sum().backward()
        with torch.no_grad():
            m.weight[0] *= 0.5
            m.weight[1:3].mul_(2.0)
            m.bias[:2].zero_()
        print(m.weight.sum().item())
    """,
    "a storage stays one that can be resized": """
        w = torch.randn(3, 4, requires_grad=True)
        y = torch.empty(0)
        (w.sin() + 0 * y.sum()).sum().backward()
        y.resize_(5).fill_(1.0)
        w.grad = w.grad.data.new().resize_as_(w.grad.data).zero_()
        print(y, w.grad, w.data.untyped_storage().resizable())
    """,
    "rows under no_grad": """
        emb = nn.Embedding(4, 3)
        emb(torch.tensor([1, 2])).sum().backward()
        with torch.no_grad():
            for row in emb.weight:
                row /= row.norm()
            for a, b in zip(emb.weight.unbind(), emb.weight.chunk(4)):
                a.add_(1); b.sub_(1)
        print(emb.weight.norm(dim=1))
    """,
    "a view of a view whose base is written": """
        w = torch.ones(3, requires_grad=True)
        x = w * 2
        v = x[:2].view(2, 1)
        x.mul_(3)
        print(v.grad_fn.name(), v.sum().item())
        v.sum().backward()
        print(w.grad)
    """,
    "an ambiguous view is still refused": """
        w = torch.ones(3, requires_grad=True)
        x = w * 2
        with torch.no_grad():
            v = x[:2]
        x.mul_(3)
        try:
            v.add_(1)
        except RuntimeError as e:
            print(str(e)[:60])
    """,
    "inference tensors": """
        with torch.inference_mode():
            i = torch.ones(2) * 2
            i.add_(1)
        print(i, i.is_inference(), (i + 1).sum().item())
        try:
            i.add_(1)
            print(i._version)
        except RuntimeError as e:
            print(str(e)[:50])
    """,
    "hooks of saved tensors": """
        def pack(t): print("pack", tuple(t.shape)); return t.clone()
        def unpack(t): print("unpack"); return t
        x = torch.ones(3, requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            y = (x * x).exp().sum()
        kept = [y * 1 for _ in range(5)]
        print("now")
        y.backward()
        print(x.grad)
    """,
    "pickles and copies": """
        m = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        x = torch.ones(2, requires_grad=True)
        m(x).sum().backward()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            again = pickle.loads(pickle.dumps(m)), copy.deepcopy(m), pickle.loads(pickle.dumps(x)), copy.deepcopy(x)
            f = io.BytesIO(); torch.save({"m": m.state_dict(), "x": x}, f)
        print([str(w.message)[:50] for w in said], [sorted(vars(t)) for t in again[2:]], again[2], again[3])
    """,
    "what functions look like": """
        import inspect
        print(inspect.signature(nn.Parameter), inspect.signature(torch.autograd.Function.apply))
        print(nn.Parameter.__new__.__qualname__)
        class P(nn.Parameter):
            def __new__(cls, data, tag="t"):
                self = super().__new__(cls, data)
                self.tag = tag
                return self
        p = P(torch.ones(2), "mine")
        print(type(p).__name__, isinstance(p, nn.Parameter), p.tag, p.requires_grad)
        print(pickle.loads(pickle.dumps(nn.Parameter(torch.ones(1)))))
    """,
    "custom functions": """
        from torch.autograd import Function
        from torch.autograd.function import once_differentiable
        class Double(Function):
            @staticmethod
            def forward(ctx, x): ctx.save_for_backward(x); return x * 2
            @staticmethod
            @once_differentiable
            def backward(ctx, g): return g * 2
        class Cube(Function):
            generate_vmap_rule = True
            @staticmethod
            def forward(x): return x ** 3
            @staticmethod
            def setup_context(ctx, inputs, output): ctx.save_for_backward(*inputs)
            @staticmethod
            def backward(ctx, g): x, = ctx.saved_tensors; return 3 * x * x * g
        x = torch.arange(3.0, requires_grad=True)
        Double.apply(x).sum().backward(); Cube.apply(x).sum().backward()
        print(x.grad, torch.func.vmap(Cube.apply)(torch.ones(2, 3)))
        print(torch.func.grad(lambda t: Cube.apply(t).sum())(x.detach()))
    """,
    "torch.func": """
        from torch.func import grad, vmap, jacrev, functional_call
        m = nn.Linear(3, 2)
        ps = dict(m.named_parameters())
        loss = lambda ps, x: functional_call(m, ps, (x,)).square().sum()
        print(grad(loss)(ps, torch.ones(3))["weight"], vmap(grad(lambda x: (x ** 3).sum()))(torch.ones(2, 3)))
        print(jacrev(torch.sin)(torch.ones(2)), torch.func.hessian(lambda x: (x ** 3).sum())(torch.ones(2)))
    """,
    "modes of the user's": """
        from torch.overrides import TorchFunctionMode
        from torch.utils._python_dispatch import TorchDispatchMode
        class Calls(TorchFunctionMode):
            def __torch_function__(self, f, types, args=(), kwargs=None):
                print("f", getattr(f, "__name__", f)); return f(*args, **(kwargs or {}))
        class Aten(TorchDispatchMode):
            def __torch_dispatch__(self, f, types, args=(), kwargs=None):
                print("d", f); return f(*args, **(kwargs or {}))
        w = torch.ones(3, requires_grad=True)
        with Calls():
            (w * 2).sum().backward()
        with Aten():
            y = (w.exp() * w)[1:]
            with torch.no_grad():
                w[0] *= 2
            y.sum().backward()
        print(w.grad)
    """,
    "a mode that is never left": """
        from torch.overrides import TorchFunctionMode
        class Calls(TorchFunctionMode):
            def __torch_function__(self, f, types, args=(), kwargs=None):
                return f(*args, **(kwargs or {}))
        mode = Calls(); mode.__enter__()
        print(torch.ones(2) + 1)
    """,
    "subclasses": """
        class Noisy(torch.Tensor):
            @classmethod
            def __torch_function__(cls, f, types, args=(), kwargs=None):
                print("n", getattr(f, "__name__", f)); return super().__torch_function__(f, types, args, kwargs or {})
            def __repr__(self): raise RuntimeError("no")
        x = torch.ones(2).as_subclass(Noisy)
        y = (x * 2).sum() + 1
        print(float(y), type(y).__name__)
    """,
    "fake and meta tensors": """
        from torch._subclasses.fake_tensor import FakeTensorMode
        with FakeTensorMode():
            y = nn.Linear(2, 3)(torch.ones(4, 2))
            y.sum().backward()
        print(y.shape, type(y).__name__, torch.ones(2, device="meta").exp().shape)
    """,
    "tracing": """
        m = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        t = torch.jit.trace(m, torch.ones(1, 2))
        print([n.kind() for n in t.graph.nodes()])
        print(torch.fx.symbolic_trace(m).code, t(torch.ones(1, 2)).shape)
        from torch.fx.experimental.proxy_tensor import make_fx
        print(make_fx(lambda x: x.sin().sum())(torch.ones(2)).code)
    """,
    "script": """
        @torch.jit.script
        def f(x, y: float):
            return x * y + 1
        w = torch.ones(2, requires_grad=True)
        f(w, 2.0).sum().backward()
        print(w.grad, f.code)
    """,
    "export": """
        ep = torch.export.export(nn.Linear(2, 2), (torch.ones(1, 2),))
        print(ep.graph)
    """,
    "checkpoint": """
        from torch.utils.checkpoint import checkpoint
        w = torch.ones(3, requires_grad=True)
        def block(x): print("block"); return (x * w).exp()
        loss = sum(checkpoint(block, torch.ones(3), use_reentrant=False).sum() for _ in range(2))
        history = [loss]
        print("now"); loss.backward(); print(w.grad)
    """,
    "hooks of the user's": """
        w = torch.ones(3, requires_grad=True)
        order = []
        w.register_hook(lambda g: order.append("w") or g * 2)
        y = w * 2
        y.register_hook(lambda g: order.append("y"))
        y.retain_grad()
        torch.autograd.graph.register_multi_grad_hook([w, y], lambda gs: order.append(len(gs)))
        w.register_post_accumulate_grad_hook(lambda p: order.append("post"))
        y.grad_fn.register_hook(lambda a, b: order.append("node"))
        y.sum().backward()
        print(order, w.grad, y.grad, y.grad_fn.metadata == {} or True)
    """,
    "what is let go of": """
        class Watched:
            pass
        w = torch.ones(3, requires_grad=True)
        gc.disable()
        y = (w * torch.full((3,), 2.0)).exp()
        held = Watched(); y.grad_fn.metadata["mine"] = held
        ref = weakref.ref(held); t = weakref.ref(y)
        del held, y
        print(ref() is None, t() is None)
        gc.enable()
    """,
    "swapped": """
        a, b = nn.Parameter(torch.ones(2)), nn.Parameter(torch.zeros(2))
        (a * 2).sum()
        torch.utils.swap_tensors(a, b)
        print(a, b)
    """,
    "threads": """
        m = nn.Linear(4, 4)
        said = []
        def work():
            try:
                o = torch.optim.SGD(m.parameters(), lr=0.0)
                for _ in range(10):
                    m(torch.ones(2, 4)).sum().backward(); o.step()
            except BaseException as e:
                said.append(e)
        ts = [threading.Thread(target=work) for _ in range(8)]
        [t.start() for t in ts]; work(); [t.join() for t in ts]
        print(said)
    """,
    "warnings as errors": """
        with warnings.catch_warnings(), np.errstate(all="raise"):
            warnings.simplefilter("error")
            w = torch.tensor([1e38, float("nan"), float("inf")], requires_grad=True)
            y = (w * 10).to(torch.bfloat16)
            y.sum().backward()
            print(y.dtype, w.grad)
    """,
    "autocast": """
        m = nn.Linear(4, 4)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = m(torch.ones(2, 4)); loss = y.float().square().mean()
        loss.backward()
        print(y.dtype, m.weight.grad.dtype)
    """,
    "a loader with workers": """
        from torch.utils.data import DataLoader, TensorDataset
        data = TensorDataset(torch.arange(8.0), torch.rand(8))
        for x, y in DataLoader(data, batch_size=4, num_workers=2, shuffle=True):
            print(x, y.shape)
    """,
    "errors": """
        w = torch.ones(2, requires_grad=True)
        try:
            w @ torch.ones(3)
        except RuntimeError as e:
            print(type(e), e, e.__context__, e.__cause__)
        w.sum().backward(); (w * float("nan")).reshape(7)
    """,
    "a proxy of torch.fx is no tensor": """
        import torch.fx
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(2, 2)
            def forward(self, x):
                return torch.relu(self.linear(x)).sum()
        traced = torch.fx.symbolic_trace(Net())
        tracer = torch.fx.proxy.GraphAppendingTracer(torch.fx.Graph())
        proxy = torch.fx.Proxy(next(iter(traced.graph.nodes)), tracer)
        made = [torch.relu(proxy).detach(), proxy + 1]
        print(made, tracer.graph, traced(torch.ones(1, 2)).item())
    """,
    "an object that answers to every name": """
        class Any:
            __slots__ = ("unset", "__dict__")
            def __getattr__(self, name):
                if not name.startswith("__"):
                    print("asked for", name)
                return self
            def __bool__(self):
                raise TypeError("neither true nor false")
        a = Any()
        held, m = [a], nn.Linear(2, 1)
        m.plain, m.several, a.inner = a, [a], Any()
        m(torch.ones(1, 2)).sum().backward()
        torch.optim.SGD(m.parameters(), 0.1).step()
        print("end")
    """,
}
COMPILED = {
    "a compiled module": """
        m = torch.compile(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)), backend=BACKEND, fullgraph=True)
        o = torch.optim.SGD(m.parameters(), lr=0.1)
        for _ in range(3):
            o.zero_grad(); loss = m(torch.ones(2, 3)).square().mean(); loss.backward(); o.step()
        print(loss.item(), sum(torch._dynamo.utils.counters["graph_break"].values()))
        print(torch._dynamo.utils.counters["stats"]["unique_graphs"])
    """,
    "a compiled function with a break": """
        @torch.compile(backend=BACKEND)
        def f(x):
            y = x.sin()
            print("inside")
            return (y * x).sum()
        x = torch.ones(3, requires_grad=True)
        f(x).backward()
        print(x.grad, torch._dynamo.utils.counters["stats"]["unique_graphs"])
        f(x)
    """,
}


def run(source: str, recorded: bool) -> tuple[Any, ...]:
    """Output, exception, random state and the tensors that a cell leaves; recorded, also the recording."""
    source = BEGIN + inspect.cleandoc(source) + "\n"
    name = "<unnoticed cell>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    torch.manual_seed(0)
    space: dict[str, Any] = {"__name__": "cell"}
    sys.modules["cell"] = type(sys)("cell")
    sys.modules["cell"].__dict__.update(space)
    space = sys.modules["cell"].__dict__
    error, out, recording = None, io.StringIO(), Recording()
    code = compile(source, name, "exec")
    depth = torch._C._len_torch_function_stack()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), warnings.catch_warnings():
        warnings.simplefilter("default")
        if recorded:
            recording.start({name: 0})
        try:
            exec(code, space)
        except Exception as e:
            error = e
        if recorded:
            recording.stop(space, source, None, error)
    state = torch.get_rng_state().tolist(), torch.initial_seed()
    values = {k: v.detach().clone() for k, v in space.items() if type(v) is torch.Tensor and v.device.type == "cpu"}
    while torch._C._len_torch_function_stack() > depth:
        torch._C._pop_torch_function_stack()
    assert not observe.observers
    assert not tensor_types.adapters
    return out.getvalue(), (type(error), str(error)), state, values, recording


def same(source: str) -> Recording:
    plain, heard = run(source, False), run(source, True)
    assert heard[0] == plain[0]
    assert heard[1] == plain[1]
    assert heard[2] == plain[2]
    assert heard[3].keys() == plain[3].keys()
    for key, value in plain[3].items():
        assert torch.equal(heard[3][key].nan_to_num(7), value.nan_to_num(7)), key
    recording: Recording = heard[4]
    assert recording.error is None, recording.error
    return recording


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_runs_as_without(name: str) -> None:
    if name == "a loader with workers" and not hasattr(os, "fork"):
        pytest.skip("no fork on this system")
    same(CELLS[name])


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", COMPILED)
def test_a_compiled_cell_runs_as_without_and_is_one_op(name: str, backend: str) -> None:
    recording = same(COMPILED[name].replace("BACKEND", repr(backend)))
    assert [op for op in recording.record.ops if op.op == "compiled"]
    trained = {"x"} if "break" in name else {"m._orig_mod.0.weight", "m._orig_mod.2.bias"}
    assert {g.name for g in recording.record.gradients} >= trained


def test_nothing_of_pytorch_s_stays_replaced() -> None:
    parameter, function = torch.nn.Parameter.__dict__["__new__"], torch.autograd.Function.__dict__["apply"]
    run("w = torch.ones(2, requires_grad=True); (w * 2).sum().backward(); kept = (w * 3).sum()", True)
    assert torch.nn.Parameter.__dict__["__new__"] is parameter
    assert torch.autograd.Function.__dict__["apply"] is function
    assert torch._C._len_torch_function_stack() == 0
