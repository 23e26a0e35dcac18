"""Every argument name that PyTorch documents, of functions, methods and classes: core's take it too.

The names are those of the signatures in docstrings' first lines, of Python's own signatures, and of the stubs of what
is written in C++. ``python -m tests.parity.test_keywords`` prints what core refuses.
"""

from __future__ import annotations

import ast
import contextlib
import enum
import functools
import importlib
import inspect
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import core
from core.base.absent import is_absent
from core.declare.signature import signature_by

MODULES = ("", "Tensor", "amp", "autograd", "autograd.functional", "autograd.forward_ad", "autograd.graph",
    "backends.cuda", "cuda", "distributions", "distributions.constraints", "distributions.transforms", "fft", "func",
    "linalg", "nn", "nn.attention", "nn.functional", "nn.init", "nn.parameter", "nn.utils", "nn.utils.parametrizations",
    "nn.utils.parametrize", "nn.utils.prune", "nn.utils.rnn", "optim", "optim.lr_scheduler", "optim.swa_utils",
    "profiler", "random", "serialization", "signal.windows", "sparse", "special", "testing", "utils.checkpoint",
    "utils.data", "utils.dlpack")  # fmt: skip
STUBS = {"": "_C/_VariableFunctions.pyi", "Tensor": "_C/__init__.pyi", "nn.functional": "nn/functional.pyi"}


def _names(arguments: ast.arguments) -> list[str]:
    return [a.arg for a in (*arguments.args, *arguments.kwonlyargs) if a.arg not in ("self", "cls")]


@functools.cache
def stubs(module: str) -> dict[str, set[str]]:
    """Return the argument names of a module's functions, over all overloads, as its stub has them."""
    file = STUBS.get(module)
    found: dict[str, set[str]] = {}
    if file is None:
        return found
    body: Any = ast.parse((Path(torch.__file__).parent / file).read_text()).body
    if module == "Tensor":
        body = next(n for n in body if isinstance(n, ast.ClassDef) and n.name == "TensorBase").body
    for node in body:
        if isinstance(node, ast.FunctionDef):
            found.setdefault(node.name, set()).update(_names(node.args))
    return found


def first_lines(name: str, doc: str) -> set[str]:
    """Return the argument names of the calls with which a docstring begins.

    >>> sorted(first_lines("add", "\\nadd(input, other, *, alpha=1) -> Tensor\\n\\nAdds ..."))
    ['alpha', 'input', 'other']
    """
    found: set[str] = set()
    for line in doc.strip().split("\n\n")[0].replace("\\\n", "").splitlines():
        call = re.match(rf"(?:\.\. function:: )?(?:[\w.]+\.)?{re.escape(name)}\((.*)\)(?: *->.*)?$", line.strip())
        if call:
            try:
                header: Any = ast.parse(f"def f({call[1]}): pass").body[0]
            except SyntaxError:
                continue
            found |= set(_names(header.args))
    return found


def documented(module: str, name: str, theirs: Any) -> set[str]:
    """Return the names of the arguments of a public function or class of PyTorch's."""
    found = first_lines(name, theirs.__doc__ or "")
    with contextlib.suppress(TypeError, ValueError):
        found |= {p.name for p in inspect.signature(theirs).parameters.values()
                  if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}  # fmt: skip
    if not isinstance(theirs, type):
        found |= stubs(module).get(name, set())
    return {n for n in found if not n.startswith("_")} - {"self", "cls"}


def accepted(ours: Any) -> set[str] | None:
    """Return the names by which core's takes arguments; None where it takes any."""
    names: set[str] = set()
    function = ours
    while True:  # what wraps a function may take more than it: out=
        try:
            parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
        except (TypeError, ValueError):
            return None
        names |= {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
        if isinstance(function, type) or not hasattr(function, "__wrapped__"):
            break
        function = function.__wrapped__
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    try:
        known = signature_by(ours) if hasattr(ours, "__wrapped__") else None  # a plain function has no other names
    except TypeError:  # an object that is called
        known = None
    return {*names, *(known.spellings if known else {})}


def _owner(library: Any, module: str) -> Any:
    if module == "Tensor" or not module:
        return library.Tensor if module else library
    return importlib.import_module(f"{library.__name__}.{module}")


def public(module: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield the names that both libraries have of a module and that have documentation, with what they name."""
    theirs, ours = _owner(torch, module), _owner(core, module)
    for name in sorted(dir(theirs)):
        if name.startswith("_"):
            continue
        a, b = getattr(theirs, name, None), getattr(ours, name, None)
        if (
            callable(a)
            and b is not None
            and callable(b)
            and a.__doc__
            and not is_absent(b)
            and not (isinstance(a, type) and issubclass(a, enum.Enum | BaseException))
        ):
            yield name, a, b


# Names that stand in PyTorch's pages or stubs, and that PyTorch itself refuses: a call with each.
BY_POSITION: dict[str, Callable[[Any, Any], Any]] = {
    "torch.set_num_threads(int=)": lambda t, x: t.set_num_threads(int=1),
    "torch.set_num_threads(num=)": lambda t, x: t.set_num_threads(num=1),
    "torch.from_numpy(ndarray=)": lambda t, x: t.from_numpy(ndarray=np.ones(1)),
    "torch.searchsorted(values=)": lambda t, x: t.searchsorted(x[0], values=x[0]),
    "torch.true_divide(dividend=)": lambda t, x: t.true_divide(dividend=x, other=x),
    "torch.true_divide(divisor=)": lambda t, x: t.true_divide(x, divisor=x),
    "torch.unsafe_split(split_size_or_sections=)": lambda t, x: t.unsafe_split(x, split_size_or_sections=1),
    "torch.std_mean(out=)": lambda t, x: t.std_mean(x, 0, out=(x[0].clone(), x[0].clone())),
    "torch.var_mean(out=)": lambda t, x: t.var_mean(x, 0, out=(x[0].clone(), x[0].clone())),
    "torch.argsort(out=)": lambda t, x: t.argsort(x, out=x.long()),
    "torch.broadcast_to(shape=)": lambda t, x: t.broadcast_to(x, shape=(2, 2)),
    "torch.swapaxes(axis0=)": lambda t, x: t.swapaxes(x, axis0=0, dim1=1),
    "torch.swapaxes(axis1=)": lambda t, x: t.swapaxes(x, dim0=0, axis1=1),
    "Tensor.apply_(callable=)": lambda t, x: x.clone().apply_(callable=abs),
    "Tensor.arctanh_(other=)": lambda t, x: x.clone().arctanh_(other=x),
    "Tensor.atanh_(other=)": lambda t, x: x.clone().atanh_(other=x),
    "Tensor.bmm(batch2=)": lambda t, x: x[None].bmm(batch2=x[None]),
    "Tensor.broadcast_to(shape=)": lambda t, x: x.broadcast_to(shape=(2, 2)),
    **{f"Tensor.{n}(value=)": lambda t, x, n=n: getattr(x.clone(), n)(value=2) for n in (
        "div", "div_", "divide", "divide_", "floor_divide", "floor_divide_", "mul", "mul_", "multiply", "multiply_",
        "true_divide", "true_divide_")},
    **{f"Tensor.{n}(divisor=)": lambda t, x, n=n: getattr(x.clone(), n)(divisor=2) for n in (
        "fmod", "fmod_", "remainder", "remainder_")},
    **{f"Tensor.{n}(dimension=)": lambda t, x, n=n: getattr(x, n)(dimension=0, start=0, length=1) for n in (
        "narrow", "narrow_copy")},
    **{f"Tensor.{n}(split_size_or_sections=)": lambda t, x, n=n: getattr(x[None], n)(split_size_or_sections=1)
       for n in ("dsplit", "hsplit", "vsplit")},
    "Tensor.dot(other=)": lambda t, x: x[0].dot(other=x[0]),
    "Tensor.index_copy(tensor2=)": lambda t, x: x.index_copy(0, t.tensor([0, 1]), tensor2=x),
    "Tensor.index_copy_(tensor=)": lambda t, x: x.clone().index_copy_(0, t.tensor([0, 1]), tensor=x),
    "Tensor.map_(tensor=)": lambda t, x: x.clone().map_(tensor=x, callable=max),
    "Tensor.masked_scatter(tensor=)": lambda t, x: x.masked_scatter(x > 0, tensor=x),
    "Tensor.matmul(tensor2=)": lambda t, x: x.matmul(tensor2=x),
    "Tensor.record_stream(stream=)": lambda t, x: x.record_stream(stream=None),
    "Tensor.requires_grad_(mode=)": lambda t, x: x.clone().requires_grad_(mode=True),
    "Tensor.resize_as_(tensor=)": lambda t, x: x.clone().resize_as_(tensor=x),
    "Tensor.swapaxes(axis0=)": lambda t, x: x.swapaxes(axis0=0, dim1=1),
    "Tensor.swapaxes(axis1=)": lambda t, x: x.swapaxes(dim0=0, axis1=1),
    "Tensor.swapaxes_(axis0=)": lambda t, x: x.clone().swapaxes_(axis0=0, dim1=1),
    "Tensor.swapaxes_(axis1=)": lambda t, x: x.clone().swapaxes_(dim0=0, axis1=1),
    "Tensor.take(indices=)": lambda t, x: x.take(indices=t.tensor([0])),
    "Tensor.to(other=)": lambda t, x: x.to(other=x),
    "Tensor.to_sparse(sparseDims=)": lambda t, x: x.to_sparse(sparseDims=1),
    "Tensor.type_as(tensor=)": lambda t, x: x.type_as(tensor=x),
    "Tensor.where(y=)": lambda t, x: x.where(x > 0, y=x),
}  # fmt: skip

# Functions of core's that read their keywords themselves, each called with all that are documented.
MADE = {"dtype": "float32", "device": "cpu", "requires_grad": False, "pin_memory": False}
CALLS: dict[str, Callable[[Any, Any, dict[str, Any]], Any]] = {
    "arange": lambda t, x, made: t.arange(start=0, end=4, step=2, out=t.empty(2), layout=t.strided, **made),
    "empty": lambda t, x, made: (
        t.empty(size=(2,), out=t.empty(2), layout=t.strided, **made),
        t.empty(size=(2,), memory_format=t.contiguous_format),
    )[1].zero_(),
    "empty_permuted": lambda t, x, made: t.empty_permuted(size=(2, 3), physical_layout=(1, 0), layout=t.strided,
                                                          **made).zero_(),
    "empty_strided": lambda t, x, made: t.empty_strided(size=(2,), stride=(1,), layout=t.strided, **made).zero_(),
    "eye": lambda t, x, made: t.eye(n=2, m=3, out=t.empty(2, 3), layout=t.strided, **made),
    "full": lambda t, x, made: t.full(size=(2,), fill_value=1, out=t.empty(2), layout=t.strided, **made),
    "linspace": lambda t, x, made: t.linspace(start=0, end=1, steps=3, out=t.empty(3), layout=t.strided, **made),
    "logspace": lambda t, x, made: t.logspace(start=0, end=1, steps=3, base=2, out=t.empty(3),
                                              layout=t.strided, **made),
    "ones": lambda t, x, made: t.ones(size=(2,), out=t.empty(2), layout=t.strided, **made),
    "zeros": lambda t, x, made: t.zeros(size=(2,), out=t.empty(2), layout=t.strided, **made),
    **{n: lambda t, x, made, n=n: getattr(t, n)(input=x, layout=t.strided, memory_format=t.preserve_format, **made)
       for n in ("ones_like", "zeros_like")},
    **{n: lambda t, x, made, n=n: getattr(t, n)(input=x, layout=t.strided,
                                               memory_format=t.preserve_format, **made).zero_()
       for n in ("empty_like", "rand_like", "randn_like")},
    "full_like": lambda t, x, made: t.full_like(input=x, fill_value=2, layout=t.strided,
                                                memory_format=t.preserve_format, **made),
    **{n: lambda t, x, made, n=n: getattr(t, n)(size=(2,), generator=t.Generator(), out=t.empty(2), layout=t.strided,
                                               **made).zero_() for n in ("rand", "randn")},
    "randint": lambda t, x, made: t.randint(low=0, high=1, size=(2,), generator=t.Generator(), out=t.empty(2),
                                            layout=t.strided, **made),
    "randint_like": lambda t, x, made: t.randint_like(input=x, low=0, high=1, layout=t.strided,
                                                      memory_format=t.preserve_format, **made),
    "randperm": lambda t, x, made: t.randperm(n=1, generator=t.Generator(), out=t.empty(1), layout=t.strided, **made),
    "normal": lambda t, x, made: t.normal(mean=0.0, std=1.0, size=(2,), generator=t.Generator(),
                                          out=t.empty(2)).zero_(),
    "Tensor.new_empty": lambda t, x, made: x.new_empty(size=(2,), layout=t.strided, **made).zero_(),
    "Tensor.new_full": lambda t, x, made: x.new_full(size=(2,), fill_value=3, layout=t.strided, **made),
    "Tensor.new_ones": lambda t, x, made: x.new_ones(size=(2,), layout=t.strided, **made),
    "Tensor.new_zeros": lambda t, x, made: x.new_zeros(size=(2,), layout=t.strided, **made),
    "Tensor.new_tensor": lambda t, x, made: x.new_tensor(data=[1.0], dtype=t.float32, device="cpu",
                                                          requires_grad=False),
}  # fmt: skip
# Those that hand their keywords on, or take any: seen in other tests.
ANY = {
    "Stream", "compile", "load", "cuda.Stream", "nn.utils.skip_init", "nn.utils.prune.global_unstructured",
    "profiler.profile", "serialization.load", "testing.make_tensor", "utils.checkpoint.checkpoint",
    "utils.checkpoint.checkpoint_sequential", "Tensor.random_", "Tensor.uniform_", "nn.functional.celu_",
}  # fmt: skip


def refused(module: str) -> tuple[int, list[str], list[str]]:
    """Return how many functions were looked at, those that take any name, and the names that are refused."""
    count, anything, told = 0, [], []
    for name, theirs, ours in public(module):
        wanted = documented(module, name, theirs)
        takes = accepted(ours)
        if takes is None and name.endswith("_") and (plain := getattr(_owner(core, module), name[:-1], None)):
            takes = accepted(plain)
        count += 1
        if takes is None:
            anything += [f"{module}.{name}".lstrip(".")] if wanted else []
            continue
        told += [f"{module or 'torch'}.{name}({n}=)" for n in sorted(wanted - takes)]
    return count, anything, told


def test_every_documented_name_of_an_argument_is_taken() -> None:
    found = [refused(m) for m in MODULES]
    assert sum(count for count, _, _ in found) > 1500
    assert [line for _, _, told in found for line in told if line not in BY_POSITION] == []
    assert {name for _, anything, _ in found for name in anything} <= {*CALLS, *ANY}


@pytest.mark.parametrize("name", BY_POSITION)
def test_what_is_documented_by_a_name_that_pytorch_refuses(name: str) -> None:
    with pytest.raises(TypeError):
        BY_POSITION[name](torch, torch.eye(2))


@pytest.mark.parametrize("name", CALLS)
def test_a_function_that_reads_its_keywords_itself_takes_all_of_them(name: str) -> None:
    values = [CALLS[name](t, t.eye(2), {**MADE, "dtype": t.float32}).tolist() for t in (torch, core)]
    assert values[0] == values[1]


@pytest.mark.parametrize("call", [
    lambda t, x: t.result_type(scalar=2, tensor=x),
    lambda t, x: t.result_type(scalar1=2, scalar2=2.0),
    lambda t, x: t.promote_types(type1=t.int8, type2=t.uint8),
    lambda t, x: t.sum(x, 0, out=x[0].clone()),
    lambda t, x: t.prod(x, 0, out=x[0].clone()),
    lambda t, x: t.chain_matmul(x, x, out=x.clone()),
    lambda t, x: x.clone().map_(other=x, callable=lambda a, b: a + 2 * b),
    lambda t, x: x.new_empty_strided((2, 2), (1, 2), layout=t.strided, pin_memory=False).stride(),
    lambda t, x: x.dim_order(ambiguity_check=True),
    lambda t, x: x.t().dim_order(ambiguity_check=[t.contiguous_format]),
    lambda t, x: t.ones(1, 2).dim_order(ambiguity_check=True),
    lambda t, x: t.tril_indices(2, 2, layout=t.strided, pin_memory=False, requires_grad=False),
    lambda t, x: t.bartlett_window(4, pin_memory=False),
    lambda t, x: t.nn.Hardtanh(min_value=0.5, max_value=0.75)(x),
    lambda t, x: t.enable_grad(orig_func=lambda: 2)(),
])  # fmt: skip
def test_names_that_were_refused_do_what_they_do_in_pytorch(call: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, ours = _told(call, torch), _told(call, core)
    assert theirs == ours


def _told(call: Any, t: Any) -> str:
    try:
        found = call(t, t.tensor([[1.0, 0.25], [0.5, 2.0]]))
    except RuntimeError:
        return "RuntimeError"
    return str(found.tolist() if hasattr(found, "tolist") else found).removeprefix("torch.").removeprefix("core.")


if __name__ == "__main__":
    for m in MODULES:
        n, free, no = refused(m)
        print(
            f"{m or 'torch'}: {n} callables, {len(no)} names refused; any name is taken by: {', '.join(free) or 'none'}"
        )
        for line in no:
            print("   ", line, " by PyTorch too" if line in BY_POSITION else "")
