"""The public names of core: each with its signature and its docstring, by the module that shows it.

Nothing is written here: names come from the modules, as `core` shows them, signatures and texts from the objects.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import core
from core.dispatch import publish

_INNER = re.compile(r"core\.(native|base|declare|dispatch|events|graph|tensors|ops|rng|backends\.)")
_PLAIN = (bool, int, float, str, type(None))


@dataclass
class Entry:
    """A public name: what it is, and where else the same thing is shown."""

    name: str
    kind: str
    """function, class, method, property, exception or data"""
    signature: str
    doc: str
    also: list[str] = field(default_factory=list)
    members: list[Entry] = field(default_factory=list)


@dataclass
class Page:
    """A public module, or the class Tensor."""

    name: str
    doc: str
    entries: list[Entry] = field(default_factory=list)
    elsewhere: dict[str, str] = field(default_factory=dict)
    """Names that are described on another page, by the name that they have there."""


def pages() -> list[Page]:
    """Return the pages, `core` first.

    >>> core_page = pages()[0]
    >>> next(e.signature for e in core_page.entries if e.name == "core.softmax")
    '(input: Tensor, dim: Dim, dtype: Dtype | None = None) -> Tensor'
    """
    described: dict[int, Entry] = {}
    found = [_page(name, module, described) for name, module in _modules()]
    found.insert(1, _tensor(described))
    return [page for page in found if page.entries or page.elsewhere]


def _modules() -> Iterable[tuple[str, ModuleType]]:
    """Go through the public modules, those with the shorter paths first."""
    waiting: list[tuple[str, ModuleType]] = [("core", core)]
    seen: set[int] = set()
    while waiting:
        name, module = waiting.pop(0)
        if id(module) in seen:
            continue
        seen.add(id(module))
        yield name, module
        for n in _names(name, module):
            inner = getattr(module, n, None)
            if isinstance(inner, ModuleType) and inner.__name__ == f"{module.__name__}.{n}":
                waiting += [(f"{name}.{n}", inner)] * (not _INNER.match(inner.__name__))


def _names(name: str, module: ModuleType) -> list[str]:
    shown = getattr(module, "__all__", None)
    return sorted(shown) if shown else sorted(n for n in vars(module) if not n.startswith("_"))


def _page(name: str, module: ModuleType, described: dict[int, Entry]) -> Page:
    page = Page(name, inspect.getdoc(module) or "")
    published = publish.namespaces.get(name.removeprefix("core").lstrip("."), ())
    for n in _names(name, module):
        thing = getattr(module, n, None)
        if isinstance(thing, ModuleType) or not callable(thing) or not _ours(thing):
            continue
        own = str(getattr(thing, "__module__", "")).startswith(name) or n in published
        if not own and not hasattr(module, "__all__"):
            continue  # what a module without a list of its names has imported for itself
        path = f"{name}.{n}"
        if id(thing) in described:
            page.elsewhere[path] = described[id(thing)].name
            described[id(thing)].also.append(path)
        else:
            described[id(thing)] = entry = _entry(path, thing)
            page.entries.append(entry)
    return page


def _ours(thing: Any) -> bool:
    return str(getattr(thing, "__module__", None) or "core").split(".")[0] == "core"


def _entry(path: str, thing: Any) -> Entry:
    if not inspect.isclass(thing):
        return Entry(path, "function", _signature(thing), inspect.getdoc(thing) or "")
    kind = "exception" if issubclass(thing, BaseException) else "class"
    entry = Entry(path, kind, _signature(thing), inspect.getdoc(thing) or "")
    if thing is not core.Tensor:
        entry.members = [_member(path, n, vars(thing)[n]) for n in sorted(vars(thing)) if _shown(thing, n)]
    return entry


def _shown(cls: type, name: str) -> bool:
    """Whether a class's own attribute has a text of its own to be shown."""
    thing = vars(cls)[name]
    thing = getattr(thing, "__func__", thing)
    if name.startswith("_") or not (inspect.isfunction(thing) or isinstance(thing, property)) or not thing.__doc__:
        return False
    return all(getattr(getattr(base, name, None), "__doc__", None) != thing.__doc__ for base in cls.__mro__[1:])


def _member(path: str, name: str, thing: Any) -> Entry:
    thing = getattr(thing, "__func__", thing)
    doc = inspect.getdoc(thing) or ""
    if isinstance(thing, property):
        return Entry(f"{path}.{name}", "property", "", doc)
    return Entry(f"{path}.{name}", "method", _signature(thing, method=True), doc)


def _tensor(described: dict[int, Entry]) -> Page:
    """Return Tensor's methods; one that is a function's stands with the function."""
    page = Page("core.Tensor", inspect.getdoc(core.Tensor) or "")
    functions = {entry.name: entry for entry in described.values()}
    for name in sorted(n for n in dir(core.Tensor) if not n.startswith("_")):
        thing = inspect.getattr_static(core.Tensor, name)
        path = f"core.Tensor.{name}"
        for space in ("core.", "core.nn.functional.", "core.linalg."):
            same = functions.get(space + name)
            if same is not None and same.doc == (inspect.getdoc(getattr(core.Tensor, name)) or ""):
                page.elsewhere[path] = same.name
                same.also.append(f"Tensor.{name}")
                break
        else:
            if isinstance(thing, property) or inspect.isdatadescriptor(thing):
                page.entries.append(Entry(path, "property", "", inspect.getdoc(thing) or ""))
            elif callable(getattr(core.Tensor, name)):
                page.entries.append(_member("core.Tensor", name, thing))
    return page


def _signature(thing: Any, *, method: bool = False) -> str:
    """Return a signature as its header is written; "(...)" where Python does not know it."""
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return "(...)"
    parts, star = [], False
    parameters = list(signature.parameters.values())[1 if method else 0 :]
    for k, p in enumerate(parameters):
        if p.kind is p.KEYWORD_ONLY and not star:
            parts.append("*")
        star = star or p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)
        parts.append(_parameter(p))
        last = k + 1 == len(parameters) or parameters[k + 1].kind is not p.POSITIONAL_ONLY
        if p.kind is p.POSITIONAL_ONLY and last:
            parts.append("/")
    returns = _annotation(signature.return_annotation)
    return f"({', '.join(parts)})" + (f" -> {returns}" if returns and not inspect.isclass(thing) else "")


def _annotation(annotation: Any) -> str:
    if annotation is inspect.Parameter.empty:
        return ""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z_])", "", text)


def _parameter(p: inspect.Parameter) -> str:
    text = ("*" if p.kind is p.VAR_POSITIONAL else "**" if p.kind is p.VAR_KEYWORD else "") + p.name
    annotation = _annotation(p.annotation)
    text += f": {annotation}" if annotation else ""
    if p.default is p.empty:
        return text
    plain = isinstance(p.default, _PLAIN) or (
        isinstance(p.default, tuple) and all(isinstance(v, _PLAIN) for v in p.default)
    )
    written = repr(p.default) if plain and _finite(p.default) else "..."
    return f"{text} = {written}" if annotation else f"{text}={written}"


def _finite(value: Any) -> bool:
    return not isinstance(value, float) or math.isfinite(value)
