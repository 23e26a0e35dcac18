"""`Sequential`, `ModuleList`, `ModuleDict`, `ParameterList` and `ParameterDict` beside PyTorch's."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from .scenes import differences, said, tried  # noqa: E402

SCENES: dict[str, Callable[[Any, Any], Iterator[Any]]] = {}


def scene(f: Callable[[Any, Any], Iterator[Any]]) -> Callable[[Any, Any], Iterator[Any]]:
    SCENES[f.__name__] = f
    return f


def after(make: Callable[[], Any], *changes: Callable[[Any], Any]) -> Iterator[Any]:
    """What each change gives, on a fresh one, and how that stands afterwards."""
    for change in changes:
        one = make()
        got = tried(lambda one=one, change=change: change(one))
        yield got, tried(lambda one=one: repr(one)), tried(lambda one=one: (list(one.state_dict()), len(one)))


def iadd(a: Any, b: Any) -> Any:
    a += b
    return a


def imul(a: Any, b: Any) -> Any:
    a *= b
    return a


@scene
def sequential(lib: Any, n: Any) -> Iterator[Any]:
    def make() -> Any:
        return n.Sequential(n.Linear(1, 2), n.ReLU(), n.Linear(2, 3))

    def named() -> Any:
        return n.Sequential(OrderedDict(a=n.Linear(1, 2), b=n.Tanh(), c=n.Linear(2, 1)))

    yield repr(n.Sequential()), repr(named()), tried(lambda: n.Sequential(3)), tried(lambda: n.Sequential([n.ReLU()]))
    yield tried(lambda: n.Sequential({"a": n.ReLU()})), tried(lambda: n.Sequential(None))
    for m in (make, named):
        if m is make:  # where children have names, PyTorch raises or leaves names behind; here they are numbered
            yield from after(
                m,
                lambda s: s.insert(1, n.Tanh()) is s,
                lambda s: s.insert(-1, n.Tanh()),
                lambda s: s.insert(3, n.Tanh()),
                lambda s: imul(s, 2),
            )
        yield from after(
            m,
            lambda s: s[0],
            lambda s: s[-1],
            lambda s: s[3],
            lambda s: s[-4],
            lambda s: s["a"],
            lambda s: s[1:],
            lambda s: s[::2],
            lambda s: s[5:],
            lambda s: s[True],
            lambda s: list(s),
            lambda s: s.__setitem__(1, n.Tanh()),
            lambda s: s.__setitem__(3, n.Tanh()),
            lambda s: s.__setitem__(-1, n.Tanh()),
            lambda s: s.__setitem__(0, 3),
            lambda s: s.__setitem__(0, None),
            lambda s: s.__delitem__(0),
            lambda s: s.__delitem__(slice(0, 2)),
            lambda s: s.__delitem__(7),
            lambda s: s.append(n.Tanh()) is s,
            lambda s: s.append(3),
            lambda s: s.append(None),
            lambda s: s.extend([n.Tanh(), n.ReLU()]) is s,
            lambda s: s.extend(n.Sequential(n.Tanh())),
            lambda s: s.extend(3),
            lambda s: s.insert(9, n.Tanh()),
            lambda s: s.insert(0, 3),
            lambda s: s.pop(0),
            lambda s: s.pop(-1),
            lambda s: s.pop(slice(0, 2)),
            lambda s: s.pop(8),
            lambda s: s + n.Sequential(n.Tanh()),
            lambda s: s + [n.Tanh()],
            lambda s: iadd(s, n.Sequential(n.Tanh())),
            lambda s: iadd(s, [n.Tanh()]),
            lambda s: s * 2,
            lambda s: 2 * s,
            lambda s: s * 0,
            lambda s: s * -1,
            lambda s: s * 1.5,
            lambda s: imul(s, 0),
            lambda s: imul(s, "x"),
            lambda s: "0" in dir(s),
            lambda s: n.ReLU() in s,
            lambda s: "0" in s,
            lambda s: tuple(s(lib.ones(1, 1)).shape),
            lambda s: s(),
            lambda s: s(1, 2),
            lambda s: bool(s),
            lambda s: [k for k, _ in s.named_parameters()],
            lambda s: [type(x) for x in reversed(list(s))],
            lambda s: s.add_module("3", n.Tanh()),
            lambda s: delattr(s, "1"),
            lambda s: s.index(1),
        )
    own = type("Own", (n.Sequential,), {})
    yield type(own(n.ReLU(), n.Tanh())[1:]), type(own(n.ReLU()) + n.Sequential(n.Tanh())), type(own(n.ReLU()) * 2)
    shared = n.Linear(1, 1)
    yield repr(n.Sequential(shared, shared)), len(list(n.Sequential(shared, shared).parameters()))


@scene
def module_list(lib: Any, n: Any) -> Iterator[Any]:
    def make() -> Any:
        return n.ModuleList([n.Linear(1, 2), n.ReLU(), n.ReLU()])

    yield (
        repr(n.ModuleList()),
        tried(lambda: n.ModuleList(3)),
        tried(lambda: n.ModuleList([3])),
        len(n.ModuleList(x for x in [n.ReLU()])),
    )
    yield repr(n.ModuleList([n.Sequential(n.Linear(1, 1)), n.Sequential(n.Linear(1, 1)), n.Linear(1, 1)]))
    yield from after(
        make,
        lambda s: s[0],
        lambda s: s[-1],
        lambda s: s[3],
        lambda s: s[-4],
        lambda s: s["0"],
        lambda s: s[1:],
        lambda s: s[::-1],
        lambda s: s.__setitem__(1, n.Tanh()),
        lambda s: s.__setitem__(3, n.Tanh()),
        lambda s: s.__setitem__(0, 3),
        lambda s: s.__delitem__(0),
        lambda s: s.__delitem__(slice(0, 2)),
        lambda s: s.__delitem__(-1),
        lambda s: s.__delitem__(5),
        lambda s: s.append(n.Tanh()) is s,
        lambda s: s.append(3),
        lambda s: s.extend([n.Tanh()]) is s,
        lambda s: s.extend(3),
        lambda s: s.extend(n.ModuleList([n.Tanh()])),
        lambda s: s.extend([3]),
        lambda s: s.insert(0, n.Tanh()),
        lambda s: s.insert(3, n.Tanh()),
        lambda s: s.insert(17, n.Tanh()),
        lambda s: s.pop(0),
        lambda s: s.pop(-1),
        lambda s: s.pop(slice(0, 2)),
        lambda s: s.pop(9),
        lambda s: s + [n.Tanh()],
        lambda s: s + n.ModuleList([n.Tanh()]),
        lambda s: s + 3,
        lambda s: iadd(s, [n.Tanh()]) is s,
        lambda s: iadd(s, 3),
        lambda s: s(1),
        lambda s: list(s),
        lambda s: n.ReLU() in s,
        lambda s: s[0] in s,
        lambda s: [type(x) for x in reversed(s)],
        lambda s: "0" in dir(s),
        lambda s: s.append(None),
        lambda s: len(s[:2]),
        lambda s: s[lib.tensor(1)],
        lambda s: s * 2,
    )
    row = make()
    yield repr(copy.deepcopy(row)), repr(pickle.loads(pickle.dumps(row)))


@scene
def module_dict(lib: Any, n: Any) -> Iterator[Any]:
    def make() -> Any:
        return n.ModuleDict({"a": n.Linear(1, 2), "b": n.ReLU()})

    for given in (
        None,
        {},
        [("x", n.ReLU())],
        OrderedDict(z=n.ReLU(), a=n.Tanh()),
        n.ModuleDict({"q": n.ReLU()}),
        3,
        [3],
        [("x",)],
        ["ab"],
        {"a": 3},
    ):
        yield tried(lambda given=given: n.ModuleDict(given))
    yield from after(
        make,
        lambda s: s["a"],
        lambda s: s["z"],
        lambda s: s[0],
        lambda s: s.__setitem__("a", n.Tanh()),
        lambda s: s.__setitem__("c", n.Tanh()),
        lambda s: s.__setitem__("c", 3),
        lambda s: s.__setitem__(3, n.Tanh()),
        lambda s: s.__setitem__("a.b", n.Tanh()),
        lambda s: s.__setitem__("keys", n.Tanh()),
        lambda s: s.__setitem__("training", n.Tanh()),
        lambda s: s.__delitem__("a"),
        lambda s: s.__delitem__("z"),
        lambda s: len(s),
        lambda s: list(s),
        lambda s: "a" in s,
        lambda s: 3 in s,
        lambda s: s.clear(),
        lambda s: s.pop("a"),
        lambda s: s.pop("z"),
        lambda s: list(s.keys()),
        lambda s: [k for k, _ in s.items()],
        lambda s: list(s.values()),
        lambda s: s.update({"c": n.Tanh()}),
        lambda s: s.update([("c", n.Tanh())]),
        lambda s: s.update(3),
        lambda s: s.update([("c", n.Tanh(), 3)]),
        lambda s: s.update([3]),
        lambda s: s.update(n.ModuleDict({"c": n.Tanh()})),
        lambda s: s.update({"c": 3}),
        lambda s: s(1),
        lambda s: s.get("a"),
        lambda s: s.a,
        lambda s: type(s.keys()).__name__,
        lambda s: [k for k, _ in s.named_parameters()],
        lambda s: list(reversed(s)),
    )


@scene
def parameter_list(lib: Any, n: Any) -> Iterator[Any]:
    def p(*shape: int) -> Any:
        return n.Parameter(lib.ones(*shape))

    def make() -> Any:
        return n.ParameterList([p(1), lib.ones(2), p(3)])

    for given in (
        None,
        [],
        [3, "x"],
        3,
        lib.ones(2, 2),
        [lib.tensor([1])],
        [[lib.ones(1)]],
        [None],
        n.ParameterList([p(1)]),
    ):
        yield tried(lambda given=given: n.ParameterList(given)), tried(lambda given=given: len(n.ParameterList(given)))
    yield from after(
        make,
        lambda s: s[0],
        lambda s: s[-1],
        lambda s: s[3],
        lambda s: s[-4],
        lambda s: s[1:],
        lambda s: s["0"],
        lambda s: s[1].requires_grad,
        lambda s: s.__setitem__(1, p(5)),
        lambda s: s.__setitem__(1, lib.ones(5)),
        lambda s: s.__setitem__(1, 7),
        lambda s: s.__setitem__(3, p(5)),
        lambda s: s.__setitem__(-1, p(5)),
        lambda s: s.append(p(4)) is s,
        lambda s: s.append(3),
        lambda s: s.append(lib.tensor([1])),
        lambda s: s.extend([p(4), 2]) is s,
        lambda s: s.extend(3),
        lambda s: s.extend(lib.ones(2)),
        lambda s: s.extend(n.ParameterList([p(7)])),
        lambda s: iadd(s, [p(4)]) is s,
        lambda s: iadd(s, 3),
        lambda s: list(s),
        lambda s: len(s),
        lambda s: s(1),
        lambda s: s.pop(0),
        lambda s: s.pop(),
        lambda s: s.insert(0, p(1)),
        lambda s: s.__delitem__(0),
        lambda s: s + [p(1)],
        lambda s: s * 2,
        lambda s: [k for k, _ in s.named_parameters()],
        lambda s: 3 in s,
        lambda s: [tuple(x.shape) for x in reversed(s)],
        lambda s: s[::2],
        lambda s: "0" in dir(s),
    )
    for again in (copy.deepcopy(make()), pickle.loads(pickle.dumps(make())), copy.copy(make())):
        yield repr(again), len(again), list(again.state_dict())
    row = make()
    yield repr(row.double()), tried(lambda: row.load_state_dict(make().state_dict())), said(row[1])
    yield repr(n.ParameterList([p(2, 3), lib.ones(1).half(), "text", [1]]))


@scene
def parameter_dict(lib: Any, n: Any) -> Iterator[Any]:
    def p(*shape: int) -> Any:
        return n.Parameter(lib.ones(*shape))

    def make() -> Any:
        return n.ParameterDict({"a": p(1), "b": lib.ones(2), "c": 3})

    for given in (
        None,
        {},
        [("x", p(1))],
        OrderedDict(z=p(1), a=p(2)),
        n.ParameterDict({"q": p(1)}),
        [3],
        [("x",)],
        {"z": 1, "a": 2},
        {3: p(1)},
    ):
        yield tried(lambda given=given: n.ParameterDict(given)), tried(lambda given=given: list(n.ParameterDict(given)))
    yield from after(
        make,
        lambda s: s["a"],
        lambda s: s["z"],
        lambda s: s[0],
        lambda s: s.__setitem__("a", p(5)),
        lambda s: s.__setitem__("d", lib.ones(2)),
        lambda s: s.__setitem__("a.b", p(1)),
        lambda s: s.__setitem__("keys", p(1)),
        lambda s: s.__setitem__("c", p(2)),
        lambda s: s.__setitem__("training", p(1)),
        lambda s: s.__delitem__("a"),
        lambda s: s.__delitem__("z"),
        lambda s: len(s),
        lambda s: list(s),
        lambda s: list(reversed(s)),
        lambda s: "a" in s,
        lambda s: s.clear(),
        lambda s: s.pop("a"),
        lambda s: s.pop("z"),
        lambda s: s.pop("z", 3),
        lambda s: s.popitem(),
        lambda s: s.get("a"),
        lambda s: s.get("z"),
        lambda s: s.get("z", 5),
        lambda s: s.setdefault("a", p(7)),
        lambda s: s.setdefault("z", p(7)),
        lambda s: s.setdefault("z"),
        lambda s: list(s.keys()),
        lambda s: [k for k, _ in s.items()],
        lambda s: list(s.values()),
        lambda s: s.copy(),
        lambda s: s.copy()["a"] is s["a"],
        lambda s: s.fromkeys(["x", "y"], 3),
        lambda s: s.fromkeys(["x"]),
        lambda s: s.update({"d": p(1)}),
        lambda s: s.update([("d", p(1))]),
        lambda s: s.update([3]),
        lambda s: s.update([("d", 1, 2)]),
        lambda s: s.update(n.ParameterDict({"d": p(4)})),
        lambda s: s | n.ParameterDict({"d": p(4)}),
        lambda s: n.ParameterDict({"a": p(4)}) | s,
        lambda s: s | {"d": p(1)},
        lambda s: s.__ior__(n.ParameterDict({"d": p(4)})) is s,
        lambda s: s(1),
        lambda s: s.a,
        lambda s: s.b.requires_grad,
        lambda s: [k for k, _ in s.named_parameters()],
        lambda s: s.__setitem__("a", 3),
        lambda s: s.__setitem__("new", None),
    )
    for again in (copy.deepcopy(make()), pickle.loads(pickle.dumps(make())), copy.copy(make())):
        yield repr(again), len(again), list(again.state_dict())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SCENES)
def test_scene(name: str) -> None:
    assert not differences(SCENES[name])
