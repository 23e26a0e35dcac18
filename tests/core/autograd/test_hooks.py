"""Hooks: of tensors, of nodes, after accumulation; retained gradients; what in-place writes do to them."""

from __future__ import annotations

import pytest

import core
from core.autograd import grad


def leaf(*values: float) -> core.Tensor:
    return core.tensor(values if len(values) != 1 else values[0], requires_grad=True)


# -- of tensors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("on_leaf", [True, False])
def test_hooks_run_in_order_and_replace(on_leaf):
    x = leaf(1.0)
    t = x if on_leaf else x * 1
    seen = []
    t.register_hook(lambda g: seen.append(("first", g.item())))
    t.register_hook(lambda g: g * 2)
    t.register_hook(lambda g: seen.append(("third", g.item())))
    (t * 3).backward()
    assert seen == [("first", 3), ("third", 6)]
    assert x.grad.item() == 6


@pytest.mark.parametrize("on_leaf", [True, False])
def test_a_hook_hears_the_whole_gradient_once(on_leaf):
    x = leaf(1.0)
    t = x if on_leaf else x * 1
    seen = []
    t.register_hook(lambda g: seen.append(g.item()))
    (t * 3 + t * t + t).backward()
    assert seen == [6]


def test_handles_remove():
    x, seen = leaf(1.0), []
    handle = x.register_hook(lambda g: seen.append("a"))
    x.register_hook(lambda g: seen.append("b"))
    handle.remove()
    handle.remove()  # twice is no error
    (x * 1).backward()
    assert seen == ["b"]
    with x.register_hook(lambda g: seen.append("c")):
        (x * 1).backward()
    (x * 1).backward()
    assert seen == ["b", "b", "c", "b"]


def test_a_hook_may_remove_itself_while_it_runs():
    x, seen = leaf(1.0), []

    def once(g):
        seen.append("once")
        handle.remove()

    handle = x.register_hook(once)
    x.register_hook(lambda g: seen.append("always"))
    (x * 1).backward()
    (x * 1).backward()
    assert seen == ["once", "always", "always"]


def test_hooks_of_an_output_among_several():
    x, seen = leaf(1.0, 2.0, 3.0, 4.0), []
    a, b = (x * 1).split(2)
    b.register_hook(lambda g: seen.append(g.tolist()))
    b.register_hook(lambda g: g * 10)
    (a.sum() + (b * 2).sum()).backward()
    assert seen == [[2, 2]]
    assert x.grad.tolist() == [1, 1, 20, 20]


def test_what_a_hook_returns_must_fit():
    x = leaf(1.0, 2.0)
    handle = x.register_hook(lambda g: 3.0)
    with pytest.raises(TypeError, match="must return a Tensor or None"):
        x.sum().backward()
    handle.remove()
    handle = x.register_hook(lambda g: g[:1])
    with pytest.raises(RuntimeError, match="has changed the size of value"):
        x.sum().backward()
    handle.remove()
    x.register_hook(lambda g: g.double())
    with pytest.raises(RuntimeError, match="has changed the type of value"):
        x.sum().backward()


def test_where_a_hook_may_not_be():
    with pytest.raises(RuntimeError, match="cannot register a hook on a tensor that doesn't require gradient"):
        core.ones(2).register_hook(lambda g: None)
    with pytest.raises(TypeError, match="a hook must be callable"):
        leaf(1.0).register_hook(3)


@pytest.mark.parametrize("create_graph", [False, True])
def test_hooks_run_in_the_grad_mode_of_the_pass(create_graph):
    x, seen = leaf(1.0), []
    y = x * x
    y.register_hook(lambda g: seen.append(core.is_grad_enabled()))
    x.register_hook(lambda g: seen.append(g.requires_grad))
    grad(y, x, create_graph=create_graph)
    assert seen == [create_graph, create_graph]


def test_a_hook_takes_part_in_the_second_order():
    x = leaf(2.0)
    y = x * x
    y.register_hook(lambda g: g * x)
    (g,) = grad(y, x, create_graph=True)  # x * 2x
    (h,) = grad(g, x)
    assert (g.item(), h.item()) == (8, 8)


# -- retained gradients ------------------------------------------------------------------------------------------------


def test_retain_grad():
    x = leaf(1.0, 2.0)
    y = x * 3
    y.retain_grad()
    y.retain_grad()
    assert y.retains_grad
    z = (y * y).sum()
    z.backward(retain_graph=True)
    assert y.grad.tolist() == [6, 12]
    z.backward()
    assert y.grad.tolist() == [12, 24]
    assert x.grad.tolist() == [36, 72]


def test_retain_grad_comes_after_the_hooks():
    x = leaf(1.0)
    y = x * 3
    y.retain_grad()
    y.register_hook(lambda g: g * 2)
    y.backward()
    assert (y.grad.item(), x.grad.item()) == (2, 6)


def test_retain_grad_of_leaves_and_constants():
    x = leaf(1.0)
    x.retain_grad()
    assert not x.retains_grad
    with pytest.raises(RuntimeError, match="can't retain_grad on Tensor that has requires_grad=False"):
        core.ones(2).retain_grad()


def test_retain_grad_of_what_is_gone_is_no_error():
    x = leaf(1.0)
    y = x * 3
    y.retain_grad()
    z = y * 2
    del y
    z.backward()
    assert x.grad.item() == 6


def test_retain_grad_of_an_output_among_several():
    x = leaf(1.0, 2.0)
    a, b = (x * 1).unbind()
    b.retain_grad()
    (a + b * 5).backward()
    assert b.grad.item() == 5


def test_in_place_moves_the_retained_gradient_and_not_the_hooks():
    """As PyTorch: hooks belong to the value they were registered on, .grad to the newest one."""
    x, seen = leaf(1.0, 1.0), []
    y = x * 1
    y.retain_grad()
    y.register_hook(lambda g: seen.append(("before", g.tolist())))
    y.mul_(3)
    y.register_hook(lambda g: seen.append(("after", g.tolist())))
    y.sum().backward()
    assert seen == [("after", [1, 1]), ("before", [3, 3])]
    assert y.grad.tolist() == [1, 1]


def test_retained_gradient_of_a_base_written_through_a_view():
    x = leaf(1.0, 1.0)
    y = x * 1
    y.retain_grad()
    y[0] *= 5
    (y * core.tensor([2.0, 3.0])).sum().backward()
    assert y.grad.tolist() == [2, 3]
    assert x.grad.tolist() == [10, 3]


def test_retained_gradient_of_a_view_whose_base_is_written():
    x = leaf(1.0, 1.0)
    y = x * 1
    v = y[:1]
    v.retain_grad()
    y.mul_(5)
    (v * 2).sum().backward()
    assert v.grad.tolist() == [2]
    assert x.grad.tolist() == [10, 0]


# -- of nodes ----------------------------------------------------------------------------------------------------------


def test_node_hooks_see_and_replace():
    x, w, seen = leaf(2.0), leaf(3.0), []
    y = x * w
    y.grad_fn.register_prehook(lambda grads: seen.append(("pre", [g.item() for g in grads])))
    y.grad_fn.register_prehook(lambda grads: (grads[0] * 10,))
    y.grad_fn.register_hook(lambda ins, outs: seen.append(("post", [g.item() for g in ins], [g.item() for g in outs])))
    y.grad_fn.register_hook(lambda ins, outs: (ins[0] + 1, ins[1]))
    y.backward()
    assert seen == [("pre", [1]), ("post", [30, 20], [10])]
    assert (x.grad.item(), w.grad.item()) == (31, 20)


def test_node_hooks_are_removed():
    x, seen = leaf(2.0), []
    y = x * 3
    pre = y.grad_fn.register_prehook(lambda grads: seen.append("pre"))
    post = y.grad_fn.register_hook(lambda ins, outs: seen.append("post"))
    pre.remove()
    post.remove()
    y.backward()
    assert seen == []


def test_node_hooks_of_inputs_without_gradient_and_other_dtypes():
    x, seen = leaf(2.0), []
    y = x.double() * 3
    y.grad_fn.register_hook(lambda ins, outs: seen.append([None if g is None else g.dtype for g in ins]))
    y.grad_fn.next_functions[0][0].register_hook(lambda ins, outs: seen.append((ins[0].dtype, outs[0].dtype)))
    y.backward()
    assert seen == [[core.float64, None], (core.float32, core.float64)]


def test_node_hooks_of_several_outputs():
    x, seen = leaf(1.0, 2.0), []
    a, b = (x * 1).unbind()
    a.grad_fn.register_prehook(lambda grads: seen.append([None if g is None else g.item() for g in grads]))
    (b * 4).backward()
    assert seen == [[None, 4]]
    assert x.grad.tolist() == [0, 4]


def test_what_node_hooks_keep_is_not_written_later():
    x, kept = leaf(1.0, 2.0), []
    y = x * 3
    y.grad_fn.register_hook(lambda ins, outs: kept.extend(g for g in (*ins, *outs) if g is not None))
    y.sum().backward()
    x.sum().backward()
    assert [k.tolist() for k in kept] == [[3, 3], [1, 1]]


def test_tensor_hooks_run_before_node_prehooks():
    x, seen = leaf(2.0), []
    y = x * 3
    y.grad_fn.register_prehook(lambda grads: seen.append("prehook"))
    y.register_hook(lambda g: seen.append("tensor"))
    y.grad_fn.register_hook(lambda ins, outs: seen.append("hook"))
    x.register_hook(lambda g: seen.append("leaf"))
    x.register_post_accumulate_grad_hook(lambda t: seen.append("accumulated"))
    y.backward()
    assert seen == ["tensor", "prehook", "hook", "leaf", "accumulated"]


# -- after accumulation ------------------------------------------------------------------------------------------------


def test_post_accumulate_hooks():
    x, seen = leaf(2.0), []
    x.register_hook(lambda g: g * 2)
    handle = x.register_post_accumulate_grad_hook(lambda t: seen.append((t is x, t.grad.item())))
    (x * 3).backward()
    (x * 3).backward()
    handle.remove()
    (x * 3).backward()
    assert seen == [(True, 6), (True, 12)]


def test_post_accumulate_hooks_may_clear_the_grad():
    x = leaf(2.0)

    def step(t):
        with core.no_grad():
            t -= 0.5 * t.grad
        t.grad = None

    x.register_post_accumulate_grad_hook(step)
    (x * 3).backward()
    assert x.grad is None
    assert x.item() == 0.5


def test_post_accumulate_hooks_are_for_leaves():
    y = leaf(1.0) * 2
    with pytest.raises(RuntimeError, match="post accumulate grad hooks cannot be registered on non-leaf tensors"):
        y.register_post_accumulate_grad_hook(lambda t: None)


def test_post_accumulate_hooks_run_while_the_pass_goes_on():
    """A leaf is served when its last edge has run: so many buckets can be sent before the pass is over."""
    layers = [core.nn.Linear(4, 4) for _ in range(10)]
    shared = core.ones(4, requires_grad=True)
    order = []
    for k, layer in enumerate(layers):
        layer.weight.register_post_accumulate_grad_hook(lambda p, k=k: order.append((k, p.grad is not None)))
    shared.register_post_accumulate_grad_hook(lambda p: order.append(("shared", True)))
    x = core.ones(2, 4)
    for k, layer in enumerate(layers):
        x = layer(x) * shared
        x.register_hook(lambda g, k=k: order.append(("output", k)))
    x.sum().backward()
    served = [what for what, _ in order if what != "output"]
    assert served == [*range(9, 0, -1), "shared", 0] or served == [*range(9, -1, -1), "shared"]
    assert order.index((9, True)) < order.index(("output", 5))
    expected = [p.grad.clone() for p in (shared, *(layer.weight for layer in layers))]
    for p in (shared, *(layer.weight for layer in layers)):
        p.grad, p._post_hooks = None, None
    y = core.ones(2, 4)
    for layer in layers:
        y = layer(y) * shared
    y.sum().backward()
    for p, wanted in zip((shared, *(layer.weight for layer in layers)), expected, strict=True):
        assert core.equal(p.grad, wanted)


# -- what hooks put off ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("create_graph", [False, True])
def test_callbacks_run_when_all_leaves_are_served(create_graph):
    x, y = leaf(1.0, 2.0), leaf(3.0)
    seen = []
    queue = core.autograd.Variable._execution_engine.queue_callback

    def last():
        seen.append(("last", x.grad.tolist(), y.grad.tolist()))

    x.register_hook(lambda g: queue(lambda: (seen.append("first"), queue(last))))
    (x.sum() * y).sum().backward(create_graph=create_graph)
    assert seen == ["first", ("last", [3.0, 3.0], 3.0)]
    y.sum().backward()
    assert len(seen) == 2


def test_a_callback_belongs_to_the_pass_in_which_it_was_queued():
    x, inner = leaf(1.0), leaf(2.0)
    seen = []
    queue = core.autograd.Variable._execution_engine.queue_callback

    def hook(g):
        queue(lambda: seen.append("outer"))
        with core.enable_grad():
            inner.register_hook(lambda _: queue(lambda: seen.append("inner")))
            (inner * inner).backward()
        seen.append("hook")

    x.register_hook(hook)
    (x * 2).backward()
    assert seen == ["inner", "hook", "outer"]


def test_a_callback_needs_a_pass():
    with pytest.raises(RuntimeError, match="Final callbacks can only be installed during backward pass"):
        core.autograd.Variable._execution_engine.queue_callback(print)
