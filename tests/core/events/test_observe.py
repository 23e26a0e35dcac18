"""Observers: which events come, in which order, complete; and none where nobody listens."""

from __future__ import annotations

import os

import pytest

import core
from core.base.source import locate
from core.events import observe


class Listen(observe.Observer):
    """Writes everything down."""

    def __init__(self) -> None:
        self.heard: list = []

    def op(self, event):
        self.heard.append(event)

    def op_failed(self, op, inputs, place, error):
        self.heard.append(("failed", op, tuple(getattr(t, "shape", t) for t in inputs), locate(*place).code, error))

    def backward(self, event):
        self.heard.append(event)

    def gradient(self, event):
        self.heard.append(event)

    def cut(self, event):
        self.heard.append(event)

    def span(self, event):
        self.heard.append(event)

    def of(self, kind):
        return [e for e in self.heard if isinstance(e, kind)]


@pytest.fixture
def listen():
    observer = Listen()
    with observe.observing(observer):
        yield observer


def test_nothing_comes_without_observers():
    observer = Listen()
    x = core.ones(2, requires_grad=True)
    with observe.observing(observer):
        pass
    (x * 2).sum().backward()
    x.detach().numpy()
    assert observer.heard == []
    assert observe.observers == ()


def test_adding_and_removing():
    a, b = Listen(), Listen()
    observe.add(a)
    observe.add(a)
    observe.add(b)
    assert observe.observers == (a, b)
    observe.remove(a)
    observe.remove(a)
    assert observe.observers == (b,)
    observe.remove(b)
    with pytest.raises(KeyError), observe.observing(a):
        raise KeyError
    assert observe.observers == ()


def test_what_an_op_tells(listen):
    x = core.ones(2, 3, requires_grad=True)
    y = core.where(x > 0, x, 2.0)
    first, second = listen.of(observe.OpEvent)
    assert (first.op, second.op) == ("gt", "where")
    assert second.inputs[1] is x
    assert second.inputs[2] == 2.0
    assert second.outputs == (y,)
    assert second.node is y.grad_fn
    assert first.node is None
    assert (second.kernel, second.backend) == (core.explain("where", x > 0, x, 2.0).runs[:2])
    assert second.stop_ns >= second.start_ns >= first.stop_ns
    assert second.phase == "forward"
    assert second.declared is core.declare.op.table["where"]
    assert locate(*second.place).code == "core.where(x > 0, x, 2.0)"


def test_people_s_names(listen):
    x = core.ones(2)
    x / 2, x**2, x**3, x.clamp(0, 1), core.nn.functional.gelu(x)
    assert [e.op for e in listen.of(observe.OpEvent)] == ["div", "pow", "pow", "clamp", "gelu"]


def test_parameters_are_told(listen):
    core.nn.functional.leaky_relu(core.ones(2), 0.25)
    core.ones(2, 3).sum(1, keepdim=True)
    maps, sums = listen.of(observe.OpEvent)
    assert maps.params == (0.25,)
    assert sums.params == {"dim": (1,), "keepdim": True}


def test_fast_and_general_ways_compute_the_same():
    def compute():
        x = core.linspace(-1, 1, 5).requires_grad_()
        y = ((x + 1) * x / 2 - x.tanh()) ** 2
        y.sum().backward()
        return y.detach().tolist(), x.grad.tolist()

    plain = compute()
    with observe.observing(Listen()):
        assert compute() == plain


def test_backward_tells_every_node_in_order(listen):
    x, w = core.ones(2, requires_grad=True), core.ones(2, requires_grad=True)
    y = (x * w).tanh().sum()
    nodes = [y.grad_fn, y.grad_fn.next_functions[0][0], y.grad_fn.next_functions[0][0].next_functions[0][0]]
    y.backward()
    assert isinstance(listen.heard[-1], observe.SpanEvent)
    events = listen.of(observe.BackwardEvent)
    assert [e.node for e in events] == nodes
    assert all(e.stop_ns >= e.start_ns for e in events)
    assert [len(e.results) for e in events] == [1, 1, 2]
    assert events[1].kernel == "tanh_backward_f32"
    gradients = listen.of(observe.GradientEvent)
    assert {id(g.leaf) for g in gradients} == {id(x), id(w)}
    assert all(g.gradient.tolist() == g.leaf.grad.tolist() for g in gradients)
    (span,) = listen.of(observe.SpanEvent)
    assert span.name == "backward"
    assert span.start_ns <= events[0].start_ns
    assert span.stop_ns >= events[-1].stop_ns
    assert locate(*span.place).code == "y.backward()"


def test_ops_inside_gradients_are_of_the_phase_backward(listen):
    x = core.ones(2, 2, requires_grad=True)
    x.t().sum().backward()
    assert {e.phase for e in listen.of(observe.OpEvent)} == {"forward", "backward"}
    assert observe.phase == "forward"
    listen.heard.clear()
    core.autograd.grad(x.exp().sum(), x, create_graph=True)
    backward = [e for e in listen.of(observe.OpEvent) if e.phase == "backward"]
    assert [e.op for e in backward if e.node is not None] == ["mul"]


def test_a_kept_gradient_is_not_written_later(listen):
    x = core.ones(2, requires_grad=True)
    for _ in range(2):
        (x * 3).sum().backward()
    assert [e.gradient.tolist() for e in listen.of(observe.GradientEvent)] == [[3, 3], [3, 3]]


def test_failures_are_told_and_raised(listen):
    with pytest.raises(RuntimeError, match="must match") as caught:
        core.ones(2) + core.ones(3)
    assert listen.heard == [("failed", "add", ((2,), (3,)), "core.ones(2) + core.ones(3)", caught.value)]
    listen.heard.clear()
    with pytest.raises(RuntimeError, match="same device"):
        core.ones(2) * core.ones(2, device="cuda")
    with pytest.raises(TypeError):
        core.ones(2) * "a"
    with pytest.raises(RuntimeError, match="does not require grad"):
        core.ones(()).backward()
    assert [h[:2] for h in listen.heard] == [("failed", "mul"), ("failed", "mul"), ("failed", "backward")]


class Broken(Listen):
    """Raises at one kind of event; what `error` is, comes out of it."""

    def __init__(self, what, error):
        super().__init__()
        self.what, self.error, self.told = what, error, []

    def __getattribute__(self, name):
        if name != "what" and name == self.what:
            raise self.error
        return super().__getattribute__(name)

    def failed(self, error):
        self.told.append(error)


EVENTS = ["starting", "op", "op_failed", "backward", "gradient", "cut", "span", "update", "enter_module",
          "exit_module", "returned"]  # fmt: skip


def everything():
    """Something of every event; the numbers it comes to."""
    layer = core.nn.Linear(2, 2)
    with core.no_grad():
        for p in layer.parameters():
            p.fill_(0.5)
    step = core.optim.SGD(layer.parameters(), lr=0.1)
    loss = (layer(core.ones(3, 2)) * core.tensor(core.ones(2).numpy())).sum()
    loss.backward()
    step.step()
    with pytest.raises(RuntimeError, match=r"broadcast|size of tensor"):
        core.ones(2) + core.ones(3)
    return [loss.item(), *(p.tolist() for p in layer.parameters())]


@pytest.mark.parametrize("what", EVENTS)
def test_an_observer_s_own_error_ends_the_telling_and_nothing_else(what):
    plain = everything()
    broken, whole = Broken(what, ZeroDivisionError("its own")), Listen()
    with observe.observing(broken), observe.observing(whole):
        assert everything() == plain
        if what != "returned":  # nobody here asks for lineage
            assert broken.told == [broken.error]
            assert observe.observers == (whole,)
    assert len(whole.of(observe.OpEvent)) > 4


def test_an_observer_that_says_nothing_of_its_errors_is_told_of_where_python_tells_of_such(monkeypatch):
    told = []
    monkeypatch.setattr("sys.unraisablehook", told.append)

    class Silent(observe.Observer):
        def op(self, event):
            raise ZeroDivisionError

    with observe.observing(Silent()):
        core.ones(2) + 1
    assert [u.exc_type for u in told] == [ZeroDivisionError]


@pytest.mark.parametrize("what", [e for e in EVENTS if e != "returned"])
def test_what_is_meant_for_the_program_passes_an_observer_once(what):
    broken = Broken(what, KeyboardInterrupt())
    with observe.observing(broken):
        with pytest.raises(KeyboardInterrupt):
            everything()
        assert broken.told == []
        assert observe.observers == (broken,)
    assert core.is_grad_enabled()
    assert observe.phase == "forward"


def test_an_observer_that_leaves_inside_a_function_of_the_user_s_is_gone():
    class Leaving(core.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            observe.remove(listener)
            return x * 2

    listener = Listen()
    observe.add(listener)
    Leaving.apply(core.ones(2))
    assert observe.observers == ()
    assert listener.heard == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_is_observed_by_nobody(listen):
    assert core.ones(2).exp().sum().item() > 0
    child = os.fork()
    if not child:
        os._exit(len(observe.observers))
    assert os.waitpid(child, 0)[1] == 0
    assert observe.observers == (listen,)


@pytest.mark.parametrize(
    ("leave", "kind"),
    [
        (lambda x: x.detach(), "detach"),
        (lambda x: x.detach_(), "detach"),
        (lambda x: x.data, "data"),
        (lambda x: x.detach().numpy(), "numpy"),
        (lambda x: x.sum().item(), "item"),
        (lambda x: float(x.sum()), "item"),
        (lambda x: x.tolist(), "tolist"),
        (lambda x: core.tensor(x), "tensor"),
        (lambda x: core.tensor([x[0], x[1]]), "tensor"),
        (lambda x: core.tensor([[x[0], 2.0]]), "tensor"),
    ],
)
def test_cuts(listen, leave, kind):
    x = core.ones(2, requires_grad=True) * 1
    leave(x)
    assert kind in [e.kind for e in listen.of(observe.CutEvent)]
    assert all("test_observe.py" in locate(*e.place).file for e in listen.of(observe.CutEvent))


def test_a_custom_function_is_one_op(listen):
    class Twice(core.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x + x * 1

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = core.ones(2, requires_grad=True)
    y = Twice.apply(x)
    (event,) = listen.of(observe.OpEvent)
    assert (event.op, event.kernel, event.backend, event.node) == ("Twice", "Twice.forward", "Python", y.grad_fn)
    assert (event.inputs, event.outputs) == ((x,), (y,))
    assert locate(*event.place).code == "Twice.apply(x)"
    y.sum().backward()
    assert [e.node.name() for e in listen.of(observe.BackwardEvent)] == ["SumBackward0", "TwiceBackward"]


def test_a_custom_function_that_fails(listen):
    class Broken(core.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x + core.ones(5)

    with pytest.raises(RuntimeError, match="must match"):
        Broken.apply(core.ones(2))
    assert [h[1] for h in listen.heard] == ["Broken"]
    core.ones(2) + 1
    assert len(listen.of(observe.OpEvent)) == 1


def test_in_place_forms_tell_their_op(listen):
    x = core.ones(2)
    x.mul_(3)
    event = listen.of(observe.OpEvent)[0]
    assert event.op == "mul"
    assert locate(*event.place).code == "x.mul_(3)"
