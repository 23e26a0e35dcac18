"""Every hook of `nn.Module` with every flag, beside PyTorch's."""

from __future__ import annotations

import copy
import warnings
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


@scene
def hooks_of_states(lib: Any, n: Any) -> Iterator[Any]:
    heard: list[Any] = []
    m = n.Sequential(n.Linear(1, 1), n.Linear(1, 1))
    a = m[0].register_state_dict_pre_hook(
        lambda mod, prefix, keep: heard.append(("pre", type(mod).__name__, prefix, keep))
    )
    b = m[0].register_state_dict_post_hook(
        lambda mod, d, prefix, meta: heard.append(("post", list(d), prefix, dict(meta)))
    )
    m.state_dict(prefix="x.")
    yield list(heard)
    a.remove(), b.remove()
    heard.clear()
    m.state_dict()
    yield heard
    m.register_state_dict_post_hook(lambda mod, d, prefix, meta: 3)
    yield tried(m.state_dict)
    m = n.Sequential(n.Linear(1, 1), n.Linear(1, 1))
    handles = [
        m[0].register_load_state_dict_pre_hook(lambda mod, d, prefix, meta, strict, miss, unexp, err: heard.append(
            ("before", type(mod).__name__, list(d), prefix, dict(meta), strict, list(miss), list(unexp), list(err)))),
        m[1].register_load_state_dict_post_hook(lambda mod, keys: heard.append(("behind", [list(k) for k in keys]))),
        m.register_load_state_dict_post_hook(lambda mod, keys: keys.missing_keys.clear()),
    ]  # fmt: skip
    state = m.state_dict()
    del state["1.bias"]
    yield repr(m.load_state_dict(state)), list(heard)
    for h in handles:
        h.remove()
    yield tried(lambda: m.load_state_dict(state))
    m.register_load_state_dict_post_hook(lambda mod, keys: 3)
    yield tried(lambda: m.load_state_dict(state, strict=False))
    renamed = n.Linear(1, 1)
    renamed._register_load_state_dict_pre_hook(
        lambda d, prefix, *rest: d.update({prefix + "weight": d.pop(prefix + "old")})
    )
    given = renamed.state_dict()
    given["old"] = given.pop("weight")
    yield repr(renamed.load_state_dict(given))
    m = n.Linear(1, 1)
    m._register_load_state_dict_pre_hook(lambda mod, *rest: heard.append(type(mod).__name__), with_module=True)
    m._register_state_dict_hook(lambda mod, d, prefix, meta: OrderedDict(replaced=1))
    yield dict(m.state_dict()), repr(m.load_state_dict(n.Linear(1, 1).state_dict())), heard[-1]


@scene
def hooks_of_calls(lib: Any, n: Any) -> Iterator[Any]:
    class Sum(n.Module):  # type: ignore[name-defined, misc]
        def forward(self, x: Any, plus: Any = 0) -> Any:
            if plus == "raise":
                raise ValueError("in forward")
            return x + plus

    heard: list[Any] = []
    x = lib.ones(1)

    def note(*what: Any, gives: Any = None) -> Any:
        def hook(*args: Any) -> Any:
            heard.append([*what, *(said(a) for a in args[1:])])
            return gives(*args) if gives else None

        return hook

    def calls(register: Callable[[Any], Any], *args: Any, **kwargs: Any) -> Any:
        heard.clear()
        m = Sum()
        handles = register(m)
        first = tried(lambda: m(*args, **kwargs))
        noted = list(heard)
        for h in handles if isinstance(handles, list) else [handles]:
            h.remove()
        heard.clear()
        return first, noted, tried(lambda: m(x)), list(heard)

    pre, post = "register_forward_pre_hook", "register_forward_hook"
    for f in (pre, post):
        yield calls(lambda m, f=f: getattr(m, f)(note(1)), x, plus=1)
        yield calls(lambda m, f=f: getattr(m, f)(note(1), with_kwargs=True), x, plus=1)
        yield calls(
            lambda m, f=f: [getattr(m, f)(note(1)), getattr(m, f)(note(2), prepend=True), getattr(m, f)(note(3))], x
        )
    yield calls(lambda m: m.register_forward_pre_hook(note(1, gives=lambda m, a: a[0] * 3)), x)
    yield calls(lambda m: m.register_forward_pre_hook(note(1, gives=lambda m, a: (a[0] * 3, 2))), x)
    yield calls(
        lambda m: m.register_forward_pre_hook(note(1, gives=lambda m, a, k: (a, {"plus": 5})), with_kwargs=True), x
    )
    yield calls(lambda m: m.register_forward_pre_hook(note(1, gives=lambda m, a, k: a), with_kwargs=True), x)
    yield calls(lambda m: m.register_forward_hook(note(1, gives=lambda m, a, y: y * 7)), x)
    yield calls(lambda m: m.register_forward_hook(note(1, gives=lambda m, a, k, y: y * 7), with_kwargs=True), x, plus=2)
    for always in (False, True):
        yield calls(lambda m, a=always: m.register_forward_hook(note(1), always_call=a), x, plus="raise")
        yield calls(
            lambda m, a=always: [
                m.register_forward_pre_hook(lambda *a: 1 / 0),
                m.register_forward_hook(note(1), always_call=a),
            ],
            x,
        )

    def fails(*args: Any) -> None:
        raise TypeError("in hook")

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield calls(
            lambda m: [
                m.register_forward_hook(fails, always_call=True),
                m.register_forward_hook(note(2), always_call=True),
            ],
            x,
            plus="raise",
        )
        yield [said(w.message) for w in caught]
    yield calls(lambda m: [m.register_forward_hook(fails), m.register_forward_hook(note(2), always_call=True)], x)
    m = Sum()
    with m.register_forward_hook(note(1)) as handle:
        yield len(m._forward_hooks), isinstance(handle.id, int)
    yield len(m._forward_hooks), tried(lambda: Sum()(x, 1, 2)), tried(lambda: Sum()())

    keep = Sum()
    keep.register_forward_hook(note("copied"), with_kwargs=True)
    heard.clear()
    copy.deepcopy(keep)(x, plus=1)
    yield list(heard), keep.forward(x, 2)


@scene
def hooks_of_gradients(lib: Any, n: Any) -> Iterator[Any]:
    class Two(n.Module):  # type: ignore[name-defined, misc]
        def forward(self, x: Any, y: Any, k: Any = None) -> Any:
            return x * y, x + y, 3

    class One(n.Module):  # type: ignore[name-defined, misc]
        def forward(self, x: Any) -> Any:
            return x * 2

    class Named(n.Module):  # type: ignore[name-defined, misc]
        def forward(self, x: Any) -> Any:
            return {"a": x * 2, "b": [x * 3]}

    heard: list[Any] = []

    def note(*what: Any, gives: Any = None) -> Any:
        def hook(mod: Any, *args: Any) -> Any:
            heard.append([*what, *(said(a) for a in args)])
            return gives(*args) if gives else None

        return hook

    def leaf(v: float, wanted: bool = True) -> Any:
        return lib.tensor([v]).requires_grad_(wanted)

    def run(make: Any, register: Any, *leaves: Any, pick: Any = lambda y: y) -> Any:
        heard.clear()
        m = make()
        register(m)

        def go() -> Any:
            pick(m(*leaves)).sum().backward()
            return [v.grad for v in leaves]

        return tried(go), list(heard)

    full, pre = "register_full_backward_hook", "register_full_backward_pre_hook"
    for f in (full, pre):
        yield run(One, lambda m, f=f: getattr(m, f)(note(f)), leaf(2.0))
        yield run(One, lambda m, f=f: getattr(m, f)(note(f)), leaf(2.0, False) * leaf(3.0, False).requires_grad_())
        yield run(Two, lambda m, f=f: getattr(m, f)(note(f)), leaf(2.0), leaf(3.0), pick=lambda y: y[0])
        yield run(Two, lambda m, f=f: getattr(m, f)(note(f)), leaf(2.0), leaf(3.0, False), pick=lambda y: y[0] + y[1])
        yield run(One, lambda m, f=f: [getattr(m, f)(note(1)), getattr(m, f)(note(2), prepend=True)], leaf(2.0))
        yield run(One, lambda m, f=f: getattr(m, f)(note(f, gives=lambda *g: (g[0][0] * 10,))), leaf(2.0))
        yield run(One, lambda m, f=f: getattr(m, f)(note(f, gives=lambda *g: (1, 2))), leaf(2.0))
        yield run(Named, lambda m, f=f: getattr(m, f)(note(f)), leaf(2.0), pick=lambda y: y["a"] + y["b"][0])
        yield run(
            lambda: n.Linear(1, 1, bias=False),
            lambda m, f=f: (m.weight.data.fill_(2.0), getattr(m, f)(note(f))),
            lib.ones(1, 1),
        )
    yield run(
        One,
        lambda m: [m.register_full_backward_hook(note("b")), m.register_full_backward_pre_hook(note("a"))],
        leaf(2.0),
    )
    yield run(
        lambda: n.Linear(1, 1),
        lambda m: m.register_full_backward_hook(note("b", gives=lambda *g: (lib.ones(1, 1),))),
        lib.ones(1, 1),
    )
    m = One()
    m.register_backward_hook(note("old"))
    yield tried(lambda: m.register_full_backward_hook(note("new")))
    m = One()
    m.register_full_backward_hook(note("new"))
    yield tried(lambda: m.register_backward_hook(note("old")))
    yield run(One, lambda m: m.register_backward_hook(note("old")), leaf(2.0))


@scene
def hooks_of_all_modules(lib: Any, n: Any) -> Iterator[Any]:
    mod = lib.nn.modules.module
    heard: list[Any] = []
    x = lib.ones(1, 1, requires_grad=True)

    def names(*args: Any) -> None:
        heard.append([type(a).__name__ if isinstance(a, n.Module) else said(a) for a in args])

    model = n.Sequential(n.Identity(), n.Tanh())
    for f in ("forward_pre", "forward", "full_backward_pre", "full_backward"):
        heard.clear()
        handle = getattr(mod, f"register_module_{f}_hook")(names)
        try:
            model(x * 2).sum().backward()
        finally:
            handle.remove()
        yield f, [h[0] for h in heard], len(heard)
    heard.clear()
    handles = [
        mod.register_module_forward_pre_hook(lambda m, a: (a[0] + 1,)),
        mod.register_module_forward_hook(lambda m, a, y: y * 2),
        mod.register_module_forward_hook(lambda m, a, k, y: names(m, k), with_kwargs=True),
    ]
    yield said(n.Identity()(lib.ones(1))), list(heard)
    for h in handles:
        h.remove()
    yield said(n.Identity()(lib.ones(1)))
    heard.clear()
    raising = type("Raising", (n.Module,), {"forward": lambda self: 1 / 0})()
    handles = [mod.register_module_forward_hook(lambda m, a, y: names(m, y), always_call=True),
               raising.register_forward_hook(lambda m, a, y: names("own"))]  # fmt: skip
    yield tried(raising), list(heard)
    for h in handles:
        h.remove()
    heard.clear()
    handles = [
        mod.register_module_parameter_registration_hook(
            lambda m, name, p: heard.append(("parameter", name, said(p)[0]))
        ),
        mod.register_module_buffer_registration_hook(lambda m, name, b: heard.append(("buffer", name, said(b)[0]))),
        mod.register_module_module_registration_hook(
            lambda m, name, c: heard.append(("module", name, type(c).__name__))
        ),
    ]
    owner(n, lib)
    noted = list(heard)
    for h in handles:
        h.remove()
    n.Linear(1, 1)
    yield noted, len(heard) == len(noted)
    handles = [mod.register_module_parameter_registration_hook(lambda m, name, p: n.Parameter(p * 0 + 7)),
               mod.register_module_module_registration_hook(lambda m, name, c: n.Tanh())]  # fmt: skip
    with lib.no_grad():
        layer, row = n.Linear(1, 1, bias=False), n.Sequential(n.Identity())
    for h in handles:
        h.remove()
    yield said(layer.weight)[0], repr(row)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SCENES)
def test_scene(name: str) -> None:
    assert not differences(SCENES[name])
