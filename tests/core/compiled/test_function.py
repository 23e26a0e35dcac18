"""`core.compile`: what becomes one loop, what is refused and how that is said, gradients, modes."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
from __future__ import annotations

import copy
import gc
import threading
import weakref

import numpy as np
import pytest

import core
from core import native, nn
from core.compiled import recording, variant
from core.compiled.function import MOST, Compiled


@pytest.fixture(autouse=True)
def whatever_it_costs(monkeypatch):
    """Nothing steps back to eager because it is slower here."""
    monkeypatch.setattr(variant, "_GAIN", float("inf"))
    yield
    core.compiler.reset()


def gelu(x):
    return 0.5 * x * (1 + core.tanh(0.797884560802865 * (x + 0.044715 * x * x * x)))


def settled(f, *args, calls=5):
    for _ in range(calls):
        result = f(*args)
    return result


def test_elementwise_ops_become_one_loop():
    f = core.compile(gelu, check=3)
    x = core.randn(40, 50)
    y = settled(f, x)
    assert core.allclose(y, gelu(x), atol=1e-6)
    (v,) = f.explain().variants
    assert v.state == "compiled"
    assert (v.forward.loops, v.forward.kernels) == (1, 0)
    said = str(f.explain())
    assert f"one loop of 9 ops: mul, add, tanh (test_function.py line {gelu.__code__.co_firstlineno + 1})" in said


def test_a_reduction_over_the_last_axis_joins_its_neighbours():
    def norm(x, w):
        return x * core.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * w

    f = core.compile(norm, check=3)
    x, w = core.randn(6, 7, 64), core.randn(64)
    assert core.allclose(settled(f, x, w), norm(x, w), atol=1e-5)
    assert f.explain().variants[0].forward.loops == 1


@pytest.mark.parametrize("n", [5, 8192, 8193, 1 << 16, (1 << 16) + 1])
def test_sums_of_any_length(n):
    def f(x):
        return (x * x).sum(), x.amax(), x.mean(), (x + 1).sum(0)

    c = core.compile(f, check=3)
    x = core.randn(2, n)
    for a, b in zip(settled(c, x), f(x), strict=True):
        assert core.allclose(a, b, rtol=1e-5)
    assert c.explain().variants[0].state == "compiled"


def test_what_is_written_later_is_the_callers_own():
    f = core.compile(gelu, check=3)
    x = core.randn(8)
    a = settled(f, x)
    kept = a.clone()
    b = f(x * 2)
    assert core.equal(a, kept)
    b.zero_()
    assert core.allclose(f(x), kept)


def test_gradients_by_one_node_and_second_derivatives_by_the_function():
    f = core.compile(gelu, check=3)
    for _ in range(6):
        x = core.randn(30, requires_grad=True)
        y = f(x)
        (g,) = core.autograd.grad(y.sum(), x)
        (wanted,) = core.autograd.grad(gelu(x).sum(), x)
        assert core.allclose(g, wanted, atol=1e-5)
    assert y.grad_fn.name() == "CompiledBackward0"
    (g,) = core.autograd.grad((f(x) ** 2).sum(), x, create_graph=True)
    (h,) = core.autograd.grad(g.sum(), x)
    (g2,) = core.autograd.grad((gelu(x) ** 2).sum(), x, create_graph=True)
    (h2,) = core.autograd.grad(g2.sum(), x)
    assert core.allclose(h, h2, atol=1e-4)


def test_gradients_flow_through_to_what_came_before_and_into_hooks():
    f = core.compile(gelu, check=3)
    heard = []
    for n in range(6):
        w = core.randn(30, requires_grad=True)
        if n == 5:
            w.register_hook(heard.append)
        f(w * 2).sum().backward()
        v = w.detach().clone().requires_grad_()
        gelu(v * 2).sum().backward()
        assert core.allclose(w.grad, v.grad, atol=1e-5)
    assert len(heard) == 1


def test_saved_values_that_are_written_are_an_error_as_eagerly():
    def f(x):
        return core.exp(core.sin(x))

    c = core.compile(f, check=3)
    for _ in range(6):
        y = c(core.randn(5, requires_grad=True))
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    y = c(core.randn(5, requires_grad=True))
    y.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()


def test_results_without_a_gradient_have_none():
    def f(x):
        y = core.exp(x)
        return y, y.detach() * 2, (x > 0)

    c = core.compile(f, check=3)
    for _ in range(6):
        a, b, m = c(core.randn(5, requires_grad=True))
    assert [a.requires_grad, b.requires_grad, m.requires_grad] == [True, False, False]
    assert m.dtype is core.bool
    a.sum().backward()


def test_only_those_results_that_are_used_give_gradients():
    def f(x):
        return core.exp(x), core.sin(x)

    c = core.compile(f, check=3)
    for _ in range(6):
        x = core.randn(5, requires_grad=True)
        _, b = c(x)
        b.sum().backward()
        assert core.allclose(x.grad, core.cos(x), atol=1e-5)


def test_modules_and_optimizers():
    core.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3))
    other = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3))
    other.load_state_dict(model.state_dict())
    compiled = core.compile(model, check=3)
    a, b = core.optim.AdamW(compiled.parameters(), lr=1e-2), core.optim.AdamW(other.parameters(), lr=1e-2)
    for _ in range(12):
        x, y = core.randn(7, 6), core.randint(0, 3, (7,))
        losses = []
        for m, o in ((compiled, a), (other, b)):
            o.zero_grad()
            loss = nn.functional.cross_entropy(m(x), y)
            loss.backward()
            o.step()
            losses.append(loss.item())
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        assert core.allclose(p, q, atol=1e-5)
    assert "forward: one loop" in str(compiled.explain())


def test_convolutions_attention_and_recurrences_are_cores_own():
    core.manual_seed(0)
    conv = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)).train()
    lstm, block = nn.LSTM(5, 6), nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    cases = [(conv, core.randn(2, 3, 10, 10)), (lambda x: lstm(x)[0].tanh(), core.randn(4, 2, 5)),
             (block, core.randn(2, 5, 8))]  # fmt: skip
    for f, x in cases:
        c = core.compile(f, check=3)
        for _ in range(6):
            x = (x + 0.1).detach().requires_grad_()
            c(x).square().mean().backward()
            z = x.detach().clone().requires_grad_()
            f(z).square().mean().backward()
            assert core.allclose(x.grad, z.grad, atol=1e-5)
        (v,) = c.explain().variants
        assert v.state == "compiled", c.explain()
        assert v.forward.kernels, c.explain()


def test_more_variants_than_eight_run_eagerly():
    f = core.compile(gelu, check=3)
    for n in range(1, MOST + 4):
        x = core.randn(n)
        assert core.allclose(f(x), gelu(x), atol=1e-6)
    e = f.explain()
    assert len(e.variants) == MOST
    assert any("more than 8 variants" in why for why in e.eager_calls)


def test_what_is_refused_says_the_line():
    def branches(x):
        if x.sum() > 0:
            return x * 2
        return x

    f = core.compile(branches)
    f(core.ones(3))
    assert "test_function.py line" in str(f.explain())
    assert "(x.sum() > 0) decides by a tensor's value" in str(f.explain())
    with pytest.raises(RuntimeError, match=r"fullgraph=True, and this is not compiled: .*decides by a tensor's value"):
        core.compile(branches, fullgraph=True)(core.ones(3))
    g = core.compile(lambda x: print("x", end="") or x * 2)
    g(core.ones(3))
    assert "calls print()" in str(g.explain())


@pytest.mark.skipif(native.module is None, reason="needs the C extension")
def test_checks_in_c_that_are_no_checks_are_errors():
    first_changed, fit = native.module.first_changed, native.module.fit
    for start, error in (({}, TypeError), (-3, ValueError), (2**70, OverflowError)):
        with pytest.raises(error):
            first_changed([1], start, ())
    with pytest.raises(TypeError, match="a check has 4 parts"):
        first_changed([1], 0, ())
    assert first_changed([(3, {"a": 1}, None, None)], 0, None) == 0  # no tuple of keys: not as it was
    check_runs, unchanged = native.module.check_runs, native.module.unchanged
    for wrong in ([1], [({}, {}, 0, 0)]):
        with pytest.raises(TypeError):
            check_runs(wrong)
    d, at = {"a": 1}, {"b": 2}
    checks = [(0, d, "a", 1), (3, d, None, ("a",)), (0, at, "b", 2)]
    runs = check_runs(checks)
    assert unchanged(checks, runs, None) == unchanged(checks, runs, None) == -1
    d["a"] = 2
    assert unchanged(checks, runs, None) == 0
    d["a"] = 1
    at["b"] = 3
    assert unchanged(checks, runs, None) == 2
    with pytest.raises(ValueError, match="the runs are those of another list"):
        unchanged([], runs, None)
    x = core.zeros(3, dtype=core.uint8)[:, None].expand(3, 1)
    with pytest.raises(TypeError):
        fit([x], (((3, 1), (object(), object()), x._kind, False, core.Tensor),))


def test_a_call_whose_results_take_too_much_is_not_kept(monkeypatch):
    monkeypatch.setattr(recording, "MOST_BYTES", 1 << 20)
    x = core.randn(100, 100, requires_grad=True)
    died = []

    def f(x):
        for k in range(60):
            x = (x * 1.01).tanh()
            weakref.finalize(x, died.append, k)
        gc.collect()
        died.append(None)
        return x.sum()

    tape = recording.Recording()
    with core.no_grad():
        tape.record(f, (x,), {}, [x])
    assert died.index(None) >= 30  # of 60 most have gone before the call ends
    assert "take more than 1 MiB" in str(tape.why)
    compiled = core.compile(lambda x: (x * 1.01).tanh().exp().sin().cos().sum(), check=3)
    monkeypatch.setattr(recording, "MOST_BYTES", 1 << 16)
    compiled(x).backward()
    assert "take more than 0 MiB" in str(compiled.explain())
    assert x.grad is not None


def test_it_measures_itself_and_steps_back(monkeypatch):
    monkeypatch.setattr(variant, "_GAIN", 0.0)
    f = core.compile(gelu, check=3)
    x = core.randn(8)
    assert core.equal(settled(f, x, calls=6), gelu(x))
    assert "compiling does not help here" in str(f.explain())


def test_a_wrong_replay_is_noticed(monkeypatch):
    f = core.compile(gelu, check=3)
    x = core.randn(8)
    f(x)
    (v,) = f.explain().variants
    right = v.forward
    v.forward = lambda given, *drawn: [t + 1 for t in right(given, *drawn)]
    v.forward.loops = v.forward.kernels = 0
    with pytest.warns(RuntimeWarning, match="something else than the function"):
        y = f(x)
    assert core.equal(y, gelu(x))
    assert core.equal(f(x), gelu(x))


def test_it_is_built_in_the_background_while_the_function_runs():
    f = core.compile(gelu)
    x = core.randn(9)
    assert core.equal(f(x), gelu(x))
    f.wait()
    settled(f, x)
    assert f.explain().variants[0].state == "compiled"


def test_eager_where_somebody_looks_or_changes_what_ops_do():
    f = core.compile(gelu, check=3)
    x = core.randn(5, 4)
    settled(f, x)
    before = dict(f.explain().eager_calls)
    assert not before
    with core.autograd.detect_anomaly():
        f(x)
    with core.autocast("cpu"):
        f(x)
    core.vmap(f)(x)
    with core.compiler.set_stance("force_eager"):
        f(x)
    core.compiler.disable(f)(x)
    assert {"anomaly mode", "inside autocast", "inside vmap", "the stance is force_eager"} <= set(
        f.explain().eager_calls
    )


def test_stances_and_marks():
    x = core.randn(5)
    f = core.compile(gelu, check=3)
    f(x)
    with core.compiler.set_stance("fail_on_recompile"), pytest.raises(RuntimeError, match="Detected recompile"):
        f(core.randn(6))
    with core.compiler.set_stance("eager_on_recompile"):
        f(core.randn(6))
    assert len(f.explain().variants) == 1

    said = []

    @core.compiler.disable
    def stays(x):
        return x * 2

    @core.compile
    def calls(x):
        said.append(core.compiler.is_compiling())
        return stays(x)

    calls(x)
    assert "core.compiler.disable" in str(calls.explain())

    @core.compile(check=3)
    def asks(x):
        return x * (3 if core.compiler.is_compiling() else 2)

    assert not core.compiler.is_compiling()
    core.compiler.reset()
    assert not f.explain().variants


def test_pytorchs_arguments_are_accepted():
    x = core.randn(3)
    for kwargs in ({"dynamic": True}, {"mode": "reduce-overhead"}, {"backend": "eager"}, {"options": {"a": 1}}):
        assert core.allclose(core.compile(gelu, **kwargs)(x), gelu(x))
    assert core.compile(gelu, disable=True) is gelu
    assert core.compile(backend="eager")(gelu) is gelu


def test_methods_and_nesting():
    class Model:
        scale = 2.0

        @core.compile(check=3)
        def apply(self, x):
            return core.exp(x) * self.scale

    m, x = Model(), core.randn(4)
    for _ in range(5):
        assert core.allclose(m.apply(x), core.exp(x) * 2)
    Model.scale = 3.0
    assert core.allclose(m.apply(x), core.exp(x) * 3)

    inner = core.compile(gelu, check=3)
    outer = core.compile(lambda x: inner(x) + 1, check=3)
    assert core.allclose(settled(outer, x), gelu(x) + 1)
    assert outer.explain().variants[0].forward.loops == 1


def test_threads_share_a_variant():
    f = core.compile(gelu, check=3)
    settled(f, core.randn(300, 40))
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(30):
            x = core.tensor(rng.standard_normal((300, 40)).astype("f"))
            if not core.allclose(f(x), gelu(x), atol=1e-5):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_variants_leave_no_memory():
    """Functions that come and go, and arguments that keep changing, leave nothing behind."""
    x = core.randn(64)

    def once(k):
        f = Compiled(lambda x: core.exp(x) * k, check=3)
        for _ in range(5):
            f(x)

    def count():
        gc.collect()
        return len(gc.get_objects())

    for _ in range(3):
        once(2.0)
    before = count()
    for _ in range(30):
        once(2.0)
    assert count() - before < 200


def test_errors_are_the_functions_own():
    def f(x, y):
        return core.exp(x) @ y

    c = core.compile(f, check=3)
    settled(c, core.ones(2, 3), core.ones(3, 4))
    with pytest.raises(RuntimeError) as by_f:
        f(core.ones(2, 3), core.ones(2, 4))
    with pytest.raises(RuntimeError) as by_c:
        c(core.ones(2, 3), core.ones(2, 4))
    assert str(by_c.value) == str(by_f.value)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        c(core.ones(2))


def test_errors_for_values_are_the_functions_own():
    def f(x, index):
        return core.exp(x.gather(1, index)) * 2

    c = core.compile(f, check=3)
    x, index = core.randn(3, 4), core.randint(0, 4, (3, 2))
    settled(c, x, index)
    with pytest.raises(RuntimeError) as by_f:
        f(x, index + 9)
    with pytest.raises(RuntimeError) as by_c:
        c(x, index + 9)
    assert str(by_c.value) == str(by_f.value)
    assert core.allclose(c(x, index), f(x, index))
    assert c.explain().variants[0].state == "compiled"


@pytest.mark.parametrize(
    "f",
    [
        lambda a, b: a // b * 2,
        lambda a, b: a % b * 2,
        lambda a, b: a**b * 2,
        lambda a, b: nn.functional.one_hot(a % 4, 4) * b[0],
        lambda a, b: nn.functional.binary_cross_entropy(a / 9.0, b / 9.0),
        lambda a, b: core.linalg.inv(a.float().reshape(1, -1)[:, :1]) * b,
    ],
)
def test_ops_that_raise_for_some_values_stay_as_they_are(f):
    c = core.compile(f)
    a, b = core.arange(1, 6), core.arange(2, 7)
    for _ in range(5):
        assert core.allclose(c(a, b), f(a, b))
    assert c.explain().graph_count == 0


def test_gradients_that_depend_on_values_stay_as_they_are():
    c = core.compile(lambda x: x.prod() * 2, check=3)
    for n in range(6):
        x = core.ones(3)
        x[0] = float(n % 3)
        x.requires_grad_()
        c(x).backward()
        assert x.grad.tolist() == [2.0, 2.0 * (n % 3), 2.0 * (n % 3)]
    assert "depends on values" in str(c.explain())


def test_copies_begin_anew():
    model = core.compile(nn.Sequential(nn.Linear(3, 3), nn.Tanh()), check=3)
    x = core.randn(2, 3)
    settled(model, x)
    twin = copy.deepcopy(model)
    with core.no_grad():
        twin.get_parameter("_orig_mod.0.weight").zero_()
    assert core.allclose(settled(twin, x), core.tanh(twin._orig_mod[0].bias).expand(2, 3))
    assert core.allclose(model(x), model._orig_mod(x), atol=1e-6)
