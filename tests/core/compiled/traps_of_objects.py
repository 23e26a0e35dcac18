"""Traps of objects, modules and what else a function holds: see traps.py."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
from __future__ import annotations

import collections
import dataclasses
import functools
import itertools

import core
from core import nn

from .traps import Trap, at, one, trap

table = {"a": 2.0}


class Holder:
    """An object with attributes."""

    def __init__(self):
        self.scale = 2.0
        self.inner = None
        self.count = 0

    def apply(self, x):
        return core.exp(x) * self.scale

    @property
    def doubled(self):
        return self.scale * 2


class Counter(Holder):
    """One that counts its calls."""

    def counts(self, x):
        self.count += 1
        return x * self.count


@trap
def attribute_of_an_object():
    h = Holder()
    return Trap(h.apply, one, at(6, lambda: setattr(h, "scale", 6.0)))


@trap
def attribute_two_steps_away():
    h = Holder()
    h.inner = Holder()
    return Trap(lambda x: core.exp(x) * h.inner.scale, one, at(6, lambda: setattr(h.inner, "scale", 6.0)))


@trap
def attribute_stored_inside():
    h = Counter()
    return Trap(h.counts, one, state=lambda: h.count)


@trap
def property_of_an_object():
    h = Holder()
    return Trap(lambda x: core.exp(x) * h.doubled, one, at(6, lambda: setattr(h, "scale", 6.0)))


@trap
def method_replaced():
    h = Holder()
    return Trap(lambda x: h.apply(x) + 1, one, at(6, lambda: setattr(h, "apply", lambda x: core.exp(x) * 9)))


@trap
def class_attribute():
    class Settings:
        scale = 2.0

    return Trap(lambda x: core.exp(x) * Settings.scale, one, at(6, lambda: setattr(Settings, "scale", 5.0)))


@trap
def getattr_by_name():
    h = Holder()
    return Trap(lambda x: core.exp(x) * getattr(h, "scale"), one, at(6, lambda: setattr(h, "scale", 6.0)))  # noqa: B009


@trap
def getattr_by_a_name_that_is_computed():
    h = Holder()
    return Trap(lambda x: core.exp(x) * getattr(h, "sca" + "le".lower()), one, at(6, lambda: setattr(h, "scale", 6.0)))


@trap
def dictionary():
    table["a"] = 2.0
    return Trap(lambda x: core.exp(x) * table["a"], one, at(6, lambda: table.__setitem__("a", 5.0)))


@trap
def dictionary_grows():
    d = {"a": 1.0}
    return Trap(lambda x: core.exp(x) * sum(d.values()), one, at(6, lambda: d.__setitem__("b", 5.0)))


@trap
def global_appears():
    globals().pop("appears", None)

    def f(x):
        try:
            return core.exp(x) * appears  # type: ignore[name-defined]
        except NameError:
            return core.exp(x)

    return Trap(f, one, at(6, lambda: globals().__setitem__("appears", 4.0)))


@trap
def cached_function():
    box = [2.0]

    @functools.lru_cache
    def looked_up(k):
        return box[0] * k

    def change():
        box[0] = 5.0
        looked_up.cache_clear()

    return Trap(lambda x: core.exp(x) * looked_up(1), one, at(6, change))


@trap
def iterator():
    numbers = itertools.count(1)
    return Trap(lambda x: core.exp(x) * next(numbers), one)


@trap
def partial():
    def f(k, x):
        return core.exp(x) * k

    return Trap(functools.partial(f, 3.0), one)


@trap
def exception_sometimes():
    def f(x, k):
        if k > 6:
            raise ValueError("too far")
        return core.exp(x) * 2

    return Trap(f, lambda n: (*one(n), n))


@trap
def exception_caught():
    def f(x):
        try:
            return core.exp(x) @ core.ones(4, 5)
        except RuntimeError:
            return core.exp(x)

    return Trap(f, lambda n: one(n, 4, 4) if n % 4 < 2 else one(n))


@trap
def default_dtype():
    def change():
        core.set_default_dtype(core.float64)

    return Trap(
        lambda x: core.exp(x) * core.ones(5).sum(),
        one,
        lambda n: core.set_default_dtype(core.float64 if n in (6, 7) else core.float32),
    )


@trap
def grad_mode():
    p = core.randn(5, requires_grad=True)

    def f(x):
        return core.exp(x) * p

    def before(n):
        core.set_grad_enabled(n % 4 < 2)

    return Trap(f, one, before)


@trap
def requires_grad_of_a_weight():
    m = nn.Linear(5, 5)
    return Trap(lambda x: core.exp(m(x)), one, lambda n: m.requires_grad_(n % 6 < 3))


@trap
def module_replaced():
    m = nn.Sequential(nn.Linear(5, 5), nn.Tanh())
    return Trap(m, one, at(6, lambda: m.__setitem__(1, nn.ReLU())))


@trap
def module_attribute():
    m = nn.Sequential(nn.LeakyReLU(0.1))
    return Trap(lambda x: m(x) * 2, one, at(6, lambda: setattr(m[0], "negative_slope", 0.7)))


@trap
def module_hook():
    m = nn.Sequential(nn.Linear(5, 5), nn.Tanh())
    return Trap(m, one, at(6, lambda: m[1].register_forward_hook(lambda mod, args, out: out * 3)))


class Own(nn.Module):
    """A module with a number, a counter and a table."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(5, 5)
        self.k, self.n = 2.0, 0
        self.layers = nn.ModuleList([nn.Linear(5, 5) for _ in range(2)])

    def forward(self, x):
        for layer in self.layers:
            x = core.tanh(layer(x))
        return self.lin(x) * self.k + self.n


class Counting(Own):
    """One that counts its calls."""

    def forward(self, x):
        self.n += 1
        return super().forward(x)


@trap
def own_module():
    m = Own()
    return Trap(m, one, at(6, lambda: setattr(m, "k", 5.0)))


@trap
def own_module_counts():
    m = Counting()
    return Trap(m, one, state=lambda: m.n)


@trap
def own_module_parameter_replaced():
    m = Own()
    return Trap(m, one, at(6, lambda: setattr(m.lin, "weight", nn.Parameter(core.randn(5, 5)))))


@trap
def own_module_grows():
    m = Own()
    return Trap(m, one, at(6, lambda: m.layers.append(nn.Linear(5, 5))))


@trap
def weights_loaded():
    m, other = Own(), Own()
    return Trap(m, one, at(6, lambda: m.load_state_dict(other.state_dict())))


@dataclasses.dataclass
class Settings:
    """Settings as an object."""

    scale: float = 2.0
    name: str = "a"


@trap
def dataclass():
    s = Settings()
    return Trap(lambda x: core.exp(x) * s.scale, one, at(6, lambda: setattr(s, "scale", 6.0)))


@trap
def object_as_argument():
    s = Settings()
    return Trap(lambda x, s: core.exp(x) * s.scale, lambda n: (*one(n), s), at(6, lambda: setattr(s, "scale", 6.0)))


@trap
def named_tuple():
    Point = collections.namedtuple("Point", "a b")
    return Trap(lambda x: core.exp(x) * Point(2.0, 3.0).b, one)


@trap
def enclosed_function_replaced():
    box = {"f": core.exp}
    return Trap(lambda x: box["f"](x) * 2, one, at(6, lambda: box.__setitem__("f", core.tanh)))


@trap
def views_of_results():
    def f(x):
        y = core.exp(x)
        return y, y[0]

    return Trap(f, one)


@trap
def result_written_later():
    def f(x):
        return core.exp(x) * 2

    return Trap(f, one)


@trap
def sizes_as_numbers():
    return Trap(lambda x: core.exp(x) * len(x) + x.numel() + x.ndim, lambda n: one(n, 2 + n // 3, 5))


@trap
def masks():
    return Trap(lambda x: core.where(x > 0, x, x.exp())[x > 0].sum(), one)


@trap
def nonzero():
    return Trap(lambda x: core.nonzero(x > 0).float() * 2, one)


@trap
def integers_wrap():
    return Trap(lambda x: (x * 2000 + 7).to(core.int16) // 3 % 5, lambda n: (core.randint(-90, 90, (4, 5)),))


@trap
def not_a_number():
    return Trap(lambda x: core.log(x).sum(-1) + x.max(), one)


@trap
def nothing_in_it():
    return Trap(lambda x: core.exp(x).sum() + 1, lambda n: one(n, 0, 5) if n % 4 < 2 else one(n))


@trap
def generator_function():
    def parts(x):
        for k in range(3):
            yield core.exp(x) * k

    return Trap(lambda x: sum(parts(x)), one)


@trap
def calls_backward():
    p = core.randn(5, requires_grad=True)

    def f(x):
        loss = (core.exp(x.detach()) * p).sum()
        loss.backward()
        return loss.detach() * 1

    return Trap(f, one, state=lambda: p.grad.clone())


class Shaped(nn.Module):
    """A module whose class has a number, and itself a set."""

    factor = 2.0

    def __init__(self):
        super().__init__()
        self.parts = {1}

    def forward(self, x):
        return core.exp(x) * self.factor + len(self.parts)


@trap
def attribute_of_a_module_class():
    Shaped.factor = 2.0
    return Trap(Shaped(), one, lambda n: setattr(Shaped, "factor", 2.0 + (n >= 6)))


@trap
def set_of_a_module():
    Shaped.factor = 2.0
    m = Shaped()
    return Trap(m, one, at(6, lambda: m.parts.add(5)))


@trap
def number_written_back_and_forth():
    h = Holder()
    return Trap(h.apply, one, lambda n: setattr(h, "scale", 2.0 + n % 2))


@trap
def attribute_deleted_and_set_again():
    h = Holder()

    def before(n):
        if n == 6:
            del h.scale
            h.scale = 9.0

    return Trap(h.apply, one, before)


@trap
def method_replaced_on_the_class():
    class Own(Holder):
        pass

    def change():
        Own.apply = lambda self, x: x - self.scale

    h = Own()
    return Trap(lambda x: h.apply(x), one, at(6, change))
