"""The one signature of a public function: its own `def` header, read once, when somebody asks.

What a function takes stands in its header alone, in the kinds of `core.declare.kinds`. `core.dispatch.publish` tells of
every function that it makes public; from the register here the C readers of arguments, the errors for wrong ones, and
the stubs for editors and type checkers are printed. An elementwise op has its signature from its declaration.
"""

from __future__ import annotations

import functools
import inspect
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from .kinds import KINDS, SAME
from .op import Elementwise

MISSING = object()  # the default of a parameter that has none

# NumPy's names of a parameter, which PyTorch's functions take beside their own
SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "dim": ("axis",),
    "keepdim": ("keepdims",),
    "input": ("x", "a", "x1"),
    "other": ("x2",),
    "A": ("input",),
}

# What else PyTorch calls the parameters of single functions: names of its documentation, of its overloads (hsplit takes
# sections=, and indices=), and of the signatures behind it.
OTHER_NAMES: Mapping[str, Mapping[str, str]] = {
    "lerp": {"end": "other"},
    "heaviside": {"values": "other"},
    **{f"{d}split": {"sections": "indices_or_sections", "indices": "indices_or_sections"} for d in "hvd"},
    "tensor_split": dict.fromkeys(("sections", "indices", "tensor_indices_or_sections"), "indices_or_sections"),
    "split": {"split_size": "split_size_or_sections", "split_sizes": "split_size_or_sections"},
    "unsafe_split": {"input": "tensor"},
    "unsafe_split_with_sizes": {"input": "tensor", "split_sizes": "split_size"},
    "isin": {"element": "elements", "test_element": "test_elements"},
    "uniform_": {"from": "a", "to": "b"},
    "random_": {"from": "low", "to": "high"},
    "copy_": {"other": "src"},
    "resize_as_": {"the_template": "other"},
    "one_hot": {"input": "tensor"},
    "triangular_solve": {"input": "b"},
    "cholesky_solve": {"input": "B", "input2": "L"},
    "cholesky_inverse": {"input": "L"},
    "lu_solve": {"input": "b"},
    "orgqr": {"input2": "tau"},
    "vector_norm": {"input": "x"},
    "lstsq": {"b": "B"},
    "tensorsolve": {"other": "B"},
    "ormqr": {"input2": "tau", "input3": "other"},
    "result_type": {
        "tensor": "tensor1",
        "other": "tensor2",
        "scalar": "tensor2",
        "scalar1": "tensor1",
        "scalar2": "tensor2",
    },
}

# What PyTorch's nn.functional has from C; the rest of it is written in Python, and takes arguments by no other names.
BUILT_IN = {
    "adaptive_avg_pool1d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "bilinear", "channel_shuffle", "conv1d",
    "conv2d", "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "gelu",
    "hardshrink", "linear", "logsigmoid", "native_channel_shuffle", "one_hot", "pairwise_distance", "pdist",
    "pixel_shuffle", "pixel_unshuffle", "scaled_dot_product_attention", "softplus", "softshrink",
}  # fmt: skip


class Parameter(NamedTuple):
    """One parameter. `kinds` are the alternatives that it takes, without None, which `optional` tells; `many` collects
    the positional ones, as ``*size`` does; `choices` are the words of a Literal."""

    name: str
    kinds: tuple[str, ...]
    optional: bool = False
    default: Any = MISSING
    keyword_only: bool = False
    many: bool = False
    positional_only: bool = False
    choices: tuple[str, ...] = ()
    annotation: str = "Any"

    @property
    def kind(self) -> str:
        """The first of the alternatives, by which errors call it."""
        return self.kinds[0]

    @property
    def required(self) -> bool:
        return self.default is MISSING and not self.many


class Fast(NamedTuple):
    """A plain call that C takes: for which types of tensors, and what it comes to.

    One of `op`, `elementwise` and `body` says it, as a call over the parameters: ``"sum(input, dim, keepdim)"``: a
    structured op, an elementwise one, or a hand-written C function over the values that were read. A parameter that it
    does not mention must be at its default.

    types : the dtypes of each tensor, ``{"input": "real int64"}``.
    check : named C conditions over the read values.
    given : parameters that must be there.
    result : the named tuple that is made of the outputs.
    ignored : parameters that change nothing.
    instead : what stands for a parameter that was left out.
    ndim : among how many dimensions a Dim counts, where not among those of the first tensor.
    raw : parameters that a body reads itself.
    """

    op: str = ""
    elementwise: str = ""
    body: str = ""
    types: Mapping[str, str] = MappingProxyType({})
    check: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    result: str = ""
    ignored: tuple[str, ...] = ()
    instead: Mapping[str, str] = MappingProxyType({})
    ndim: Mapping[str, str] = MappingProxyType({})
    raw: tuple[str, ...] = ()

    @property
    def target(self) -> tuple[str, str, list[str]]:
        """How it is computed, by what, and of which parameters: ("op", "sum", ["input", "dim", "keepdim"])."""
        how = "op" if self.op else "elementwise" if self.elementwise else "body"
        found = re.fullmatch(r"(\w+)\((.*)\)", getattr(self, how))
        if found is None:
            raise ValueError(f"not a call over parameters: {getattr(self, how)!r}")
        return how, found[1], [a.strip() for a in found[2].split(",") if a.strip()]


class Signature(NamedTuple):
    """What a public function takes and gives, and where it is shown.

    namespace : "", "nn.functional", "linalg", ...; None where it is a method alone.
    method, inplace : whether Tensor has it, and has its form ``name_``.
    python : whether PyTorch's own is written in Python, and so takes no other spelling of a name.
    fast, state, home : the plain calls, which state of the thread they need ("plain", "quiet", "any"), and the file
        of core/native/binding/calls that has their bodies, if they have any.
    """

    name: str
    parameters: tuple[Parameter, ...]
    returns: str
    aliases: tuple[str, ...] = ()
    method: bool = True
    namespace: str | None = ""
    inplace: bool = False
    python: bool = False
    fast: tuple[Fast, ...] = ()
    state: str = "plain"
    home: str = ""

    @property
    def positional(self) -> list[Parameter]:
        return [p for p in self.parameters if not p.keyword_only]

    @property
    def spellings(self) -> dict[str, str]:
        """The other names by which PyTorch takes arguments too, and the parameters' own; most of nn.functional is
        written in Python, and takes none."""
        return {} if self.python else spellings_among([p.name for p in self.parameters], self.name)

    def parameter(self, name: str) -> Parameter:
        """Return the parameter of that name. *Raises*: KeyError."""
        for p in self.parameters:
            if p.name == name:
                return p
        raise KeyError(f"{self.name} has no parameter {name!r}")

    def __str__(self) -> str:
        return f"{self.name}{self.python_signature()}"

    def python_signature(self) -> inspect.Signature:
        """As `inspect.signature` gives it."""
        return shown(self.parameters, self.returns)


def spellings_among(names: Sequence[str], function: str = "") -> dict[str, str]:
    """Return the other names of the parameters of these names, each with the parameter's own: NumPy's, and those that
    parameters of that function have.

    >>> spellings_among(["dim", "keepdim"])
    {'axis': 'dim', 'keepdims': 'keepdim'}
    >>> spellings_among(["input", "other", "weight"], "lerp")["end"]
    'other'
    """
    found = {s: n for n in names for s in SPELLINGS.get(n, ()) if s not in names}
    return found | {s: n for s, n in OTHER_NAMES.get(function, {}).items() if n in names and s not in names}


def shown(parameters: Sequence[Parameter], returns: str) -> inspect.Signature:
    """As `inspect.signature` and help() show it."""
    return inspect.Signature([_of_python(p) for p in parameters], return_annotation=returns)


def _of_python(p: Parameter) -> inspect.Parameter:
    kinds = inspect.Parameter
    kind = (kinds.VAR_POSITIONAL if p.many else kinds.KEYWORD_ONLY if p.keyword_only
            else kinds.POSITIONAL_ONLY if p.positional_only else kinds.POSITIONAL_OR_KEYWORD)  # fmt: skip
    return kinds(p.name, kind, default=kinds.empty if p.default is MISSING else p.default, annotation=p.annotation)


# -- reading a header --------------------------------------------------------------------------------------------------


def alternatives(annotation: str) -> list[str]:
    """Return what an annotation takes: its parts between the bars that stand in no brackets."""
    parts, depth = [""], 0
    for c in annotation:
        depth += (c in "[(") - (c in "])")
        if c == "|" and not depth:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip() for p in parts]


def parameter(name: str, annotation: str, **also: Any) -> Parameter:
    """Return a parameter from its annotation.

    >>> parameter("dim", "Dims | None", default=None).kinds
    ('Dims',)
    """
    parts = alternatives(annotation)
    words: list[str] = []
    for part in parts:
        if part.startswith("Literal["):
            words += re.findall(r"[\"']([^\"']*)[\"']", part)
    kinds = ["Text" if p.startswith("Literal[") else SAME.get(p, p) for p in parts if p != "None"]
    known = tuple(dict.fromkeys(k if k in KINDS else "Any" for k in kinds)) or ("Any",)
    optional = "None" in parts or "Any" in known
    return Parameter(name, known, optional, choices=tuple(words), annotation=annotation, **also)


def read(function: Callable[..., Any]) -> tuple[tuple[Parameter, ...], str]:
    """Return the parameters of a function's header, and what it returns."""
    writes = _takes_out(function)
    inner = inspect.unwrap(function)
    op = getattr(inner, "op", None)
    if isinstance(op, Elementwise):
        return of_elementwise(op), "Tensor"
    header = inspect.signature(inner)
    found = []
    for p in header.parameters.values():
        if p.kind is p.VAR_KEYWORD:  # words that have no meaning here: pin_memory, layout
            continue
        found.append(
            parameter(
                p.name,
                "Tensor" if p.name == "self" else _as_text(p.annotation),  # of a method of Tensor
                default=MISSING if p.default is p.empty else p.default,
                keyword_only=p.kind is p.KEYWORD_ONLY,
                many=p.kind is p.VAR_POSITIONAL,
                positional_only=p.kind is p.POSITIONAL_ONLY,
            )
        )
    if writes and not any(p.name == "out" for p in found):
        kind = "Tensor | None" if header.return_annotation == "Tensor" else "Tensors | None"
        found.append(parameter("out", kind, default=None, keyword_only=True))
    return tuple(found), _as_text(header.return_annotation)


def _takes_out(function: Any) -> bool:
    """Return whether something that wraps the function gives it ``out=``."""
    while hasattr(function, "__wrapped__"):
        code = getattr(function, "__code__", None)
        if code is not None and "out" in code.co_varnames[code.co_argcount :][: code.co_kwonlyargcount]:
            return True
        function = function.__wrapped__
    return False


def _as_text(annotation: Any) -> str:
    if annotation is inspect.Signature.empty:
        return "Any"
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))


def of_elementwise(op: Elementwise) -> tuple[Parameter, ...]:
    """Return the parameters of an elementwise op's public function: its inputs, its numbers, and `out`."""
    own = [*op.inputs, *op.params]
    names = [public_name(n) for n in own]
    names = names if len(set(names)) == len(own) else own  # of an op that no user calls
    several = len(op.inputs) > 1
    found = [parameter(n, "Operand" if several and n not in op.tensors else "Tensor") for n in names[: len(op.inputs)]]
    found += [
        parameter(n, "Number", default=v) for n, v in zip(names[len(op.inputs) :], op.params.values(), strict=True)
    ]
    found.append(parameter("out", "Tensor | None", default=None, keyword_only=True))
    return tuple(found)


def public_name(name: str) -> str:
    """Return what users call an input that a formula calls x, a or b: PyTorch's names."""
    return {"x": "input", "a": "input", "b": "other"}.get(name, name)


# -- the register ------------------------------------------------------------------------------------------------------


class Public(NamedTuple):
    """A function that was made public, its header not read yet."""

    function: Callable[..., Any]
    name: str
    aliases: tuple[str, ...]
    method: bool
    namespace: str | None
    inplace: bool
    python: bool
    fast: tuple[Fast, ...]
    state: str
    home: str

    @property
    def symbol(self) -> str:
        """Its name in C."""
        return f"{self.namespace}_{self.name}".replace(".", "_") if self.namespace else self.name

    @property
    def key(self) -> str:
        """Its name and a fingerprint of what its parser is printed from: one that was printed from another header, or
        for other plain calls, has another key and is never asked."""
        f = inspect.unwrap(self.function)
        parameters = f.__code__.co_varnames[: f.__code__.co_argcount + f.__code__.co_kwonlyargcount + 2]
        header = (parameters, f.__defaults__, f.__kwdefaults__, f.__annotations__, self.fast, self.state, self.python,
                  *SPELLINGS.items(), OTHER_NAMES.get(self.name))  # fmt: skip
        return f"{self.symbol}:{zlib.crc32(repr(header).encode()):08x}"

    def signature(self) -> Signature:
        """Its signature."""
        parameters, returns = read(self.function)
        return Signature(self.name, parameters, returns, self.aliases, self.method, self.namespace, self.inplace,
                         self.python, self.fast, self.state, self.home)  # fmt: skip


_public: dict[tuple[str | None, str], Public] = {}


def register(function: Callable[..., Any], name: str, aliases: Sequence[str] = (), *, method: bool = True,
             namespace: str | None = "", inplace: bool = False, python: bool = False, fast: Sequence[Fast] = (),
             state: str = "plain", home: str = "") -> Public:  # fmt: skip
    """Take a function into the register; a later one of the same namespace and name takes its place."""
    python = python or (namespace == "nn.functional" and name not in BUILT_IN)
    found = _public[namespace, name] = Public(function, name, tuple(aliases), method, namespace, inplace, python,
                                              tuple(fast), state, home)  # fmt: skip
    return found


def registered() -> Iterator[Public]:
    """All functions that were made public, in that order, their headers not read yet."""
    return iter(_public.values())


def signatures() -> Iterator[Signature]:
    """Return the signatures of all public functions, in the order in which they were made public."""
    return (p.signature() for p in _public.values())


def signature_of(name: str, namespace: str | None = "") -> Signature:
    """Return the signature of one public function. *Raises*: KeyError."""
    return _public[namespace, name].signature()


@functools.cache
def signature_by(function: Callable[..., Any]) -> Signature | None:
    """Return the signature of what was made public of `function`, or of a function that it wraps; of one that is not in
    the register, its header's. None where that cannot be read."""
    inner: Callable[..., Any] | None = function
    while inner is not None:
        for p in _public.values():
            if p.function is inner:
                return p.signature()
        inner = getattr(inner, "__wrapped__", None)
    layer = getattr(function, "__module__", None) == "core.nn.functional"
    try:
        return Signature(function.__name__, *read(function), python=layer, namespace="nn.functional" if layer else None)
    except (AttributeError, TypeError, ValueError):
        return None
