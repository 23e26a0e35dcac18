"""Classes and blocks that are asked before a function computes: ``__torch_function__``, and modes.

A subclass of `Tensor` is asked of every function that is given one of its tensors; what Tensor's own
``__torch_function__`` answers is computed as ever, and comes back as the subclass. As long as no such class was defined
and no mode entered, a call pays for one test of a number (native/binding/calls/public_function.c).
"""

from __future__ import annotations

import threading
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from .. import native
from ..base.errors import text
from .tensor import Tensor

Function = Callable[..., Any]
OURS = __name__.partition(".")[0]
PLAIN = (list, tuple)  # what is looked into for tensors


def not_asked(func: Function, types: Iterable[type], args: Sequence[Any] = (), kwargs: Any = None) -> Any:
    """Return NotImplemented: as a class's ``__torch_function__``, it says that the class is not to be asked."""
    return NotImplemented


class _State(threading.local):
    """One thread's: how many blocks say that no class is asked, and the modes that were entered."""

    def __init__(self) -> None:
        self.quiet = self.muted = 0
        self.modes: list[Any] = []


state = _State()
active = False  # whether a class was defined, or a mode entered, that may be asked
_lock = threading.Lock()
_modes = 0  # how many are entered, in all threads


def activate(entered: int = 0) -> None:
    """Let public functions look for classes and modes from now on; `entered` modes are entered, or left if below 0."""
    global active, _modes
    with _lock:
        active, _modes = True, _modes + entered
        if native.module is not None:
            native.module.set_overriding(True, _modes)


# -- which are asked ---------------------------------------------------------------------------------------------------


def overrides(value: Any) -> bool:
    """Return whether a value's class is to be asked: it has a ``__torch_function__``, and is not Tensor itself."""
    cls = type(value)
    if cls is Tensor:
        return False
    found = getattr(cls, "__torch_function__", None)
    return found is not None and found is not not_asked and not isinstance(value, type)


def relevant(args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Return the values that are asked, one of each class, those of subclasses first."""
    found: list[Any] = []
    for value in (*args, *kwargs.values()):
        for x in value if type(value) in PLAIN else (value,):
            if overrides(x) and type(x) not in map(type, found):
                places = [k for k, y in enumerate(found) if issubclass(type(x), type(y))]
                found.insert(places[0] if places else len(found), x)
    return found


def ask(func: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return what modes and classes say that a call comes to; NotImplemented where there is nobody to ask.

    *Raises*: TypeError where all who are asked decline.
    """
    if state.muted:
        return NotImplemented
    found = [] if state.quiet else relevant(args, kwargs)
    if not state.modes and not found:
        return NotImplemented
    return asked(func, found, args, kwargs)


def asked(func: Function, found: Sequence[Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return what the innermost mode, or else the classes of the values `found`, make of a call."""
    kinds = tuple(map(type, found))
    if state.modes:
        mode = state.modes.pop()
        try:
            answer = mode.__torch_function__(func, kinds, args, kwargs)
        finally:
            state.modes.append(mode)
        if answer is not NotImplemented:
            return answer
    for x in found:
        answer = type(x).__torch_function__(func, kinds, args, kwargs)
        if answer is not NotImplemented:
            return answer
    name = getattr(func, "__name__", repr(func))
    raise TypeError(
        text(
            f"no implementation found for '{name}' on types that implement __torch_function__: {list(kinds)}",
            op=name,
            remedy="one of them must answer, and not with NotImplemented",
        )
    )


@contextmanager
def nobody_asked() -> Iterator[None]:
    """Ask neither classes nor modes in the block."""
    state.muted += 1
    try:
        yield
    finally:
        state.muted -= 1


@contextmanager
def no_class_asked() -> Iterator[None]:
    """Ask no class in the block; modes are."""
    state.quiet += 1
    try:
        yield
    finally:
        state.quiet -= 1


# -- what Tensor answers -----------------------------------------------------------------------------------------------


def torch_function(cls: type, func: Function, types: Iterable[type], args: Sequence[Any] = (),
                   kwargs: Mapping[str, Any] | None = None) -> Any:  # fmt: skip
    """Compute as ever, and give tensors of this class back: what a subclass calls as ``super().__torch_function__``."""
    if not all(issubclass(cls, t) for t in types):
        return NotImplemented
    kwargs = {} if kwargs is None else kwargs
    with no_class_asked():
        result = func(*args, **kwargs)
        if cls is Tensor or func in as_they_are:
            return result
        return as_class(result, cls, {id(a) for a in (*args, *kwargs.values())})


def as_class(result: Any, cls: type, given: set[int]) -> Any:
    """Return what a function gave, its new tensors of class `cls`; those that it was given stay what they are."""
    if isinstance(result, Tensor):
        if isinstance(result, cls):
            return result
        if type(result) is Tensor and id(result) not in given:
            result.__class__ = cls
            return result
        return result.as_subclass(cls)  # type: ignore[attr-defined]
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return type(result)(*(as_class(r, cls, given) for r in result))
    return type(result)(as_class(r, cls, given) for r in result) if type(result) in PLAIN else result


# -- subclasses --------------------------------------------------------------------------------------------------------

as_they_are: set[Any] = set()  # functions whose tensors keep their class: x.grad
_GIVE_TENSORS = ("data", "T", "mT", "H", "mH", "real", "imag", "detach")
_KINDS = (types.FunctionType, types.MethodDescriptorType)
_PROPERTIES = (property, types.GetSetDescriptorType)
_LEFT = {"__init__", "__hash__", "__copy__", "__new__", "__init_subclass__", "__class_getitem__", "__dict__"}


def _method(function: Function) -> Function:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        answer = ask(function, (self, *args), kwargs)
        return function(self, *args, **kwargs) if answer is NotImplemented else answer

    method.__name__, method.__doc__ = function.__name__, function.__doc__
    method.__wrapped__ = function  # type: ignore[attr-defined]
    return method


def _property(found: Any) -> property:
    def get(self: Any) -> Any:
        answer = ask(found.__get__, (self,), {})
        return found.__get__(self) if answer is NotImplemented else answer

    def put(self: Any, value: Any) -> None:
        if ask(found.__set__, (self, value), {}) is NotImplemented:
            found.__set__(self, value)

    return property(get, put, None, found.__doc__)


def subclassed(cls: type) -> None:
    """Let what a new subclass has from Tensor ask the class first: of methods and properties that are written for
    tensors alone; public functions ask by themselves."""
    answers = getattr(cls, "__torch_function__", not_asked)
    if answers is not_asked:
        return
    activate()
    cls._shown = cls.__name__  # type: ignore[attr-defined]
    own = getattr(answers, "__func__", answers) is not torch_function
    names = {**Tensor.__mro__[1].__dict__, **Tensor.__dict__} if own else dict.fromkeys(_GIVE_TENSORS)
    between = [c for c in cls.__mro__ if issubclass(c, Tensor) and c is not Tensor]
    for name in names:
        private = name.startswith("_") and not (name.startswith("__") and name.endswith("__"))
        if private or name in _LEFT or any(_written(c, name) for c in between):
            continue
        found = Tensor.__dict__.get(name, Tensor.__mro__[1].__dict__.get(name))
        if isinstance(found, types.FunctionType) and found.__module__.partition(".")[0] != OURS:
            continue  # a package's own, which asks where it calls ours
        if isinstance(found, _KINDS):
            setattr(cls, name, _method(found))
        elif isinstance(found, _PROPERTIES):
            setattr(cls, name, _property(found))


def _written(cls: type, name: str) -> bool:
    """Return whether a class has a name of its own, and not one that `subclassed` gave it."""
    return name in cls.__dict__


def _init_subclass(cls: Any, /, **keywords: Any) -> None:
    super(Tensor, cls).__init_subclass__(**keywords)
    subclassed(cls)


def _make_subclass(cls: type, data: Tensor, require_grad: bool = False, **options: Any) -> Any:
    """Return a tensor of a subclass over the memory of another, outside its graph.

    >>> import core
    >>> class Tagged(core.Tensor): ...
    >>> type(core.Tensor._make_subclass(Tagged, core.ones(2))).__name__
    'Tagged'
    """
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise TypeError(text("cls must be a subclass of Tensor", op="_make_subclass", came=repr(cls)))
    with nobody_asked():
        made = data.detach()
        made.__class__ = cls
        return made.requires_grad_(require_grad) if require_grad else made


def _make_wrapper_subclass(cls: type, *sizes: Any, **options: Any) -> Any:
    """Raise: a tensor without memory of its own, whose class is asked by ``__torch_dispatch__``, is not here."""
    raise NotImplementedError(
        text("tensors without memory of their own, with __torch_dispatch__, are not here", op="_make_wrapper_subclass",
             came=cls.__name__, remedy="Tensor._make_subclass over a tensor, and __torch_function__"))  # fmt: skip


as_they_are.add((Tensor.__dict__.get("grad") or Tensor.__mro__[1].__dict__["grad"]).__get__)

_members: dict[str, Any] = {
    "__torch_function__": classmethod(torch_function),
    "__init_subclass__": classmethod(_init_subclass),
    "_make_subclass": staticmethod(_make_subclass),
    "_make_wrapper_subclass": staticmethod(_make_wrapper_subclass),
}
for _name, _member in _members.items():
    setattr(Tensor, _name, _member)
if native.module is not None:
    native.module.set_ask(ask, not_asked)
