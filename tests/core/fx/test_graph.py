"""Graphs and their modules: written, changed, printed, copied, run node by node."""

from __future__ import annotations

import copy
import pickle
import sys

import pytest

import core
from core import fx, nn
from core.fx.passes.infra.pass_base import PassBase, PassResult


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)
        self.register_buffer("c", core.ones(2))

    def forward(self, x):
        return core.relu(self.a(x)) + self.c


def traced():
    return fx.symbolic_trace(Net())


def test_nodes_are_put_moved_and_taken_away():
    gm = traced()
    gm.add_submodule("b", nn.Tanh())
    relu = next(n for n in gm.graph.nodes if n.target is core.relu)
    with gm.graph.inserting_after(relu):
        tanh = gm.graph.call_function(core.tanh, (relu,))
        late = gm.graph.call_method("neg", (tanh,))
    relu.replace_all_uses_with(late, delete_user_cb=lambda user: user is not tanh)
    with gm.graph.inserting_before(relu):
        unused = gm.graph.call_module("b", (relu.args[0],))
    assert [n.name for n in gm.graph.nodes] == ["x", "a", "b", "relu", "tanh", "neg", "c", "add", "output"]
    assert relu < tanh < late
    assert unused.users == {}
    gm.recompile()
    x = core.randn(3, 2)
    assert core.equal(gm(x), -core.tanh(core.relu(gm.a(x))) + 1)
    with pytest.raises(RuntimeError, match="but it still had 1 users"):
        gm.graph.erase_node(relu)
    assert gm.graph.eliminate_dead_code()
    assert "b" not in [n.name for n in gm.graph.nodes]
    gm.delete_all_unused_submodules()
    assert [n for n, _ in gm.named_children()] == ["a"]
    with gm.graph.inserting_before():
        first = gm.graph.create_node("call_function", core.ones, (2,), name="first")
    assert next(iter(gm.graph.nodes)) is first
    late.append(first)
    assert late.next is first
    assert first.prev is late
    for n in gm.graph.nodes:  # nodes may go while the graph is gone through
        if not n.users and n.op == "call_function":
            gm.graph.erase_node(n)
    assert "first" not in [n.name for n in gm.graph.nodes]


def test_arguments_are_changed_by_assignment():
    gm = traced()
    add = next(n for n in gm.graph.nodes if n.name == "add")
    assert [n.name for n in add.all_input_nodes] == ["relu", "c"]
    relu, c = add.args
    add.update_arg(1, 2.0)
    assert c.users == {}
    add.insert_arg(1, relu)
    add.args = add.args[:1] + add.args[2:]
    add.update_kwarg("alpha", 2)
    assert (add.args, add.kwargs) == ((relu, 2.0), {"alpha": 2})
    add.args = ([relu, relu], 1)
    with pytest.raises(NotImplementedError, match="does not support mutation"):
        add.args[0].append(1)
    assert isinstance(add.args[0], list)


def test_lint_names_what_is_wrong():
    gm = traced()
    relu = next(n for n in gm.graph.nodes if n.name == "relu")
    relu.args = (next(n for n in gm.graph.nodes if n.name == "add"),)
    with pytest.raises(RuntimeError, match="was used before it has been defined"):
        gm.graph.lint()
    gm = traced()
    next(n for n in gm.graph.nodes if n.name == "a").target = "missing"
    with pytest.raises(RuntimeError, match="references nonexistent attribute"):
        gm.graph.lint()
    gm = traced()
    next(n for n in gm.graph.nodes if n.name == "relu").args = (fx.Graph().placeholder("z"),)
    with pytest.raises(RuntimeError, match="does not belong to this Graph"):
        gm.graph.lint()
    for op, target in (("call", "x"), ("call_function", "x"), ("call_method", core.relu)):
        with pytest.raises(ValueError, match=r"fx\.Node"):
            gm.graph.create_node(op, target)


def test_a_dict_gives_what_a_graph_names():
    graph = fx.Graph()
    x = graph.placeholder("x", core.Tensor, default_value=1.0)
    graph.output((graph.call_module("inner.layer", (x,)), graph.get_attr("w")))
    layer, w = nn.Linear(1, 1), core.ones(1)
    gm = fx.GraphModule({"inner.layer": layer, "w": w}, graph, "Named")
    assert type(gm).__name__ == "Named"
    assert gm.inner.layer is layer
    assert gm(core.ones(1, 1))[1] is w
    with pytest.raises(RuntimeError, match="but it was not provided in root"):
        fx.GraphModule({}, graph)
    with pytest.raises(AssertionError, match="Expected a Graph instance"):
        gm.graph = 3
    assert gm.add_submodule("more.deep", nn.ReLU())
    assert gm.delete_submodule("more.deep")
    assert not gm.delete_submodule("more.deep")


def test_code_is_python_and_tracebacks_show_it():
    gm = traced()
    assert gm.code.strip().splitlines() == [
        "def forward(self, x):", "    a = self.a(x);  x = None", "    relu = torch.relu(a);  a = None",
        "    c = self.c", "    add = relu + c;  relu = c = None", "    return add"]  # fmt: skip
    assert "class Net(torch.nn.Module):" in gm.print_readable(print_output=False)
    assert (
        str(gm.graph).splitlines()[1].strip() == "%a : [num_users=1] = call_module[target=a](args = (%x,), kwargs = {})"
    )
    f = fx.symbolic_trace(lambda x: (x.to(core.float64), x[None, 1:, ...] * -2.0, x.sum(dim=(0, 1)), x.new_zeros([2])))
    assert "x.to(torch.float64)" in f.code
    assert "* (-2.0)" in f.code
    assert "[(None, slice(1, None, None), Ellipsis)]" in f.code
    assert len(f(core.ones(2, 2))) == 4


def test_copies_and_pickles_run_as_before(tmp_path):
    gm, x = traced(), core.randn(3, 2)
    gm.meta["k"] = 1
    for other in (copy.deepcopy(gm), copy.copy(gm), pickle.loads(pickle.dumps(gm)), fx.symbolic_trace(gm)):
        assert core.equal(other(x), gm(x))
        assert [n.name for n in other.graph.nodes] == [n.name for n in gm.graph.nodes]
        assert type(other).__name__ == "Net"
    deep = copy.deepcopy(gm)
    deep.a.weight.data.zero_()
    assert gm.a.weight.abs().sum() > 0
    gm.to_folder(tmp_path / "written", "Written")
    sys.path.insert(0, str(tmp_path))
    try:
        from written import Written
    finally:
        sys.path.remove(str(tmp_path))
    assert core.equal(Written()(x), gm(x))


def test_graphs_are_run_and_rewritten_node_by_node():
    gm, x = traced(), core.randn(3, 2)
    assert core.equal(fx.Interpreter(gm).run(x), gm(x))
    assert core.equal(fx.Interpreter(gm).boxed_run([x]), gm(x))
    add = next(n for n in gm.graph.nodes if n.name == "relu")
    assert core.equal(fx.Interpreter(gm).run(x, initial_env={add: core.zeros(3, 2)}), core.ones(3, 2))
    with pytest.raises(RuntimeError, match="Expected positional argument for parameter x"):
        fx.Interpreter(gm).run()
    with pytest.raises(RuntimeError) as raised:
        fx.Interpreter(gm).run(core.randn(3, 5))
    assert any("While executing %a" in note for note in raised.value.__notes__)

    class Softer(fx.Transformer):
        def call_function(self, target, args, kwargs):
            return super().call_function(core.tanh if target is core.relu else target, args, kwargs)

    soft = Softer(gm).transform()
    assert core.equal(soft(x), core.tanh(gm.a(x)) + 1)
    assert soft.a is gm.a


def test_parts_are_replaced():
    def f(x, y):
        return core.relu(x + y) + core.relu(y + x) * core.relu(x - y)

    gm = fx.symbolic_trace(f)
    found = fx.replace_pattern(gm, lambda a, b: core.relu(a + b), lambda a, b: core.maximum(a + b, core.zeros_like(a)))
    assert len(found) == 2
    assert found[0].anchor.name == "relu"
    x, y = core.randn(4), core.randn(4)
    assert core.allclose(gm(x, y), f(x, y))
    assert sum(n.target is core.maximum for n in gm.graph.nodes) == 2
    gm.graph.lint()
    shared = fx.symbolic_trace(lambda x: core.relu(x + 1) + (x + 1))
    again = fx.symbolic_trace(lambda x: (lambda y: core.relu(y) + y)(x + 1))
    assert len(fx.replace_pattern(shared, lambda a: core.relu(a + 1), lambda a: a)) == 1
    assert fx.replace_pattern(again, lambda a: core.relu(a + 1), lambda a: a) == []
    chain = fx.symbolic_trace(lambda x: core.neg(core.neg(core.neg(core.neg(x)))))
    assert len(fx.replace_pattern(chain, lambda a: core.neg(core.neg(a)), lambda a: a * 1)) == 2
    assert chain(x).tolist() == x.tolist()


def test_a_pass_changes_a_module():
    class Halves(PassBase):
        def call(self, graph_module):
            for n in graph_module.graph.find_nodes(op="call_function", target=core.relu):
                n.target = core.sigmoid
            graph_module.recompile()
            return PassResult(graph_module, True)

    gm = traced()
    result = Halves()(gm)
    x = core.zeros(1, 2)
    assert result.modified
    assert core.equal(gm(x), core.sigmoid(gm.a(x)) + 1)
