"""Every public method of `nn.Module` but its hooks, beside PyTorch's: results and mistakes."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from .scenes import differences, owner, said, tried  # noqa: E402

SCENES: dict[str, Callable[[Any, Any], Iterator[Any]]] = {}


def scene(f: Callable[[Any, Any], Iterator[Any]]) -> Callable[[Any, Any], Iterator[Any]]:
    SCENES[f.__name__] = f
    return f


class Point:
    """Anything a module may carry."""


@scene
def registering(lib: Any, n: Any) -> Iterator[Any]:
    m = owner(n, lib)
    p, t, child = n.Parameter(lib.ones(1)), lib.ones(1), n.Identity()
    x = lib.ones(2, requires_grad=True) * 2
    for name in ("a", "a.b", "", "w", "seen", "inner", "training", "forward", 3):
        for value in (p, t, None, child, 5, x):
            for f in ("register_parameter", "register_buffer", "add_module", "register_module"):
                yield f, name, tried(lambda m=m, f=f, name=name, value=value: getattr(copy.deepcopy(m), f)(name, value))
    for name in ("w", "seen", "inner", "absent", "empty", "nothing", "new", "training", "cache"):
        for value in (p, t, None, child, 5):
            one = copy.deepcopy(m)
            yield name, said(value), tried(lambda one=one, name=name, value=value: setattr(one, name, value))
            yield [
                list(one._parameters),
                list(one._buffers),
                list(one._modules),
                sorted(one._non_persistent_buffers_set),
            ]
            yield tried(lambda one=one: list(one.state_dict()))
    for name in ("w", "seen", "inner", "absent", "cache", "nope", "training"):
        one = copy.deepcopy(m)
        yield tried(lambda one=one, name=name: delattr(one, name)), tried(lambda one=one, name=name: getattr(one, name))
        yield tried(lambda one=one: list(one.state_dict())), sorted(one._non_persistent_buffers_set)
    bare = type("Bare", (n.Module,), {"__init__": lambda self: None})()
    yield tried(lambda: setattr(bare, "w", p)), tried(lambda: setattr(bare, "m", child)), tried(lambda: bare.x)
    yield tried(lambda: bare.register_buffer("b", t)), tried(lambda: bare.register_parameter("b", p))
    yield tried(lambda: n.Module(1)), tried(lambda: n.Module(a=1))
    called = type("Called", (n.Module,), {"call_super_init": True})
    yield tried(lambda: called(1)), n.Module.call_super_init, n.Module.dump_patches
    m.b = n.Buffer(lib.ones(1), persistent=False)
    yield list(m.state_dict()), said(m.b), isinstance(m.b, n.Buffer), isinstance(m.seen, n.Buffer)
    yield sorted(x for x in dir(m) if x in ("w", "seen", "inner", "absent", "nothing", "forward", "0"))
    yield tried(lambda: n.Module()(1)), tried(lambda: m.nope), tried(lambda: n.Linear(1, 1).nope)


@scene
def going_through(lib: Any, n: Any) -> Iterator[Any]:
    m = owner(n, lib)
    for kwargs in (
        {},
        {"prefix": "p"},
        {"recurse": False},
        {"remove_duplicate": False},
        {"prefix": "q", "recurse": False},
    ):
        yield [k for k, _ in m.named_parameters(**kwargs)], [k for k, _ in m.named_buffers(**kwargs)]
    yield (
        len(list(m.parameters())),
        len(list(m.parameters(recurse=False))),
        len(list(m.buffers())),
        len(list(m.buffers(False))),
    )
    for kwargs in ({}, {"prefix": "p"}, {"remove_duplicate": False}, {"memo": {m.inner}}):
        yield [k for k, _ in m.named_modules(**kwargs)]
    yield [k for k, _ in m.named_children()], [type(c) for c in m.children()], [type(c) for c in m.modules()]
    for target in (
        "",
        "inner",
        "inner.0",
        "inner.0.weight",
        "nope",
        "inner.nope",
        "w",
        "nothing",
        "training",
        "inner.",
    ):
        for f in ("get_submodule", "get_parameter", "get_buffer"):
            yield f, target, tried(lambda f=f, target=target: getattr(m, f)(target))
    for target in ("inner.1.running_mean", "seen", "cache", "inner.1.weight", "empty", "absent"):
        yield tried(lambda target=target: m.get_buffer(target)), tried(lambda target=target: m.get_parameter(target))
    for target in (
        "",
        "inner",
        "inner.0",
        "new",
        "inner.new",
        "inner.0.new",
        "w",
        "nope.x",
        "inner.0.weight",
        "nothing",
    ):
        for strict in (False, True):
            one = copy.deepcopy(m)
            yield target, tried(lambda one=one, t=target, s=strict: one.set_submodule(t, n.Tanh(), s)), repr(one)
    yield tried(lambda: m.set_submodule("inner", 3)), tried(lambda: m.set_submodule("inner", None))
    seen: list[str] = []
    yield m.apply(lambda x: seen.append(type(x).__name__)) is m, seen
    yield repr(m), repr(n.Module()), m._get_name(), m.extra_repr()
    m.eval()
    yield (
        m.training,
        m.inner.training,
        m.train() is m,
        m.inner[1].training,
        tried(lambda: m.train(1)),
        tried(lambda: m.train("x")),
    )
    m.requires_grad_(False)
    yield [p.requires_grad for p in m.parameters()], m.requires_grad_() is m, [p.requires_grad for p in m.parameters()]


@scene
def converting(lib: Any, n: Any) -> Iterator[Any]:
    def kinds(m: Any) -> Any:
        return [str(t.dtype).split(".")[-1] for t in [*m.parameters(), *m.buffers()]], [
            p.is_leaf for p in m.parameters()
        ]

    def fresh() -> Any:
        m = owner(n, lib)
        m.register_buffer("count", lib.tensor([1]))
        m.w.grad = lib.ones(2)
        return m

    for f in ("float", "double", "half", "bfloat16", "cpu", "eval"):
        m = fresh()
        w = m.w
        yield f, getattr(m, f)() is m, kinds(m), m.w is w, said(m.w.grad)
    for d in (lib.float64, lib.float16, lib.bfloat16):
        yield kinds(fresh().to(d)), kinds(fresh().to(dtype=d)), kinds(fresh().to("cpu", d)), kinds(fresh().type(d))
        yield kinds(fresh().to(lib.device("cpu"), d, True)), kinds(fresh().to(device="cpu", dtype=d, non_blocking=True))
    yield (
        kinds(fresh().to(lib.ones(1, dtype=lib.float64))),
        kinds(fresh().to("cpu")),
        kinds(fresh().to(non_blocking=True, device="cpu")),
    )
    for wrong in (lambda m: m.to(lib.int64), lambda m: m.to(), lambda m: m.to("nope"),
                  lambda m: m.to(lib.float32, lib.float64), lambda m: m.to(nope=1), lambda m: m.to(None)):  # fmt: skip
        got = tried(lambda wrong=wrong: wrong(fresh()))
        yield got[0] if isinstance(got, tuple) else "fine"
    yield tried(lambda: fresh().to(lib.int64)), tried(lambda: fresh().to(lib.bool))
    yield kinds(fresh().type(lib.float64)), tried(lambda: kinds(fresh().type("torch.DoubleTensor")))
    conv = n.Conv2d(2, 3, 2).to(memory_format=lib.channels_last)
    yield tuple(conv.weight.shape), tuple(conv.bias.shape)  # one memory layout is kept here
    m = fresh().to_empty(device="cpu")
    yield kinds(m), tuple(m.w.shape), m.to_empty(device="cpu", recurse=False) is m, tried(lambda: fresh().to_empty())
    m = fresh()
    yield m.share_memory() is m
    m.zero_grad()
    yield m.w.grad
    m.w.grad = lib.ones(2)
    m.zero_grad(set_to_none=False)
    yield said(m.w.grad)
    tied = n.Sequential(n.Linear(2, 2, bias=False), n.Linear(2, 2, bias=False))
    tied[1].weight = tied[0].weight
    tied.double()
    yield tied[0].weight is tied[1].weight, [k for k, _ in tied.named_parameters()]
    frozen = n.Linear(2, 2).requires_grad_(False).double()
    yield [p.requires_grad for p in frozen.parameters()]


@scene
def saving(lib: Any, n: Any) -> Iterator[Any]:
    m = owner(n, lib)
    state = m.state_dict()
    yield type(state), said(state), {k: dict(v) for k, v in state._metadata.items()}
    yield list(m.state_dict(None, "p.")), [type(c) for c in m.modules(remove_duplicate=False)]
    yield list(m.state_dict(prefix="p.")), said(m.state_dict(keep_vars=True)), m.state_dict(keep_vars=True)["w"] is m.w
    mine: Any = OrderedDict()
    yield m.state_dict(destination=mine, prefix="x.") is mine, list(mine), hasattr(mine, "_metadata")
    yield state["w"].data_ptr() == m.w.data_ptr(), state["w"].requires_grad
    other = owner(n, lib)
    yield (
        repr(other.load_state_dict(state)),
        tried(lambda: other.load_state_dict([1])),
        tried(lambda: other.load_state_dict(None)),
    )

    def loaded(change: Callable[[Any], Any], **kwargs: Any) -> Any:
        given = copy.deepcopy(OrderedDict(m.state_dict()))
        change(given)
        one = owner(n, lib)
        try:
            result = one.load_state_dict(given, **kwargs)
        except RuntimeError as e:
            return said(str(e))
        return [repr(result), list(result.missing_keys), list(result.unexpected_keys), said(one.w)]

    changes = [
        lambda d: d.pop("w"), lambda d: d.update(new=lib.ones(1)), lambda d: d.update({"inner.0.new": lib.ones(1)}),
        lambda d: d.update(w=lib.ones(3)), lambda d: d.update(w=lib.ones(2, dtype=lib.float64)),
        lambda d: d.update(w=[1.0, 2.0]), lambda d: d.clear(), lambda d: d.update({"nope.x": lib.ones(1)}),
        lambda d: d.update(seen=lib.tensor(3.0)), lambda d: d.update({"inner.1.running_mean": lib.ones(2)}),
        lambda d: d.update({"inner.1": lib.ones(2)}), lambda d: d.update({"cache": lib.ones(1)}),
        lambda d: d.update({"inner.1.num_batches_tracked": lib.tensor([7])}), lambda d: d.update(absent=lib.ones(1)),
        lambda d: (d.pop("w"), d.update(new=lib.ones(1), seen=lib.ones(2)))[1],
    ]  # fmt: skip
    for change in changes:
        for kwargs in ({}, {"strict": False}, {"assign": True}, {"strict": False, "assign": True}):
            yield loaded(change, **kwargs)
    one = owner(n, lib)
    w = one.w
    given = {k: v.double() if v.is_floating_point() else v for k, v in m.state_dict().items()}
    one.load_state_dict(given, assign=True)
    yield said(one.w), one.w is w, one.seen is given["seen"], said(one.inner[0].weight)
    one = owner(n, lib)
    one.w.requires_grad_(False)
    one.load_state_dict({**m.state_dict(), "w": n.Parameter(lib.zeros(2))}, assign=True)
    yield said(one.w)

    class Extra(n.Module):  # type: ignore[name-defined, misc]
        value = 3

        def get_extra_state(self) -> Any:
            return {"value": self.value}

        def set_extra_state(self, state: Any) -> None:
            self.value = state["value"]

    holder = n.Sequential(Extra())
    state = holder.state_dict()
    yield (
        said(state),
        tried(lambda: n.Sequential(n.Identity()).load_state_dict(state)),
        tried(lambda: holder.load_state_dict({})),
    )
    state["0._extra_state"]["value"] = 9
    yield repr(holder.load_state_dict(state)), holder[0].value
    yield tried(n.Module().get_extra_state), tried(lambda: n.Module().set_extra_state(1))
    half = type("Half", (n.Module,), {"get_extra_state": lambda self: 1})()
    yield tried(lambda: half.load_state_dict(half.state_dict()))


@scene
def copying(lib: Any, n: Any) -> Iterator[Any]:
    m = owner(n, lib)
    m.w.grad = lib.ones(2)
    m.note = Point()
    m.again = m.inner[0]
    for make in (copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m)), copy.copy):
        one = make(m)
        yield list(one.state_dict()), one.w is m.w, one.again is one.inner[0], said(one.w), one.training, repr(one)
        yield list(one.__dict__) == list(m.__dict__), one.inner is m.inner, one._parameters is m._parameters
    older = n.Linear(1, 1)
    state = dict(older.__dict__)
    for key in ("_forward_pre_hooks", "_state_dict_hooks", "_state_dict_pre_hooks", "_load_state_dict_pre_hooks",
                "_non_persistent_buffers_set", "_forward_hooks_with_kwargs", "_forward_hooks_always_called",
                "_backward_pre_hooks", "_load_state_dict_post_hooks"):  # fmt: skip
        state.pop(key, None)
    fresh = n.Linear.__new__(n.Linear)
    fresh.__setstate__(state)
    yield tuple(fresh(lib.ones(1, 1)).shape), list(fresh.state_dict()), len(fresh._load_state_dict_post_hooks)
    yield fresh == older, len({fresh, older, fresh}), tried(lambda: fresh < older)
    yield said(n.Linear(1, 1).half().weight)[2], tried(lambda: n.Linear(2, 2) + 1)[0]


@scene
def attributes(lib: Any, n: Any) -> Iterator[Any]:
    theirs = {x for x in dir(torch.nn.Module) if not x.startswith("_")} - {
        "ipu",
        "mtia",
        "xpu",
        "T_destination",
        "compile",
        "forward",
    }
    yield sorted(x for x in theirs if not hasattr(n.Module, x))
    for name in sorted(theirs):
        f = getattr(n.Module, name)
        if inspect.isfunction(f):
            yield name, [(p.name, str(p.kind), said(p.default) if p.default is not p.empty else "none")
                         for p in inspect.signature(f).parameters.values()]  # fmt: skip
    yield sorted(set(torch.nn.Module().__dict__) - set(n.Module().__dict__))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SCENES)
def test_scene(name: str) -> None:
    assert not differences(SCENES[name])
