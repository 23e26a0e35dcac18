"""Trees: taken apart, put together, with paths and with classes of one's own."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass

import pytest

from core.utils import _pytree as tree

Point = namedtuple("Point", "x y")
TREES = [1, None, [1, [2, 3]], (1,), {"a": 1, "b": (2, [])}, Point(1, [2]), OrderedDict(b=1, a=2),
         defaultdict(list, {"a": 1}), deque([1, 2], maxlen=3)]  # fmt: skip


@pytest.fixture
def kinds(monkeypatch):
    monkeypatch.setattr(tree, "SUPPORTED_NODES", nodes := dict(tree.SUPPORTED_NODES))
    monkeypatch.setattr("core.utils.pytree_nodes.SUPPORTED_NODES", nodes)


@pytest.mark.parametrize("given", TREES, ids=repr)
def test_a_tree_comes_back_from_its_leaves(given):
    leaves, spec = tree.tree_flatten(given)
    again = tree.tree_unflatten(leaves, spec)
    assert again == given
    assert type(again) is type(given)
    assert getattr(again, "maxlen", 0) == getattr(given, "maxlen", 0)
    assert spec == tree.tree_structure(again)
    assert hash(spec) == hash(tree.tree_structure(again))
    assert spec.num_leaves == len(leaves) == len(tree.tree_leaves(given))


def test_functions_are_applied_to_leaves():
    assert tree.tree_map(lambda a, b: a + b, {"x": [1]}, OrderedDict(x=[2])) == {"x": [3]}
    assert tree.tree_map_only(int, lambda x: -x, [1, "a"]) == [-1, "a"]
    assert tree.tree_any_only(int, lambda x: x > 1, [1, 2, "a"])
    assert not tree.tree_all_only(int, lambda x: x > 1, [1, 2, "a"])
    assert tree.tree_all(bool, [1, 2])
    assert tree.tree_any(bool, [0, 2])
    seen: list[int] = []
    assert tree.tree_map_(seen.append, given := [1, (2,)]) is given
    assert seen == [1, 2]
    assert tree.tree_map(len, [[1], [2, 3]], is_leaf=lambda x: x != [[1], [2, 3]]) == [1, 2]
    assert tree.arg_tree_leaves([1], a=(2,)) == [1, 2]


def test_trees_of_another_structure_are_refused():
    for other in ({"y": 1}, [1], {"x": 1, "y": 2}):
        with pytest.raises(ValueError, match="ismatch"):
            tree.tree_map(lambda a, b: a, {"x": 1}, other)
    with pytest.raises(ValueError, match="holds 1 items"):
        tree.tree_unflatten([1, 2], tree.tree_structure([0]))
    with pytest.raises(TypeError, match="instance of TreeSpec"):
        tree.tree_unflatten([1], [0])


def test_paths_lead_to_leaves():
    given = {"a": [1, Point(2, 3)]}
    found = tree.tree_leaves_with_path(given)
    assert [tree.keystr(p) for p, _ in found] == ["['a'][0]", "['a'][1].x", "['a'][1].y"]
    assert [tree.key_get(given, p) for p, _ in found] == [1, 2, 3]


def test_classes_of_ones_own_are_nodes(kinds):
    class Pair:
        def __init__(self, a, b):
            self.a, self.b = a, b

    tree.register_pytree_node(Pair, lambda p: ([p.a], p.b), lambda values, b: Pair(*values, b))
    found = tree.tree_map(lambda x: x * 2, Pair(1, "b"))
    assert (found.a, found.b) == (2, "b")
    with pytest.raises(ValueError, match="already registered"):
        tree.register_pytree_node(Pair, None, None)
    with pytest.raises(ValueError, match="flatten_with_keys_fn"):
        tree.tree_leaves_with_path(Pair(1, 2))

    @dataclass
    class Data:
        x: int
        y: int = 0

    tree.register_dataclass(Data)
    assert tree.tree_map(lambda x: x + 1, Data(1)) == Data(2, 1)
    assert [tree.keystr(p) for p, _ in tree.tree_leaves_with_path(Data(1))] == [".x", ".y"]


def test_leaves_are_spread_over_a_structure():
    spec = tree.tree_structure({"a": [0, 0], "b": 0})
    assert tree._broadcast_to_and_flatten({"a": 1, "b": 2}, spec) == [1, 1, 2]
    assert tree._broadcast_to_and_flatten(5, spec) == [5, 5, 5]
    assert tree._broadcast_to_and_flatten([1], spec) is None
